//! Exit codes, environment, standard input: what a user sees of a `kgate run` in which nothing goes
//! wrong.

use std::io::Write;
use std::process::Stdio;

use crate::Test;
use crate::scene::{Scene, wait_for};

pub(crate) const TESTS: &[Test] = &[
    ("ends::the_code_is_the_commands_own", the_code_is_the_commands_own),
    (
        "ends::a_command_that_is_not_there_takes_no_permit",
        a_command_that_is_not_there_takes_no_permit,
    ),
    ("ends::what_only_exec_finds_out_has_its_code", what_only_exec_finds_out_has_its_code),
    ("ends::refusals_have_their_codes", refusals_have_their_codes),
    ("ends::a_wait_ends_in_time", a_wait_ends_in_time),
    ("ends::the_environment_tells_of_the_permit", the_environment_tells_of_the_permit),
    ("ends::the_deadline_can_be_read", the_deadline_can_be_read),
    ("ends::standard_input_is_passed", standard_input_is_passed),
    ("ends::arguments_are_not_touched", arguments_are_not_touched),
    ("ends::verbose_tells_what_was_got", verbose_tells_what_was_got),
    ("ends::options_come_from_the_environment_too", options_come_from_the_environment_too),
    (
        "ends::what_is_left_behind_is_stopped_before_the_release",
        what_is_left_behind_is_stopped_before_the_release,
    ),
    ("ends::a_descriptor_of_the_caller_is_inherited", a_descriptor_of_the_caller_is_inherited),
];

/// DESIGN section 7: CMD's own code, 128 + signal; and the permit is given back.
fn the_code_is_the_commands_own() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
        ("kill -HUP $$", 129),
    ] {
        let (got, _, error, log) = Scene::new(&["gate", "--", "sh", "-c", script]).finish();
        assert_eq!(got, Some(code), "{script}: {error}");
        assert_eq!(error, "", "{script}");
        assert_eq!(log, "asked gate None 1\ngranted\nreleased by guard, marker free\n");
    }
}

/// 127 and 126 are found out before anybody is asked.
fn a_command_that_is_not_there_takes_no_permit() {
    for (command, code) in [("no-such-command", 127), ("./control", 126), ("/", 126)] {
        let (got, _, error, log) = Scene::new(&["gate", "--", command]).finish();
        assert_eq!(got, Some(code), "{error}");
        assert!(error.contains("no permit was asked for"), "{error}");
        assert_eq!(log, "");
    }
}

/// What only `exec` finds out has the code too, and the permit is given back.
fn what_only_exec_finds_out_has_its_code() {
    let scene = Scene::new(&["gate", "--", "./broken"]);
    let file = scene.path("broken");
    std::fs::write(&file, "#!/no/such/interpreter\n").expect("written");
    std::process::Command::new("chmod").arg("+x").arg(&file).status().expect("chmod");
    let (got, _, error, log) = scene.finish();
    // The kernel says "not found" of the interpreter.
    assert_eq!(got, Some(127), "{error}");
    assert!(error.contains("cannot run ./broken"), "{error}");
    assert!(log.ends_with("released by guard, marker free\n"), "{log}");
}

/// 120 (or what -E says), 122, 123; CMD does not run.
fn refusals_have_their_codes() {
    let table: [(&str, &[&str], i32); 4] = [
        ("occupied", &["-n"], 120),
        ("occupied", &["-n", "-E", "75"], 75),
        ("no-quorum", &[], 122),
        ("conflict", &["-k", "4"], 123),
    ];
    for (answer, options, code) in table {
        let options = [&["gate"], options, &["--", "touch", "ran"]].concat();
        let scene = Scene::new(&options).with("FAKE_ANSWER", answer);
        let ran = scene.path("ran");
        let (got, _, error, _) = scene.finish();
        assert_eq!(got, Some(code), "{answer}: {error}");
        assert!(error.starts_with("kgate: "), "{error}");
        assert!(!ran.exists());
    }
}

/// -w: 120, the request is taken back, CMD does not run.
fn a_wait_ends_in_time() {
    let scene = Scene::new(&["gate", "-w", "50ms", "--", "true"]).with("FAKE_ANSWER", "silence");
    let (got, _, error, log) = scene.finish();
    assert_eq!(got, Some(120));
    assert!(error.contains("no permit of gate within 50ms"), "{error}");
    assert_eq!(log, "asked gate None 1\nreleased by guard, marker free\n");
}

/// DESIGN section 7: the six variables; the fence has 32 digits.
fn the_environment_tells_of_the_permit() {
    let script = "echo $KGATE_GATE $KGATE_SLOT $KGATE_SLOTS $KGATE_K $KGATE_FENCE $KGATE_NODE";
    let (_, text, _, log) =
        Scene::new(&["gate", "-k", "5", "-p", "2", "--", "sh", "-c", script]).finish();
    assert_eq!(text, "gate 0 0,2 5 000000000000feed0000000000000007 fake-node\n");
    assert!(log.starts_with("asked gate Some(5) 2\n"), "{log}");
}

/// LEASES section 5: the page is there to be read, and not to be written.
fn the_deadline_can_be_read() {
    let script = "wc -c < /proc/self/fd/$KGATE_DEADLINE_FD; grep flags: /proc/self/fdinfo/$KGATE_DEADLINE_FD";
    let (_, text, _, _) = Scene::new(&["gate", "--", "sh", "-c", script]).finish();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("16"));
    let flags = lines.next().and_then(|line| line.split_whitespace().last()).unwrap_or("none");
    assert!(flags.ends_with('0'), "opened for reading only: {text}");
}

/// CMD reads what we are given, to its end.
fn standard_input_is_passed() {
    let scene = Scene::new(&["gate", "--", "cat"]).change(|command| {
        command.stdin(Stdio::piped());
    });
    let mut running = scene.start();
    let mut input = running.front.stdin.take().expect("piped");
    input.write_all(b"one\ntwo\n").expect("written");
    drop(input);
    assert_eq!(running.code(), Some(0));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut running.front.stdout.take().expect("piped"), &mut text)
        .expect("read");
    assert_eq!(text, "one\ntwo\n");
}

/// No shell stands between: nothing is split, expanded or taken for an option of ours.
fn arguments_are_not_touched() {
    let (_, text, _, _) =
        Scene::new(&["gate", "--", "printf", "[%s]", "a b", "$HOME", "-n", "--", "*", ""]).finish();
    assert_eq!(text, "[a b][$HOME][-n][--][*][]");
}

/// As flock does, on standard error.
fn verbose_tells_what_was_got() {
    let (_, text, error, _) = Scene::new(&["gate", "-n", "--verbose", "--", "echo", "hi"]).finish();
    assert_eq!(text, "hi\n");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert_eq!(lines[0], "kgate: asking for a permit of gate, without waiting");
    let rest = lines[1]
        .strip_prefix("kgate: got slot 0 of gate (k = 3) from fake-node after ")
        .expect(&error);
    let seconds =
        rest.split_once(" s, fence ").and_then(|(seconds, _)| seconds.parse::<f64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds < 10.0), "{error}");
    assert!(lines[1].ends_with("running echo"), "{error}");
}

/// KGATE_OPT_..; what stands on the command line wins; KGATE_K of an outer run is not taken for
/// ours.
fn options_come_from_the_environment_too() {
    let scene = Scene::new(&["gate", "-n", "--", "true"])
        .with("KGATE_OPT_PERMITS", "2")
        .with("KGATE_K", "9");
    let scene = scene.with("KGATE_OPT_WAIT", "1h").with("FAKE_ANSWER", "occupied");
    let (got, _, _, log) = scene.with("KGATE_OPT_CONFLICT_EXIT_CODE", "33").finish();
    assert_eq!(got, Some(33));
    assert!(log.starts_with("asked gate None 2\n"), "{log}");
}

/// LEASES S4: released only when the whole tree is gone; the code is still CMD's.
fn what_is_left_behind_is_stopped_before_the_release() {
    let script = "exec 9>marker; flock -x 9
        setsid sh -c 'trap \"\" TERM; echo x > started; while :; do sleep 1000; done' &
        while [ ! -e started ]; do sleep 0.01; done; exit 5";
    let (got, _, error, log) =
        Scene::new(&["gate", "--grace", "50ms", "--", "sh", "-c", script]).finish();
    assert_eq!(got, Some(5));
    assert!(error.contains("running; stopped now"), "{error}");
    assert!(log.ends_with("released by guard, marker free\n"), "{log}");
}

/// What the caller opened for CMD, beyond the first three, reaches it.
fn a_descriptor_of_the_caller_is_inherited() {
    let exe = std::env::current_exe().expect("this binary");
    let scene = Scene::new(&[]).change(|command| {
        let folder = command.get_current_dir().expect("set").to_owned();
        let mut shell = std::process::Command::new("sh");
        let line =
            format!("echo seven > seven; {} run gate -- sh -c 'cat <&7' 7<seven", exe.display());
        shell.arg("-c").arg(line).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
        *command = shell;
    });
    let mut running = scene.start();
    assert_eq!(running.code(), Some(0));
    let mut text = String::new();
    let mut out = running.front.stdout.take().expect("piped");
    wait_for("the output", || {
        std::io::Read::read_to_string(&mut out, &mut text).expect("read");
        Some(())
    });
    assert_eq!(text, "seven\n");
}
