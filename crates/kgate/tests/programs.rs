//! Two programs, one command: `kgate` does what is started often, and becomes `kgate-full` for
//! everything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kgate_testkit::TempFolder;
use rustix::process::{Pid, Signal, kill_process};

/// Copies a program by another process: a process that was forked here meanwhile would have the
/// copy open for writing, and the kernel would not start it.
fn install(program: &Path, copy: &Path) {
    let status = Command::new("install").args(["-D", "-m", "755"]).args([program, copy]).status();
    assert!(status.expect("install").success(), "{}", copy.display());
}

/// Copies `kgate` alone into a folder.
fn copy_to(folder: &Path) -> PathBuf {
    let copy = folder.join("kgate");
    install(Path::new(env!("CARGO_BIN_EXE_kgate")), &copy);
    copy
}

/// Exit code, standard output and standard error. The command contacts no node by itself.
fn run(program: &Path, line: &str) -> (Option<i32>, String, String) {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KGATE_OPT_")) {
        command.env_remove(name); // A developer's own settings are not part of the test.
    }
    command.env("KGATE_OPT_NODE", "unix:/nonexistent/node.sock");
    let output = command.args(line.split_whitespace()).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A `kgate-full` that prints its arguments and exits with 42.
fn install_fake(folder: &Path) {
    let text = TempFolder::new("programs-fake");
    let file = text.join("fake");
    fs::write(&file, "#!/bin/sh\necho full \"$@\"\nexit 42\n").expect("written");
    install(&file, &folder.join("kgate-full"));
}

/// Without `kgate-full`, a command of it fails with 125 and both places where it was looked for;
/// the commands of `kgate` itself work.
#[test]
fn a_missing_program_is_named_with_its_places() {
    let folder = TempFolder::new("programs-missing");
    let kgate = copy_to(&folder.join("bin"));
    for line in ["status", "demo", "--help", "run", "run --help"] {
        let (code, _, error) = run(&kgate, line);
        assert_eq!(code, Some(125), "{line}: {error}");
        for place in ["bin/kgate-full", "lib/kgate/kgate-full"] {
            let file = folder.join(place);
            assert!(error.contains(&format!("{}", file.display())), "{line}: {place}: {error}");
        }
    }
    assert_eq!(run(&kgate, "version").0, Some(0));
    assert_eq!(run(&kgate, "release x").0, Some(2), "no token");
    fs::write(folder.join("bin/kgate-full"), "").expect("written");
    let (code, _, error) = run(&kgate, "status");
    assert!(code == Some(125) && error.contains("cannot start"), "{code:?} {error}");
}

/// Each command line reaches its program with all its words: what is started often stays in
/// `kgate`; other commands, help and usage errors go to `kgate-full`, beside it or in
/// `../lib/kgate`.
#[test]
fn each_command_reaches_its_program() {
    let folder = TempFolder::new("programs");
    for (name, companion) in [("beside", "beside"), ("prefix/bin", "prefix/lib/kgate")] {
        let kgate = copy_to(&folder.join(name));
        install_fake(&folder.join(companion));
        for line in [
            "",
            "status",
            "node --config a.toml",
            "sim --n 3",
            "setup machine",
            "help run",
            "run",
            "run --help",
            "run gpu -k x -- true",
            "acquire",
            "release",
            "--help",
            "nonsense",
        ] {
            let (code, output, error) = run(&kgate, line);
            assert_eq!(code, Some(42), "{line}: {error}");
            assert_eq!(output.trim_end(), format!("full {line}").trim_end());
        }
        for (line, expected) in [
            ("version", 0),
            ("--version", 0),
            ("-V", 0),
            ("run gpu -- true", 122),
            ("acquire gpu --for-pid none", 122),
            ("acquire gpu --ttl 1m", 122),
            ("release permit-1-00000000000000000000000000000000", 122),
            ("renew x", 2),
        ] {
            let (code, _, error) = run(&kgate, line);
            assert_eq!(code, Some(expected), "{line}: {error}");
        }
    }
}

/// `kgate-full` has all commands, also those of `kgate`, and calls itself `kgate`.
#[test]
fn the_full_program_has_all_commands() {
    let full = Path::new(env!("CARGO_BIN_EXE_kgate-full"));
    let kgate = Path::new(env!("CARGO_BIN_EXE_kgate"));
    let folder = TempFolder::new("programs-full");
    let node = format!("--node private:{}", folder.join("node").display());
    let (code, output, error) = run(full, &format!("run gpu {node} -- echo inside"));
    assert_eq!((code, output.as_str()), (Some(0), "inside\n"), "{error}");
    let node = fs::read_to_string(folder.join("node/node.pid")).expect("the node that it started");
    assert_eq!(fs::read_to_string(format!("/proc/{node}/comm")).expect("it runs"), "kgate\n");
    let node = node.parse().ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(node, Signal::KILL).expect("it runs");
    for line in ["version", "--version", "--help", "help run", "run", "release", "nonsense"] {
        assert_eq!(run(full, line), run(kgate, line), "{line}");
    }
    let (.., usage) = run(full, "run");
    assert!(usage.contains("Usage: kgate run") && !usage.contains("kgate-full"), "{usage}");
}
