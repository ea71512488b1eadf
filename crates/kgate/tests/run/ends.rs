//! Exit codes, environment and standard input of a `kgate run` without faults.

use std::io::Write;
use std::process::Stdio;

use crate::Test;
use crate::fixture::{Fixture, wait_for};

pub(crate) const TESTS: &[Test] = &[
    ("ends::the_code_is_the_commands_own", the_code_is_the_commands_own),
    ("ends::a_missing_command_takes_no_permit", a_missing_command_takes_no_permit),
    ("ends::an_error_of_exec_has_its_code", an_error_of_exec_has_its_code),
    ("ends::refusals_have_their_codes", refusals_have_their_codes),
    ("ends::a_wait_times_out", a_wait_times_out),
    ("ends::the_environment_describes_the_permit", the_environment_describes_the_permit),
    ("ends::the_deadline_can_be_read", the_deadline_can_be_read),
    ("ends::standard_input_is_passed", standard_input_is_passed),
    ("ends::arguments_are_not_touched", arguments_are_not_touched),
    ("ends::a_command_line_may_be_long", a_command_line_may_be_long),
    ("ends::verbose_prints_request_and_grant", verbose_prints_request_and_grant),
    ("ends::options_can_come_from_the_environment", options_can_come_from_the_environment),
    ("ends::the_command_needs_no_dashes", the_command_needs_no_dashes),
    ("ends::a_line_of_shell_is_a_command", a_line_of_shell_is_a_command),
    ("ends::weights_have_names", weights_have_names),
    ("ends::leftovers_are_stopped_before_the_release", leftovers_are_stopped_before_the_release),
    ("ends::a_descriptor_of_the_caller_is_inherited", a_descriptor_of_the_caller_is_inherited),
];

/// The exit code is that of CMD, or 128 + signal; the permit is released.
fn the_code_is_the_commands_own() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -HUP $$", 129),
    ] {
        let (got, _, error, log) = Fixture::new(&["gate", "--", "sh", "-c", script]).finish();
        assert_eq!(got, Some(code), "{script}: {error}");
        assert_eq!(error, "", "{script}");
        assert_eq!(log, "requested gate None 1\ngranted\nreleased by guard, marker free\n");
    }
}

/// 127 and 126 are detected before the request.
fn a_missing_command_takes_no_permit() {
    for (command, code) in [("no-such-command", 127), ("./control", 126), ("/", 126)] {
        let (got, _, error, log) = Fixture::new(&["gate", "--", command]).finish();
        assert_eq!(got, Some(code), "{error}");
        assert!(error.contains("no permit was requested"), "{error}");
        assert_eq!(log, "");
    }
}

/// An error that only `exec` detects has the same code, and the permit is released.
fn an_error_of_exec_has_its_code() {
    let fixture = Fixture::new(&["gate", "--", "./broken"]);
    let file = fixture.path("broken");
    std::fs::write(&file, "#!/no/such/interpreter\n").expect("written");
    std::process::Command::new("chmod").arg("+x").arg(&file).status().expect("chmod");
    let (got, _, error, log) = fixture.finish();
    // The kernel's "not found" concerns the interpreter.
    assert_eq!(got, Some(127), "{error}");
    assert!(error.contains("cannot run ./broken"), "{error}");
    assert!(log.ends_with("released by guard, marker free\n"), "{log}");
}

/// 120 (or the code of -E), 122, 123; CMD does not run.
fn refusals_have_their_codes() {
    let table: [(&str, &[&str], i32); 4] = [
        ("busy", &["-n"], 120),
        ("busy", &["-n", "-E", "75"], 75),
        ("unavailable", &[], 122),
        ("conflict", &["-k", "4"], 123),
    ];
    for (answer, options, code) in table {
        let options = [&["gate"], options, &["--", "touch", "ran"]].concat();
        let fixture = Fixture::new(&options).with("FAKE_ANSWER", answer);
        let ran = fixture.path("ran");
        let (got, _, error, _) = fixture.finish();
        assert_eq!(got, Some(code), "{answer}: {error}");
        assert!(error.starts_with("kgate: "), "{error}");
        assert!(!ran.exists());
    }
}

/// -w: 120, the request is withdrawn, CMD does not run.
fn a_wait_times_out() {
    let fixture =
        Fixture::new(&["gate", "-w", "50ms", "--", "true"]).with("FAKE_ANSWER", "silence");
    let (got, _, error, log) = fixture.finish();
    assert_eq!(got, Some(120));
    assert!(error.contains("timed out: no free slots at gate gate within 50ms"), "{error}");
    assert_eq!(log, "requested gate None 1\nreleased by guard, marker free\n");
}

/// The six variables of CMD; the fence has 32 digits.
fn the_environment_describes_the_permit() {
    let script = "echo $KGATE_GATE $KGATE_SLOT $KGATE_SLOTS $KGATE_K $KGATE_FENCE $KGATE_NODE";
    let (_, text, _, log) =
        Fixture::new(&["gate", "-k", "5", "-p", "2", "--", "sh", "-c", script]).finish();
    assert_eq!(text, "gate 0 0,2 5 000000000000feed0000000000000007 fake-node\n");
    assert!(log.starts_with("requested gate Some(5) 2\n"), "{log}");
}

/// LEASES section 5: CMD can read the deadline and cannot write it.
fn the_deadline_can_be_read() {
    let script = "wc -c < /proc/self/fd/$KGATE_DEADLINE_FD; grep flags: \
     /proc/self/fdinfo/$KGATE_DEADLINE_FD";
    let (_, text, _, _) = Fixture::new(&["gate", "--", "sh", "-c", script]).finish();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("16"));
    let flags = lines.next().and_then(|line| line.split_whitespace().last()).unwrap_or("none");
    assert!(flags.ends_with('0'), "opened for reading only: {text}");
}

/// CMD reads the standard input of kgate, to its end.
fn standard_input_is_passed() {
    let fixture = Fixture::new(&["gate", "--", "cat"]).change(|command| {
        command.stdin(Stdio::piped());
    });
    let mut running = fixture.start();
    let mut input = running.front.stdin.take().expect("piped");
    input.write_all(b"one\ntwo\n").expect("written");
    drop(input);
    assert_eq!(running.code(), Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut running.front.stdout.take().expect("piped"), &mut text)
        .expect("read");
    assert_eq!(text, "one\ntwo\n");
}

/// No shell: no argument is split, expanded or parsed as an option of kgate.
fn arguments_are_not_touched() {
    let (_, text, _, _) =
        Fixture::new(&["gate", "--", "printf", "[%s]", "a b", "$HOME", "-n", "--", "*", ""])
            .finish();
    assert_eq!(text, "[a b][$HOME][-n][--][*][]");
}

/// Arguments and environment may be as long as the kernel allows: a quarter of the stack, 2 MB by
/// default, and 128 KiB per string. Beyond that the kernel's own error is reported.
fn a_command_line_may_be_long() {
    let script = ["gate", "--", "sh", "-c", "echo $# ${#1} ${#LONG}", "sh"];
    for (count, length, variable) in
        [(1, 70_000, 1), (1, 130_000, 120_000), (20, 100_000, 1), (9_000, 100, 120_000)]
    {
        let word = "x".repeat(length);
        let words = [&script[..], &vec![word.as_str(); count]].concat();
        let fixture = Fixture::new(&words).with("LONG", &"y".repeat(variable));
        let (code, text, error, _) = fixture.finish();
        assert_eq!((code, error.as_str()), (Some(0), ""), "{count} words of {length}");
        assert_eq!(text, format!("{count} {length} {variable}\n"));
    }
}

/// As in flock, on standard error.
fn verbose_prints_request_and_grant() {
    let (_, text, error, _) =
        Fixture::new(&["gate", "-n", "--verbose", "--", "echo", "hi"]).finish();
    assert_eq!(text, "hi\n");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert_eq!(lines[0], "kgate: requesting 1 slot of gate gate, without waiting");
    let rest = lines[1]
        .strip_prefix("kgate: acquired slot 0 of gate gate (k = 3) from node fake-node after ")
        .expect(&error);
    let seconds =
        rest.split_once(" s, fence ").and_then(|(seconds, _)| seconds.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds < 10.0), "{error}");
    assert!(lines[1].ends_with("running echo"), "{error}");
}

/// KGATE_OPT_.. are options; the command line takes precedence; KGATE_K of an outer run is no
/// option.
fn options_can_come_from_the_environment() {
    let fixture = Fixture::new(&["gate", "-n", "--", "true"])
        .with("KGATE_OPT_PERMITS", "2")
        .with("KGATE_K", "9");
    let fixture = fixture.with("KGATE_OPT_WAIT", "1h").with("FAKE_ANSWER", "busy");
    let (got, _, _, log) = fixture.with("KGATE_OPT_CONFLICT_EXIT_CODE", "33").finish();
    assert_eq!(got, Some(33));
    assert!(log.starts_with("requested gate None 2\n"), "{log}");
}

/// LEASES S4: released only when the whole tree is gone; the exit code is that of CMD.
fn leftovers_are_stopped_before_the_release() {
    let script = "exec 9>marker; flock -x 9
        setsid sh -c 'trap \"\" TERM; echo x > started; while :; do sleep 1000; done' &
        while [ ! -e started ]; do sleep 0.01; done; exit 5";
    let (got, _, error, log) =
        Fixture::new(&["gate", "--grace", "50ms", "--", "sh", "-c", script]).finish();
    assert_eq!(got, Some(5));
    assert!(error.contains("running: stopping"), "{error}");
    assert!(log.ends_with("released by guard, marker free\n"), "{log}");
}

/// CMD inherits descriptors beyond the first three.
fn a_descriptor_of_the_caller_is_inherited() {
    let exe = std::env::current_exe().expect("this binary");
    let fixture = Fixture::new(&[]).change(|command| {
        let folder = command.get_current_dir().expect("set").to_owned();
        let mut shell = std::process::Command::new("sh");
        let line =
            format!("echo seven > seven; {} run gate -- sh -c 'cat <&7' 7<seven", exe.display());
        shell.arg("-c").arg(line).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
        *command = shell;
    });
    let mut running = fixture.start();
    assert_eq!(running.code(), Some(0));
    let mut text = String::new();
    let mut out = running.front.stdout.take().expect("piped");
    wait_for("the output", || {
        std::io::Read::read_to_string(&mut out, &mut text).expect("read");
        Some(())
    });
    assert_eq!(text, "seven\n");
}

/// Everything from CMD on belongs to CMD, with and without `--` before it.
fn the_command_needs_no_dashes() {
    for (line, printed) in [
        ("gate printf %s, a -k 5 --wait -n", "a,-k,5,--wait,-n,"),
        ("gate -k 2 -- printf %s, a -k", "a,-k,"),
        ("gate -k2 printf %s, a -- b --", "a,--,b,--,"),
        ("-k 2 gate printf %s, -- -- b", "--,--,b,"),
        ("gate --nonblock printf %s, --grace", "--grace,"),
        ("gate --timeout 9 -q printf %s, --grace", "--grace,"),
        ("gate -- printf %s, -- b", "--,b,"),
        ("-- gate printf %s, b", "b,"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (code, text, error, _) = Fixture::new(&words).finish();
        assert_eq!((code, text.as_str()), (Some(0), printed), "{line}: {error}");
    }
    for (line, says) in [
        ("gate", "<CMD>..."),
        ("gate --", "<CMD>..."),
        ("gate --frobnicate true", "'--frobnicate'"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let (code, _, error, log) = Fixture::new(&words).finish();
        assert_eq!((code, log.as_str()), (Some(2), ""), "{line}");
        assert!(error.contains(says), "{line}: {error}");
    }
}

/// `-c` runs by /bin/sh, whatever SHELL says; with CMD it is a usage error.
fn a_line_of_shell_is_a_command() {
    let line = ["gate", "-c", "echo $0 $KGATE_SLOT && exit 3"];
    let (code, text, _, _) = Fixture::new(&line).with("SHELL", "/bin/false").finish();
    assert_eq!((code, text.as_str()), (Some(3), "/bin/sh 0\n"));
    let (code, _, error, log) = Fixture::new(&["gate", "-c", "true", "true"]).finish();
    assert_eq!((code, log.as_str()), (Some(2), ""));
    assert!(error.contains("cannot be used with"), "{error}");
}

/// -x takes all slots, -s takes one; with -p they contradict it, and the command line wins over the
/// environment.
fn weights_have_names() {
    for (options, variable, log) in [
        ("-x", "", "requested gate None 3"),
        ("-x -k 5", "", "requested gate Some(5) 5"),
        ("-s -k 5", "", "requested gate Some(5) 1"),
        ("-s", "KGATE_OPT_EXCLUSIVE=1", "requested gate None 1"),
        ("-p 2", "KGATE_OPT_EXCLUSIVE=1", "requested gate None 2"),
        ("-x", "KGATE_OPT_PERMITS=2", "requested gate None 3"),
        ("-n", "KGATE_OPT_EXCLUSIVE=1", "requested gate None 3"),
    ] {
        let words: Vec<&str> = ["gate"].into_iter().chain(options.split(' ')).collect();
        let mut fixture = Fixture::new(&[&words[..], &["true"]].concat());
        if let Some((name, value)) = variable.split_once('=') {
            fixture = fixture.with(name, value);
        }
        let (code, _, error, got) = fixture.finish();
        assert_eq!(code, Some(0), "{options} {variable}: {error}");
        assert_eq!(got.lines().next(), Some(log), "{options} {variable}");
    }
    for options in ["-x -s", "-x -p 2", "-s -p 1"] {
        let words: Vec<&str> = ["gate"].into_iter().chain(options.split(' ')).collect();
        let (code, _, error, log) = Fixture::new(&[&words[..], &["true"]].concat()).finish();
        assert_eq!((code, log.as_str()), (Some(2), ""), "{options}");
        assert!(error.contains("contradict each other"), "{options}: {error}");
    }
}
