//! `kgate acquire` and `kgate release`: `kgate run` with a holder in the background.

use std::process::{Command, Stdio};

use crate::Test;
use crate::fixture::{Fixture, wait_for};

pub(crate) const TESTS: &[Test] = &[
    ("holds::acquired_and_released", acquired_and_released),
    ("holds::only_the_script_gets_the_token", only_the_script_gets_the_token),
    ("holds::a_refusal_has_its_code", a_refusal_has_its_code),
    ("holds::a_killed_caller_leaves_no_request", a_killed_caller_leaves_no_request),
    ("holds::a_lost_permit_cannot_be_released", a_lost_permit_cannot_be_released),
];

/// Acquires, and returns exit code and output; the fake of the holder is controlled by this
/// fixture.
fn acquire(fixture: Fixture) -> (Fixture, Option<i32>, String) {
    let folder = fixture.folder.clone();
    let mut running = fixture
        .change(|command| {
            command.env("XDG_RUNTIME_DIR", folder).stderr(Stdio::null());
        })
        .start();
    let code = running.code();
    let mut text = String::new();
    let mut output = running.front.stdout.take().expect("piped");
    std::io::Read::read_to_string(&mut output, &mut text).expect("the output is closed");
    (running.into_fixture(), code, text)
}

fn release(fixture: &Fixture, token: &str) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["release", token]).env("XDG_RUNTIME_DIR", &fixture.folder).stderr(Stdio::null());
    command.status().expect("kgate release").code()
}

/// The permit is held until `release`, which returns after the release.
fn acquired_and_released() {
    let (fixture, code, text) =
        acquire(Fixture::of("acquire", &["gate", "-k", "2", "-p", "2", "--json"]));
    assert_eq!(code, Some(0));
    let start = text.strip_prefix("{\"token\":\"").expect("JSON");
    let (token, rest) = start.split_at(32);
    let expected = "\",\"gate\":\"gate\",\"slots\":[0,2],\"k\":2,\
                    \"fence\":\"000000000000feed0000000000000007\",\"node\":\"fake-node\"}\n";
    assert_eq!(rest, expected);
    assert_eq!(fixture.log(), "requested gate Some(2) 2\ngranted\n");
    assert_eq!(release(&fixture, token), Some(0));
    assert!(fixture.log().ends_with("released by guard, marker free\n"), "{}", fixture.log());
    assert_eq!(release(&fixture, token), Some(121), "only once");
    assert_eq!(release(&fixture, "../../etc"), Some(2));
}

/// The token is shown neither to clients that may see the gate nor to users that may see the
/// processes of this machine.
fn only_the_script_gets_the_token() {
    let fixture = Fixture::of("acquire", &["gate", "-k", "2"]);
    let shown = fixture.path("shown");
    let (fixture, code, token) =
        acquire(fixture.with("FAKE_COMMAND", shown.to_str().expect("a path")));
    let token = token.trim();
    assert_eq!((code, token.len()), (Some(0), 32));
    let shown = std::fs::read_to_string(shown).expect("the request was sent");
    assert!(
        shown.starts_with(&format!("kgate acquire gate (until process {} ", std::process::id())),
        "{shown}"
    );
    assert!(!shown.contains(token), "{shown}");
    for process in std::fs::read_dir("/proc").expect("processes").flatten() {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(process.path().join(file)).unwrap_or_default();
            assert!(
                !String::from_utf8_lossy(&bytes).contains(token),
                "{file} of {:?}",
                process.file_name()
            );
        }
    }
    assert_eq!(release(&fixture, token), Some(0));
}

/// The exit code is that of kgate run, and there is no token.
fn a_refusal_has_its_code() {
    let fixture = Fixture::of("acquire", &["gate", "-n"]).with("FAKE_ANSWER", "busy");
    let (_scene, code, text) = acquire(fixture);
    assert_eq!((code, text.as_str()), (Some(120), ""));
}

/// kill -9 of acquire while it waits: the request is withdrawn.
fn a_killed_caller_leaves_no_request() {
    let fixture = Fixture::of("acquire", &["gate"]).with("FAKE_ANSWER", "silence");
    let mut running = fixture.start();
    running.expect_log("requested");
    running.front.kill().expect("killed");
    running.wait();
    running.expect_log("released by guard");
}

/// The holder ends with the permit; release exits 121.
fn a_lost_permit_cannot_be_released() {
    let (fixture, code, text) = acquire(Fixture::of("acquire", &["gate"]));
    assert_eq!(code, Some(0));
    std::fs::write(fixture.path("control"), "lost\n").expect("written");
    wait_for("the release", || fixture.log().contains("released by guard").then_some(()));
    assert_eq!(release(&fixture, text.trim()), Some(121));
}
