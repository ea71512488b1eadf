//! `kgate acquire` and `kgate release`: the same machinery around a holder in the background.

use std::process::{Command, Stdio};

use crate::Test;
use crate::scene::{Scene, wait_for};

pub(crate) const TESTS: &[Test] = &[
    ("holds::acquired_and_released", acquired_and_released),
    ("holds::the_token_is_for_the_script_alone", the_token_is_for_the_script_alone),
    ("holds::a_refusal_is_told", a_refusal_is_told),
    ("holds::who_dies_waiting_leaves_no_request", who_dies_waiting_leaves_no_request),
    ("holds::a_lost_permit_cannot_be_released", a_lost_permit_cannot_be_released),
];

/// Acquires, and returns what was printed; the holder reads the fake's orders from this scene.
fn acquire(scene: Scene) -> (Scene, Option<i32>, String) {
    let folder = scene.folder.clone();
    let mut running = scene
        .change(|command| {
            command.env("XDG_RUNTIME_DIR", folder).stderr(Stdio::null());
        })
        .start();
    let code = running.code();
    let mut text = String::new();
    let mut output = running.front.stdout.take().expect("piped");
    std::io::Read::read_to_string(&mut output, &mut text)
        .expect("read to its end: nobody keeps it open");
    (running.into_scene(), code, text)
}

fn release(scene: &Scene, token: &str) -> Option<i32> {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["release", token]).env("XDG_RUNTIME_DIR", &scene.folder).stderr(Stdio::null());
    command.status().expect("kgate release").code()
}

/// The permit is held until it is released, and given back by the time release returns.
fn acquired_and_released() {
    let (scene, code, text) =
        acquire(Scene::of("acquire", &["gate", "-k", "2", "-p", "2", "--json"]));
    assert_eq!(code, Some(0));
    let start = text.strip_prefix("{\"token\":\"").expect("JSON");
    let (token, rest) = start.split_at(32);
    let expected = "\",\"gate\":\"gate\",\"slots\":[0,2],\"k\":2,\"fence\":\"000000000000feed0000000000000007\",\"node\":\"fake-node\"}\n";
    assert_eq!(rest, expected);
    assert_eq!(scene.log(), "asked gate Some(2) 2\ngranted\n");
    assert_eq!(release(&scene, token), Some(0));
    assert!(scene.log().ends_with("released by guard, marker free\n"), "{}", scene.log());
    assert_eq!(release(&scene, token), Some(121), "only once");
    assert_eq!(release(&scene, "../../etc"), Some(2));
}

/// Nobody is shown the token: neither whoever may see the gate, nor whoever may see the processes
/// of this machine.
fn the_token_is_for_the_script_alone() {
    let scene = Scene::of("acquire", &["gate", "-k", "2"]);
    let shown = scene.path("shown");
    let (scene, code, token) = acquire(scene.with("FAKE_COMMAND", shown.to_str().expect("a path")));
    let token = token.trim();
    assert_eq!((code, token.len()), (Some(0), 32));
    let shown = std::fs::read_to_string(shown).expect("the keeper has asked");
    assert!(
        shown.starts_with(&format!("kgate acquire gate (for {} ", std::process::id())),
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
    assert_eq!(release(&scene, token), Some(0));
}

/// Its code is that of kgate run, and there is no token.
fn a_refusal_is_told() {
    let scene = Scene::of("acquire", &["gate", "-n"]).with("FAKE_ANSWER", "occupied");
    let (_scene, code, text) = acquire(scene);
    assert_eq!((code, text.as_str()), (Some(120), ""));
}

/// kill -9 of acquire while it waits: the request is taken back.
fn who_dies_waiting_leaves_no_request() {
    let scene = Scene::of("acquire", &["gate"]).with("FAKE_ANSWER", "silence");
    let mut running = scene.start();
    running.expect_log("asked");
    running.front.kill().expect("killed");
    running.wait();
    running.expect_log("released by guard");
}

/// The holder goes with the permit; release says so.
fn a_lost_permit_cannot_be_released() {
    let (scene, code, text) = acquire(Scene::of("acquire", &["gate"]));
    assert_eq!(code, Some(0));
    std::fs::write(scene.path("control"), "lost\n").expect("told");
    wait_for("the release", || scene.log().contains("released by guard").then_some(()));
    assert_eq!(release(&scene, text.trim()), Some(121));
}
