//! The oracle: who was inside, as the kernel saw it, without asking kgate.
//!
//! Each command that goes in locks the file of its slot without waiting, and its descendants
//! inherit the lock; then it appends a line. A lock that is taken is a second one inside. The lines
//! of a slot are in the order of its holders, and their fences must grow.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use kgate_testkit::wait_until;

/// The book of one gate.
#[derive(Clone)]
pub(crate) struct Oracle {
    folder: String,
    k: u32,
}

impl Oracle {
    pub(crate) fn new(gate: &str, k: u32) -> Self {
        let folder = format!("/run/oracle-{gate}");
        fs::create_dir(&folder).expect("created");
        let files = (0..=k).map(|slot| format!("slot-{slot}")).chain(["log".to_owned()]);
        for file in files.map(|file| format!("{folder}/{file}")) {
            fs::write(&file, "").expect("written");
            fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("for all users");
        }
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("for all users");
        Self { folder, k }
    }

    /// What a shell does that goes in under this name; then it does the rest.
    pub(crate) fn script(&self, name: &str, rest: &str) -> String {
        let folder = &self.folder;
        format!(
            "exec 9>>{folder}/slot-$KGATE_SLOT || echo violation: no slot $KGATE_SLOT >>{folder}/log
             flock -n 9 || echo violation: {name} found slot $KGATE_SLOT taken >>{folder}/log
             echo in $KGATE_SLOT $KGATE_FENCE {name} >>{folder}/log
             {rest}"
        )
    }

    /// A command that goes in under this name and does the rest.
    pub(crate) fn inside(&self, mut command: Command, name: &str, rest: &str) -> Command {
        command.args(["--", "sh", "-c", &self.script(name, rest)]);
        command
    }

    /// Holds a permit until its standard input is closed; returns when it is inside.
    pub(crate) fn hold(&self, command: Command, name: &str) -> Holder {
        let mut command = self.inside(command, name, "exec cat");
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        wait_until(&format!("{name} is inside"), || self.has(name));
        Holder(child)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.log()
            .lines()
            .any(|line| line.starts_with("in ") && line.ends_with(&format!(" {name}")))
    }

    fn log(&self) -> String {
        fs::read_to_string(format!("{}/log", self.folder)).expect("a log")
    }

    /// The verdict, and how many were inside.
    pub(crate) fn check(&self) -> usize {
        let log = self.log();
        assert!(!log.contains("violation"), "{log}");
        let mut last: BTreeMap<u32, &str> = BTreeMap::new();
        let mut count = 0;
        for line in log.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let ["in", slot, fence, _name] = words[..] else { panic!("{line}:\n{log}") };
            let slot: u32 = slot.parse().expect("a slot");
            assert!(slot < self.k, "a slot that is not below {}: {line}\n{log}", self.k);
            let before = last.insert(slot, fence);
            assert!(before.is_none_or(|before| before < fence), "a fence went back: {line}\n{log}");
            count += 1;
        }
        count
    }
}

/// A command that is inside, and is killed when this is dropped.
pub(crate) struct Holder(pub(crate) Child);

impl Holder {
    /// Lets the command end, and returns its code.
    pub(crate) fn leave(mut self) -> Option<i32> {
        drop(self.0.stdin.take());
        self.0.wait().expect("it ends").code()
    }

    pub(crate) fn is_inside(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// The oracle finds a slot that is taken twice, a slot beyond k, and a fence that goes back.
#[test]
fn the_oracle_sees_what_is_wrong() {
    super::sandbox::inside("oracle::the_oracle_sees_what_is_wrong", || {
        let verdict = |name: &str, entries: &[(&str, &str)]| {
            let oracle = Oracle::new(name, 1);
            for (slot, fence) in entries {
                let mut shell = Command::new("sh");
                shell.args(["-c", &oracle.script("x", "")]);
                shell.env("KGATE_SLOT", slot).env("KGATE_FENCE", fence);
                assert!(shell.status().expect("a shell").success());
            }
            std::panic::catch_unwind(|| oracle.check()).is_ok()
        };
        assert!(verdict("right", &[("0", "01"), ("0", "02")]));
        assert!(!verdict("fence", &[("0", "02"), ("0", "01")]));
        assert!(!verdict("beyond", &[("1", "01")]));
        let oracle = Oracle::new("twice", 1);
        let shell = |name: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", &oracle.script(name, "exec cat")]).stdin(Stdio::piped());
            shell.env("KGATE_SLOT", "0").env("KGATE_FENCE", name);
            Holder(shell.spawn().expect("a shell"))
        };
        let _first = shell("01");
        wait_until("the first is inside", || oracle.has("01"));
        let _second = shell("02");
        wait_until("the second is inside", || oracle.has("02"));
        assert!(std::panic::catch_unwind(|| oracle.check()).is_err());
    });
}
