//! LEASES section 5: whatever is lost, killed or frozen, no descendant of CMD outlives the permit,
//! and the permit is released only when they are gone.

use std::io::Read;
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::Test;
use crate::fixture::{Fixture, Running, family, is_gone, wait_for};
use crate::run::lease_clock::LeaseInstant;

pub(crate) const TESTS: &[Test] = &[
    ("faults::a_loss_ends_the_family", a_loss_ends_the_family),
    ("faults::a_new_program_gets_term_again", a_new_program_gets_term_again),
    ("faults::a_family_that_ignores_term_is_killed", a_family_that_ignores_term_is_killed),
    ("faults::a_stopped_family_is_killed", a_stopped_family_is_killed),
    ("faults::silence_is_a_loss", silence_is_a_loss),
    ("faults::a_late_grant_is_released", a_late_grant_is_released),
    ("faults::the_front_is_killed", the_front_is_killed),
    ("faults::the_guard_is_killed", the_guard_is_killed),
    ("faults::the_front_is_frozen", the_front_is_frozen),
    ("faults::the_guard_is_frozen", the_guard_is_frozen),
    (
        "faults::the_guard_wakes_when_the_front_has_stopped_it",
        the_guard_wakes_when_the_front_has_stopped_it,
    ),
    ("faults::the_guard_is_frozen_and_the_front_killed", the_guard_is_frozen_and_the_front_killed),
    ("faults::both_are_frozen_one_after_the_other", both_are_frozen_one_after_the_other),
    ("faults::both_are_frozen_and_one_wakes", both_are_frozen_and_one_wakes),
    ("faults::renewals_keep_it_running", renewals_keep_it_running),
];

/// CMD and its grandchild in another session, both running.
fn start(on_term: &str, lease_ms: Option<&str>) -> (Running, [Pid; 2]) {
    start_with("150ms", on_term, lease_ms)
}

fn start_with(grace: &str, on_term: &str, lease_ms: Option<&str>) -> (Running, [Pid; 2]) {
    let family = family(on_term);
    let words = family.each_ref().map(String::as_str);
    let mut fixture = Fixture::new(&[&["gate", "--grace", grace, "--"], &words[..]].concat());
    if let Some(lease) = lease_ms {
        fixture = fixture.with("FAKE_LEASE_MS", lease);
    }
    let running = fixture.start();
    let members = [running.pid_in("command"), running.pid_in("grandchild")];
    (running, members)
}

fn released_once(running: &Running) {
    let log = running.fixture.log();
    assert_eq!(log.matches("released").count(), 1, "{log}");
    assert!(!log.contains("HELD"), "released before the tree was gone: {log}");
}

/// SIGTERM to all processes, also to those outside the group; 121. They end at once, so the grace
/// is not used up.
fn a_loss_ends_the_family() {
    let (mut running, members) = start_with("1h", "'echo x >> heard; exit 0'", None);
    running.control("lost");
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    released_once(&running);
    let heard = std::fs::read_to_string(running.fixture.path("heard")).unwrap_or_default();
    assert_eq!(heard, "x\nx\n", "each got TERM once");
}

/// A TERM before `exec` is lost with the handler, as between a shell's `fork` and `exec`: the new
/// program gets it again.
fn a_new_program_gets_term_again() {
    let (mut running, members) = start_with("1h", "'exec sleep 1000'", None);
    running.control("lost");
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    released_once(&running);
}

/// SIGKILL after the grace, and not before.
fn a_family_that_ignores_term_is_killed() {
    let (mut running, members) = start("''", None);
    let start = LeaseInstant::now();
    running.control("lost");
    assert_eq!(running.code(), Some(121));
    assert!(
        LeaseInstant::now().after(start) >= Duration::from_millis(150),
        "killed before the end of the grace"
    );
    running.expect_gone(&members);
    released_once(&running);
}

/// A stopped process is continued to handle TERM, and KILL works on it anyway.
fn a_stopped_family_is_killed() {
    let (mut running, members) = start("''", None);
    members.iter().for_each(|member| running.send(*member, Signal::STOP));
    running.control("lost");
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    released_once(&running);
}

/// LEASES S3: only a renewal extends the deadline; the family is gone before it.
fn silence_is_a_loss() {
    let (mut running, members) = start("''", Some("1500"));
    running.control("silence");
    let latest = LeaseInstant::now() + Duration::from_millis(1500);
    wait_for("the family's end", || members.iter().all(|member| is_gone(*member)).then_some(()));
    assert!(LeaseInstant::now() < latest, "alive at D");
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    released_once(&running);
}

/// LEASES S2: a grant after D - G - K starts nothing.
fn a_late_grant_is_released() {
    let fixture = Fixture::new(&["gate", "--grace", "150ms", "--", "touch", "ran"]);
    let mut running = fixture.with("FAKE_LEASE_MS", "300").start();
    assert_eq!(running.code(), Some(121), "300 ms are less than grace and kill together");
    let mut error = String::new();
    running.front.stderr.take().expect("piped").read_to_string(&mut error).expect("read");
    assert!(error.contains("granted too late"), "{error}");
    assert!(!running.fixture.path("ran").exists());
    running.expect_log("released by guard");
}

/// kill -9 of the front: the guard stops CMD and releases the permit.
fn the_front_is_killed() {
    let (mut running, members) = start("''", Some("60000"));
    let guard = running.guard_pid();
    running.send(running.front_pid(), Signal::KILL);
    running.wait();
    running.expect_gone(&members);
    running.expect_log("released by guard, marker free");
    wait_for("the guard's end", || is_gone(guard).then_some(()));
    released_once(&running);
}

/// kill -9 of the guard: the front inherits the tree, ends it and releases the permit by its token.
fn the_guard_is_killed() {
    let (mut running, members) = start("''", Some("60000"));
    running.send(running.guard_pid(), Signal::KILL);
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    running.expect_log("released by front with token, marker free");
    released_once(&running);
}

/// A frozen front does not matter: the guard kills without it. When it continues, the front has the
/// exit code.
fn the_front_is_frozen() {
    let (mut running, members) = start("''", Some("1500"));
    running.send(running.front_pid(), Signal::STOP);
    running.control("silence");
    running.expect_gone(&members);
    running.expect_log("released by guard, marker free");
    running.send(running.front_pid(), Signal::CONT);
    assert_eq!(running.code(), Some(121));
    released_once(&running);
}

/// A frozen guard neither renews nor kills: the front kills at D - K, below the guard and outside
/// of CMD's group.
fn the_guard_is_frozen() {
    let (mut running, members) = start("''", Some("1500"));
    let guard = running.guard_pid();
    running.send(guard, Signal::STOP);
    let latest = LeaseInstant::now() + Duration::from_millis(1500);
    wait_for("the family's end", || members.iter().all(|member| is_gone(*member)).then_some(()));
    assert!(LeaseInstant::now() < latest, "alive at D");
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    wait_for("the guard's end", || is_gone(guard).then_some(()));
    running.expect_log("released by front with token, marker free");
    released_once(&running);
}

/// The front has stopped CMD, or killed it, when the guard is continued: the exit code is that of
/// the loss, not CMD's own, even if the keeper renews again at that moment.
fn the_guard_wakes_when_the_front_has_stopped_it() {
    for (on_term, renews) in
        [("-", true), ("-", false), ("'exit 0'", true), ("''", true), ("''", false)]
    {
        let (mut running, members) = start_with("600ms", on_term, Some("1500"));
        let guard = running.guard_pid();
        if !renews {
            running.control("silence");
            running.expect_log("silent");
        }
        running.send(guard, Signal::STOP);
        wait_for("the end of CMD", || is_gone(members[0]).then_some(()));
        running.send(guard, Signal::CONT);
        assert_eq!(running.code(), Some(121), "trap {on_term}, renews: {renews}");
        running.expect_gone(&members);
        released_once(&running);
    }
}

/// The guard finds the front dead as soon as it thaws.
fn the_guard_is_frozen_and_the_front_killed() {
    let (mut running, members) = start("''", Some("60000"));
    let guard = running.guard_pid();
    running.send(guard, Signal::STOP);
    running.send(running.front_pid(), Signal::KILL);
    running.wait();
    running.send(guard, Signal::CONT);
    running.expect_gone(&members);
    running.expect_log("released by guard, marker free");
}

/// First the front is frozen during renewals, then the guard beyond the deadline.
fn both_are_frozen_one_after_the_other() {
    let (mut running, members) = start("''", Some("1500"));
    let (front, guard) = (running.front_pid(), running.guard_pid());
    running.send(front, Signal::STOP);
    let start = LeaseInstant::now();
    wait_for("the first deadline to pass", || {
        (LeaseInstant::now().after(start) > Duration::from_millis(1800)).then_some(())
    });
    assert!(members.iter().all(|member| !is_gone(*member)), "the guard did not renew");
    running.send(front, Signal::CONT);
    running.send(guard, Signal::STOP);
    assert_eq!(running.code(), Some(121));
    running.expect_gone(&members);
    released_once(&running);
}

/// Both frozen beyond D: no process can act; the first one that is continued kills at once.
fn both_are_frozen_and_one_wakes() {
    for guard_wakes in [false, true] {
        let (mut running, members) = start("''", Some("2000"));
        let (front, guard) = (running.front_pid(), running.guard_pid());
        // Otherwise the fake, once continued, would renew a session that a node would refuse.
        running.control("silence");
        running.expect_log("silent");
        running.send(front, Signal::STOP);
        running.send(guard, Signal::STOP);
        let start = LeaseInstant::now();
        wait_for("the deadline to pass", || {
            (LeaseInstant::now().after(start) > Duration::from_millis(2000)).then_some(())
        });
        running.send(if guard_wakes { guard } else { front }, Signal::CONT);
        running.expect_gone(&members);
        running.send(front, Signal::CONT);
        assert_eq!(running.code(), Some(121));
        released_once(&running);
    }
}

/// The converse: while the session is renewed, nothing happens at any number of deadlines.
fn renewals_keep_it_running() {
    let fixture = Fixture::new(&["gate", "--grace", "150ms", "--", "sh", "-c", "sleep 4; exit 6"]);
    let mut running = fixture.with("FAKE_LEASE_MS", "1500").start();
    assert_eq!(running.code(), Some(6));
    released_once(&running);
}
