//! What a newcomer of kgate met (issue 19): exit codes and messages of closed gates, evictions,
//! environment variables, values, and of a machine that has run out of something.

use std::process::Command;

use crate::book::Book;
use crate::fixture::{Home, KGATE, Process, text, until};

/// A closed gate has one exit code, whatever is asked of it, and each message has the command that
/// opens it. Who closed it has a name.
#[test]
fn a_closed_gate_says_how_to_open_it() {
    let home = Home::new("closed");
    let held = Book::new(&home, "gpu").hold(home.kgate(&["run", "gpu", "-k", "1"]), "holder", "");
    let mut waits = home.kgate(&["run", "gpu", "--", "true"]);
    let mut waits = Process::start(waits.stderr(std::process::Stdio::piped()));
    until("it waits", || home.said(&["status", "gpu"]).1.contains("1 waiting"));
    assert_eq!(home.code(&["set", "gpu", "-k", "0", "--no-wait"]), Some(0));
    let (code, _, error) = waits.output();
    assert!(code == Some(2) && error.contains("`kgate set gpu -k K` opens it"), "{error}");
    let user = text(&Command::new("id").arg("-un").output().unwrap().stdout);
    let commands: [&[&str]; 7] = [
        &["run", "gpu", "--", "true"],
        &["run", "gpu", "-n", "--", "true"],
        &["run", "gpu", "-k", "1", "--", "true"],
        &["run", "gpu", "-k", "3", "-p", "2", "--", "true"],
        &["run", "gpu", "-x", "--", "true"],
        &["acquire", "gpu"],
        &["acquire", "gpu", "-k", "2", "--ttl", "1m"],
    ];
    for words in commands {
        let (code, _, error) = home.said(words);
        assert_eq!(code, Some(2), "{words:?}: {error}");
        assert!(error.contains("`kgate set gpu -k K` opens it"), "{words:?}: {error}");
        assert!(error.contains(&format!("set by {user} ")), "{words:?}: {error}");
    }
    let (code, explained, _) = home.said(&["explain", "gpu"]);
    assert!(code == Some(0) && explained.contains("`kgate set gpu -k K` opens it"), "{explained}");
    let (code, _, error) = home.said(&["run", "gpu", "-k", "0", "--", "true"]);
    assert!(code == Some(2) && error.contains("kgate set NAME -k 0"), "{error}");
    assert_eq!(home.code(&["set", "gpu", "-k", "2"]), Some(0));
    assert_eq!(home.code(&["run", "gpu", "--", "true"]), Some(0));
    drop(held);
}

/// An eviction of what is not there exits with 1 and says what is not there.
#[test]
fn evictions_of_nothing() {
    let home = Home::new("evict-nothing");
    assert_eq!(home.code(&["set", "gpu", "-k", "2"]), Some(0));
    for (words, why) in [
        (&["--gate", "gpu", "--slot", "1"][..], "slot 1 of gate `gpu` is free"),
        (&["--gate", "gpu", "--slot", "2"], "has k = 2, so it has no slot 2"),
        (&["--gate", "gpu"], "nobody holds a permit of gate `gpu`"),
        (&["--gate", "none", "--slot", "0"], "there is no gate `none`"),
        (&["--session", "0:99"], "session 0:99 holds nothing"),
        (&["--permit", "7"], "there is no durable permit 7"),
    ] {
        for more in [&["--yes"][..], &[]] {
            let (code, _, error) = home.said(&[&["evict"], words, more].concat());
            assert!(code == Some(1) && error.contains(why), "{words:?} {code:?}: {error}");
        }
    }
}

/// A variable that is set and empty is an error of every command, and no other node is asked.
#[test]
fn empty_variables_are_refused() {
    let home = Home::new("empty");
    for name in ["KGATE_OPT_NODE", "KGATE_OPT_K", "KGATE_OPT_WAIT"] {
        for words in [&["run", "gpu", "--", "true"][..], &["status"], &["acquire", "gpu"]] {
            let output = home.kgate(words).env(name, "").output().unwrap();
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(&format!("{name} is set and empty")), "{error}");
        }
    }
    assert!(!home.0.join("run").exists(), "no node was started");
}

/// A value such as `-1` is answered by what the option may be, not by the advice to write it behind
/// `--`, where the command begins.
#[test]
fn negative_values_are_explained() {
    let home = Home::new("negative");
    for words in [
        &["run", "gpu", "-w", "-1", "true"][..],
        &["run", "gpu", "--timeout", "-1s", "true"],
        &["run", "gpu", "-k", "-1", "true"],
        &["run", "gpu", "-p", "-1", "true"],
        &["run", "gpu", "--grace", "-2s", "true"],
        &["set", "gpu", "-k", "1", "--wait", "-1"],
        &["acquire", "gpu", "--ttl", "-10m"],
    ] {
        let (code, _, error) = home.said(words);
        assert_eq!(code, Some(2), "{words:?}: {error}");
        assert!(error.contains("invalid value '-") && !error.contains("-- -"), "{error}");
    }
    let options = home.said(&["run", "gpu", "-w", "30", "-n", "true"]);
    assert_eq!(options.0, Some(2), "a value is not mistaken: {options:?}");
}

/// `status` shows what ends a permit of `kgate acquire`, and `ps` what its holder is.
#[test]
fn a_permit_of_a_script_says_when_it_ends() {
    let home = Home::new("until");
    let shown = || home.said(&["status", "gpu"]).1;
    for (more, until) in [
        (&["--for-pid", "none"][..], "(until `kgate release`; acquired by process "),
        (&["--ttl", "10m"], "(until 600s pass without a renewal; acquired by process "),
        (&["--for-pid", "1"], "(until process 1 "),
    ] {
        let (code, token, error) = home.said(&[&["acquire", "gpu"], more].concat());
        assert_eq!(code, Some(0), "{error}");
        assert!(shown().contains(&format!("kgate acquire gpu {until}")), "{}", shown());
        let names = text(&Command::new("ps").args(["-e", "-o", "comm"]).output().unwrap().stdout);
        assert!(names.lines().any(|name| name == "kgate holder"), "{names}");
        assert_eq!(home.code(&["release", &token]), Some(0));
    }
}

/// Out of descriptors every command ends, and says what to do; whatever is missing first.
#[test]
fn out_of_descriptors() {
    let home = Home::new("descriptors");
    assert_eq!(home.code(&["set", "gpu", "-k", "1"]), Some(0));
    let mut failed = 0;
    for limit in 7..28 {
        let line = format!("ulimit -n {limit}; exec timeout -k 1 30 {KGATE} run gpu -- true");
        let kgate = home.kgate(&[]);
        let mut command = Command::new("sh");
        command.args(["-c", &line]);
        command.envs(kgate.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        let (code, error) = (output.status.code(), text(&output.stderr));
        if code != Some(0) {
            failed += 1;
            assert!([Some(122), Some(125)].contains(&code), "{limit}: {code:?} {error}");
            assert!(error.contains("ulimit -n"), "{limit}: {error}");
        }
    }
    assert!(failed > 0, "28 are too many for this test");
    assert_eq!(home.code(&["run", "gpu", "--", "true"]), Some(0));
}

/// Where `/proc` shows another process namespace, nothing is run: the descendants of the command
/// could not be found. With a `/proc` of its own it works, as process 1 too.
#[test]
fn another_process_namespace() {
    let home = Home::new("namespace");
    let run = |more: &[&str]| {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", "30", "unshare", "-cpf", "--kill-child"]).args(more);
        command.args([KGATE, "run", "gpu", "--", "sh", "-c", "sleep 100 & exit 7"]);
        let kgate = home.kgate(&[]);
        command.envs(kgate.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let possible = Command::new("unshare").args(["-cpf", "--mount-proc", "true"]).status();
    if !possible.is_ok_and(|status| status.success()) {
        return println!("skipped: no namespaces may be created here");
    }
    // The node runs outside: its process id is known here.
    assert_eq!(home.code(&["set", "gpu", "-k", "1"]), Some(0));
    let (code, error) = run(&[]);
    assert!(code == Some(125) && error.contains("--mount-proc"), "{code:?} {error}");
    let (code, error) = run(&["--mount-proc"]);
    assert_eq!(code, Some(7), "{error}");
}

/// `kgate node --check` says whether a configuration is valid, and starts nothing.
#[test]
fn a_configuration_is_checked() {
    let home = Home::new("check");
    let file = home.0.join("node.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        home.said(&["node", "--check", "--config", file.to_str().unwrap()])
    };
    let data = home.0.join("data");
    let valid =
        format!("id = 0\nnodes = [\"127.0.0.1:1\"]\napi = \"127.0.0.1:0\"\ndata = {data:?}\n");
    let (code, _, said) = check(&valid);
    assert!(code == Some(0) && said.contains("is valid"), "{said}");
    assert!(!data.exists());
    for (wrong, why) in [
        ("nonsense = 1\n", "nonsense"),
        ("[[gate]]\nname = \"a b\"\nk = 1\n", "a b"),
        ("voters = 9\n", "voters"),
        ("faults = \"crash-stop\"\nprotocol = \"home\"\n", "follows the agreed log"),
        ("[[allow]]\nuser = \"no-such-user-of-kgate\"\nmay = [\"see\"]\n", "no-such-user"),
    ] {
        let (code, _, error) = check(&format!("{valid}{wrong}"));
        assert!(code == Some(2) && error.contains(why), "{code:?} {error}");
    }
}
