//! What users of flock, sem and others expect: readers and writers, the table of the guide, and the
//! completions of the shells.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::book::Book;
use crate::cluster::{Cluster, TIMING};
use crate::fixture::{Home, KGATE, Process, block_on, text, until, until_waiting, wait_for};

/// A writer waits for all readers; readers that come later wait behind it, although slots are free;
/// then it is alone.
#[test]
fn a_writer_is_alone_and_does_not_starve() {
    let home = Home::new("writers");
    let book = Book::new(&home, "db");
    let mut reader = book.hold(home.kgate(&["run", "db", "-k", "3", "--shared"]), "reader", "");
    let node = format!("unix:{}", home.0.join("run/node.sock").display());
    let writer = home.kgate(&["run", "db", "--exclusive"]);
    let mut writer = Process::start(&mut book.inside(writer, "writer", "echo $KGATE_SLOTS >slots"));
    until_waiting(&node, "db", 1);
    let late = home.kgate(&["run", "db", "--shared"]);
    let mut late = Process::start(&mut book.inside(late, "late", ""));
    until_waiting(&node, "db", 2);
    assert_eq!(home.code(&["run", "db", "-n", "--shared", "true"]), Some(120));
    assert_eq!(home.code(&["run", "db", "-n", "--exclusive", "true"]), Some(120));
    reader.close_input();
    assert_eq!((writer.code(), late.code()), (Some(0), Some(0)));
    let names: Vec<String> = book.check(3).into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["reader", "writer", "late"]);
    assert_eq!(fs::read_to_string(home.0.join("slots")).unwrap(), "0,1,2\n");
}

/// A writer whose gate has got more slots meanwhile is not let in beside others: it asks again.
#[test]
fn a_writer_takes_the_slots_that_came_meanwhile() {
    let home = Home::new("grown");
    let cluster = Cluster::start_leased(&home, 1, TIMING);
    let api = &cluster.api[0];
    block_on(async {
        let client = kgate_client::Client::connect(api).await.unwrap();
        let reader = client.gate("db").k(2).acquire().await.unwrap();
        let writer = tokio::spawn(client.gate("db").exclusive().acquire());
        let waits = |gate: kgate_client::GateStatus<'_>, weight| {
            gate.waiting().len() == 1 && gate.waiting().all(|waiter| waiter.weight() == weight)
        };
        crate::fixture::looks_so(api, "db", |gate| waits(gate, 2)).await;
        let mut admin = kgate_client::Admin::connect(api).await.unwrap();
        admin.set_gate("db").k(4).send().await.unwrap();
        // Three slots are free: enough for the first request, and not all of them.
        crate::fixture::looks_so(api, "db", |gate| waits(gate, 4)).await;
        reader.release().await.unwrap();
        assert_eq!(writer.await.unwrap().unwrap().slots(), [0, 1, 2, 3]);
    });
}

/// Every command of kgate in the guide's table does what the other column does, with real files.
#[test]
fn the_table_of_the_guide_works() {
    let home = Home::new("table");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/one-machine.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, table) = guide.split_once("## Coming from").expect("the chapter");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let lines: Vec<String> = rows
        .map(|row| row.trim_end_matches(" |").rsplit_once("| ").expect("columns").1)
        .map(|cell| cell.trim().trim_matches('`').replace("\\|", "|"))
        .collect();
    assert!(lines.len() >= 10, "{lines:?}");
    let programs = home.0.join("bin");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(KGATE, programs.join("kgate")).unwrap();
    for name in ["backup.sh", "convert", "deploy.sh", "migrate.sh", "report.sh"] {
        let file = programs.join(name);
        fs::write(&file, format!("#!/bin/sh\necho {name} in $KGATE_GATE >> ran\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for line in &lines {
        let _ = fs::remove_file(home.0.join("ran"));
        let output = shell(&home, "sh", &format!("{line}\nwait\n"), &programs);
        let said = text(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{line}: {said}");
        let ran = fs::read_to_string(home.0.join("ran")).unwrap_or_default();
        assert!(ran.contains(".sh in") || ran.contains("convert in"), "{line}: {ran}");
    }
}

/// A shell with this user's environment, in this user's folder.
fn shell(home: &Home, shell: &str, script: &str, programs: &Path) -> std::process::Output {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let environment = home.kgate(&[]);
    let mut command = Command::new(shell);
    command.args(["-c", script]).env("PATH", path).current_dir(&home.0);
    for (name, value) in environment.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().unwrap()
}

/// A holder whose command line would clear a screen, forge a title and forge a line.
pub(crate) fn hostile_holder(home: &Home, gate: &str) -> Process {
    let hostile =
        ": '\x1b[2J\x1b]0;forged\x07\u{9b}2J\u{202e}'\n: kgate: forged\ntouch in; exec cat";
    let mut command = home.kgate(&["run", gate, "-k", "1", "sh", "-c", hostile]);
    let holder = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::null()));
    until("the holder is inside", || home.0.join("in").exists());
    holder
}

/// In a file, each line of a watch has the time. No text of a holder reaches a terminal as it is,
/// nor in JSON.
#[test]
fn a_watch_is_a_log_and_obeys_nothing() {
    let home = Home::new("log");
    let _holder = hostile_holder(&home, "gpu");
    let log = home.0.join("watch.log");
    let mut watch = home.kgate(&["watch", "gpu"]);
    let watch = Process::start(watch.stdout(fs::File::create(&log).unwrap()));
    let seen = wait_for("two lines", || {
        fs::read_to_string(&log).ok().filter(|text| text.lines().count() >= 2)
    });
    drop(watch);
    let is_time = |text: &str| text.len() == 20 && text.contains('T') && text.ends_with('Z');
    for line in seen.lines() {
        assert!(line.split_once(' ').is_some_and(|(time, _)| is_time(time)), "{seen}");
    }
    for words in [&["status"][..], &["explain", "gpu"], &["status", "--json"]] {
        let output = home.run(words);
        let said = String::from_utf8(output.stdout).unwrap();
        let obeyed = |character: char| character.is_control() && character != '\n';
        assert!(said.contains("forged") && !said.contains(obeyed), "{words:?}: {said:?}");
        assert!(words.len() == 2 && words[1] == "--json" || !said.contains('\u{202e}'), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with(": kgate")), "{said}");
    }
}

/// The node that kgate starts itself and the parts of `kgate run` are found by its name.
#[test]
fn processes_are_called_kgate() {
    let home = Home::new("named");
    let book = Book::new(&home, "gpu");
    let holder = book.hold(home.kgate(&["run", "gpu"]), "holder", "");
    let node = fs::read_to_string(home.0.join("run/node.pid")).unwrap();
    let read = |pid: &str, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    assert_eq!(read(node.trim(), "comm"), "kgate\n");
    assert!(read(node.trim(), "cmdline").starts_with("kgate\0node\0"));
    let guard = holder.guard().as_raw_nonzero().to_string();
    assert_eq!(read(&guard, "comm"), "kgate guard\n");
}

/// bash completes the names of gates, and offers no name that it would interpret, whatever a node
/// says. The other scripts are parsed where their shell is installed.
#[test]
fn shells_complete_gates() {
    let home = Home::new("completions");
    let programs = home.0.join("bin");
    fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(KGATE, programs.join("kgate")).unwrap();
    for gate in ["gpu", "gpu-2", "other"] {
        assert_eq!(home.code(&["run", gate, "true"]), Some(0), "{gate}");
    }
    let complete = "source <(kgate completions bash)
        COMP_WORDS=(kgate run g); COMP_CWORD=2; _kgate_words kgate g run
        echo \"${COMPREPLY[@]}\"
        COMP_WORDS=(kgate run gpu --nonb); COMP_CWORD=3; _kgate_words kgate --nonb gpu
        echo \"${COMPREPLY[@]}\"
        COMP_WORDS=(kgate run gpu tru); COMP_CWORD=3; _kgate_words kgate tru gpu
        echo \" ${COMPREPLY[@]} \"
        timeout() { printf '%s\\n' 'g$(reboot)' 'g;reboot' 'g x' -g 'g`x`' g/1; }
        COMP_WORDS=(kgate run g); COMP_CWORD=2; _kgate_words kgate g run
        echo \"${COMPREPLY[@]}\"";
    let output = shell(&home, "bash", complete, &programs);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 4 && error.is_empty(), "{out}\n{error}");
    assert_eq!(lines[..2], ["gpu gpu-2", "--nonblock"], "{out}");
    assert!(lines[2].contains(" true"), "{out}");
    assert_eq!(lines[3], "g/1", "{out}");
    for name in ["zsh", "fish"] {
        let script = text(&home.run(&["completions", name]).stdout);
        let file = home.0.join(name);
        fs::write(&file, script).unwrap();
        match Command::new(name).arg("-n").arg(&file).output() {
            Ok(parsed) => assert!(parsed.status.success(), "{name}: {}", text(&parsed.stderr)),
            Err(_) => eprintln!("skipped: {name} is not installed"),
        }
    }
}
