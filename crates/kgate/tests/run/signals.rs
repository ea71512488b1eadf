//! Signals to the front reach CMD; before there is a CMD they end the waiting.

use std::fs;

use rustix::process::Signal;

use crate::Test;
use crate::scene::{Scene, wait_for};

pub(crate) const TESTS: &[Test] = &[
    ("signals::they_are_handed_on", they_are_handed_on),
    ("signals::the_whole_group_gets_them", the_whole_group_gets_them),
    ("signals::while_waiting_they_end_the_wait", while_waiting_they_end_the_wait),
    ("signals::what_was_ignored_stays_ignored", what_was_ignored_stays_ignored),
    ("signals::the_guard_shrugs_them_off", the_guard_shrugs_them_off),
];

/// Each of the six that a program may want to hear, once.
fn they_are_handed_on() {
    let script = "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s >> heard\" $s; done
        echo $$ > command.new; mv command.new command
        while [ ! -e stop ]; do sleep 0.02; done; exit 9";
    let mut running = Scene::new(&["gate", "--", "sh", "-c", script]).start();
    running.pid_in("command");
    let heard = running.scene.path("heard");
    let all = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    for (index, signal) in all.into_iter().enumerate() {
        running.send(running.front_pid(), signal);
        wait_for("the signal", || {
            let text = fs::read_to_string(&heard).unwrap_or_default();
            (text.lines().count() == index + 1).then_some(())
        });
    }
    fs::write(running.scene.path("stop"), "").expect("written");
    assert_eq!(running.code(), Some(9));
    assert_eq!(fs::read_to_string(heard).expect("heard"), "INT\nTERM\nHUP\nQUIT\nUSR1\nUSR2\n");
}

/// A child of CMD that is in its group ends too.
fn the_whole_group_gets_them() {
    let script = "sleep 1000 & echo $! > child.new; mv child.new child; wait";
    let mut running = Scene::new(&["gate", "--", "sh", "-c", script]).start();
    let child = running.pid_in("child");
    running.send(running.front_pid(), Signal::TERM);
    assert_eq!(running.code(), Some(143));
    wait_for("the child's end", || crate::scene::is_gone(child).then_some(()));
}

/// 128 + signal, the request is taken back, CMD never runs.
fn while_waiting_they_end_the_wait() {
    let scene = Scene::new(&["gate", "--", "touch", "ran"]).with("FAKE_ANSWER", "silence");
    let mut running = scene.start();
    running.expect_log("asked");
    running.send(running.front_pid(), Signal::INT);
    assert_eq!(running.code(), Some(130));
    assert!(running.scene.log().ends_with("released by guard, marker free\n"));
    assert!(!running.scene.path("ran").exists());
}

/// `nohup kgate run` waits through a hang-up, and CMD ignores it as well.
fn what_was_ignored_stays_ignored() {
    let exe = std::env::current_exe().expect("this binary");
    let scene = Scene::new(&[]).with("FAKE_ANSWER", "silence").change(|command| {
        let line =
            format!("trap '' HUP; exec {} run gate -- sh -c 'kill -HUP $$; exit 4'", exe.display());
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(line).current_dir(command.get_current_dir().expect("set"));
        for (name, value) in command.get_envs() {
            shell.env(name, value.expect("set"));
        }
        *command = shell;
    });
    let mut running = scene.start();
    running.expect_log("asked");
    running.send(running.front_pid(), Signal::HUP);
    running.order("grant");
    assert_eq!(running.code(), Some(4));
}

/// Nobody ends the guard politely: it holds the permit, and CMD runs on.
fn the_guard_shrugs_them_off() {
    let script = "echo $$ > command.new; mv command.new command; read line; exit 3";
    let scene = Scene::new(&["gate", "--", "sh", "-c", script]).change(|command| {
        command.stdin(std::process::Stdio::piped());
    });
    let mut running = scene.start();
    running.pid_in("command");
    let guard = running.guard_pid();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::TSTP, Signal::USR1] {
        running.send(guard, signal);
    }
    drop(running.front.stdin.take());
    assert_eq!(running.code(), Some(3));
}
