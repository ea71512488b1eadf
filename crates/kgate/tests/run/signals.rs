//! Signals to the front reach CMD; before CMD starts they end the wait.

use std::fs;

use rustix::process::Signal;

use crate::Test;
use crate::fixture::{Fixture, wait_for};

pub(crate) const TESTS: &[Test] = &[
    ("signals::they_are_forwarded", they_are_forwarded),
    ("signals::the_whole_group_gets_them", the_whole_group_gets_them),
    ("signals::before_the_grant_they_end_the_wait", before_the_grant_they_end_the_wait),
    ("signals::ignored_signals_stay_ignored", ignored_signals_stay_ignored),
    ("signals::the_guard_ignores_them", the_guard_ignores_them),
];

/// Each of the six signals that programs handle arrives once.
fn they_are_forwarded() {
    let script = "for s in INT TERM HUP QUIT USR1 USR2; do trap \"echo $s >> heard\" $s; done
        echo $$ > command.new; mv command.new command
        while [ ! -e stop ]; do sleep 0.02; done; exit 9";
    let mut running = Fixture::new(&["gate", "--", "sh", "-c", script]).start();
    running.pid_in("command");
    let heard = running.fixture.path("heard");
    let all = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    for (index, signal) in all.into_iter().enumerate() {
        running.send(running.front_pid(), signal);
        wait_for("the signal", || {
            let text = fs::read_to_string(&heard).unwrap_or_default();
            (text.lines().count() == index + 1).then_some(())
        });
    }
    fs::write(running.fixture.path("stop"), "").expect("written");
    assert_eq!(running.code(), Some(9));
    assert_eq!(fs::read_to_string(heard).expect("heard"), "INT\nTERM\nHUP\nQUIT\nUSR1\nUSR2\n");
}

/// A child of CMD in its group ends too.
fn the_whole_group_gets_them() {
    let script = "sleep 1000 & echo $! > child.new; mv child.new child; wait";
    let mut running = Fixture::new(&["gate", "--", "sh", "-c", script]).start();
    let child = running.pid_in("child");
    running.send(running.front_pid(), Signal::TERM);
    assert_eq!(running.code(), Some(143));
    wait_for("the child's end", || crate::fixture::is_gone(child).then_some(()));
}

/// 128 + signal, the request is withdrawn, CMD never runs.
fn before_the_grant_they_end_the_wait() {
    let fixture = Fixture::new(&["gate", "--", "touch", "ran"]).with("FAKE_ANSWER", "silence");
    let mut running = fixture.start();
    running.expect_log("requested");
    running.send(running.front_pid(), Signal::INT);
    assert_eq!(running.code(), Some(130));
    assert!(running.fixture.log().ends_with("released by guard, marker free\n"));
    assert!(!running.fixture.path("ran").exists());
}

/// `nohup kgate run` keeps waiting after SIGHUP, and CMD ignores it as well.
fn ignored_signals_stay_ignored() {
    let exe = std::env::current_exe().expect("this binary");
    let fixture = Fixture::new(&[]).with("FAKE_ANSWER", "silence").change(|command| {
        let line =
            format!("trap '' HUP; exec {} run gate -- sh -c 'kill -HUP $$; exit 4'", exe.display());
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg(line).current_dir(command.get_current_dir().expect("set"));
        for (name, value) in command.get_envs() {
            shell.env(name, value.expect("set"));
        }
        *command = shell;
    });
    let mut running = fixture.start();
    running.expect_log("requested");
    running.send(running.front_pid(), Signal::HUP);
    running.control("grant");
    assert_eq!(running.code(), Some(4));
}

/// No signal that can be blocked ends the guard: it holds the permit, and CMD continues.
fn the_guard_ignores_them() {
    let script = "echo $$ > command.new; mv command.new command; read line; exit 3";
    let fixture = Fixture::new(&["gate", "--", "sh", "-c", script]).change(|command| {
        command.stdin(std::process::Stdio::piped());
    });
    let mut running = fixture.start();
    running.pid_in("command");
    let guard = running.guard_pid();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::TSTP, Signal::USR1] {
        running.send(guard, signal);
    }
    drop(running.front.stdin.take());
    assert_eq!(running.code(), Some(3));
}
