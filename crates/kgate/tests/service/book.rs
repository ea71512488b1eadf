//! The book records the holders of a gate and checks them by kernel locks and by the order of lines
//! in one file.
//!
//! Each holder locks the file of its slot without waiting for the lock. Its descendants inherit the
//! lock, so it is released when the last of them is dead; a lock that is taken proves a second
//! holder. Then the holder appends a line, so the lines of a slot are in the order of its holders,
//! and their fences must increase.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kgate_client::Permit;
use rustix::fs::{FlockOperation, flock};

use crate::fixture::{Home, Process, until};

/// The book of one gate.
#[derive(Clone)]
pub(crate) struct Book(PathBuf);

/// A line of the book: one holder entered.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) slot: u32,
    pub(crate) fence: u128,
    pub(crate) name: String,
}

/// A holder within this process. Children inherit the lock until they call `exec`, so closing our
/// descriptor is not enough: the lock is released explicitly.
pub(crate) struct Inside(File);

impl Drop for Inside {
    fn drop(&mut self) {
        let _free = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Book {
    pub(crate) fn new(home: &Home, gate: &str) -> Self {
        let folder = home.0.join(format!("book-{gate}"));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn at(folder: &str) -> Self {
        Self(folder.into())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// The shell code that enters under this name and then does the rest.
    pub(crate) fn script(&self, name: &str, rest: &str) -> String {
        let book = self.0.display();
        format!(
            "exec 9>>{book}/slot-$KGATE_SLOT
             flock -n 9 || echo violation: {name} found slot $KGATE_SLOT taken >>{book}/log
             echo in $KGATE_SLOT $KGATE_FENCE {name} >>{book}/log
             {rest}"
        )
    }

    /// A command that enters under this name and then does the rest.
    pub(crate) fn inside(&self, mut command: Command, name: &str, rest: &str) -> Command {
        command.args(["--", "sh", "-c", &self.script(name, rest)]);
        command
    }

    /// Holds a permit until its standard input is closed; returns when it is inside.
    pub(crate) fn hold(&self, command: Command, name: &str, before: &str) -> Process {
        let mut command = self.inside(command, name, &format!("{before}\nexec cat"));
        let process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::null()));
        self.until_in(name);
        process
    }

    /// The same for a process without a guard: it is inside as long as it keeps the returned value.
    pub(crate) fn enter(&self, permit: &Permit, name: &str) -> Inside {
        // Where slots have no numbers, k is 1.
        let slot = permit.slots().first().copied().unwrap_or(0);
        let lock = File::options()
            .create(true)
            .append(true)
            .open(self.0.join(format!("slot-{slot}")))
            .unwrap();
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            self.write(&format!("violation: {name} found slot {slot} taken"));
        }
        self.write(&format!("in {slot} {:032x} {name}", permit.fence().unwrap_or(0)));
        Inside(lock)
    }

    fn write(&self, line: &str) {
        let mut log = File::options().create(true).append(true).open(self.0.join("log")).unwrap();
        log.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// All holders so far, in the order in which they entered.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let read = |line: &str| {
            let words: Vec<&str> = line.strip_prefix("in ")?.split(' ').collect();
            let [slot, fence, name] = words[..] else { panic!("{line}") };
            let fence = u128::from_str_radix(fence, 16).unwrap();
            Some(Entry { slot: slot.parse().unwrap(), fence, name: name.to_owned() })
        };
        // The last line may be incomplete.
        log.split_inclusive('\n').filter_map(|line| read(line.strip_suffix('\n')?)).collect()
    }

    /// Waits until a holder of that name has entered.
    pub(crate) fn until_in(&self, name: &str) {
        until(&format!("{name} is inside"), || {
            self.entries().iter().any(|entry| entry.name == name)
        });
    }

    /// The number of holders now, read from the kernel's list of locks: trying a lock would disturb
    /// a holder that enters at this moment.
    pub(crate) fn inside_now(&self) -> usize {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let files = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().metadata().unwrap());
        files.filter(|file| locks.contains(&format!(":{} ", file.ino()))).count()
    }

    /// The verdict without fences.
    pub(crate) fn check_locks(&self, k: u32) -> Vec<Entry> {
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        assert!(!log.contains("violation"), "{log}");
        let entries = self.entries();
        assert!(entries.iter().all(|entry| entry.slot < k), "a slot that is not below {k}:\n{log}");
        entries
    }

    /// The verdict: no slot had two holders, all slots are below k, and fences, where there are
    /// any, increased.
    pub(crate) fn check(&self, k: u32) -> Vec<Entry> {
        let entries = self.check_locks(k);
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        for (at, entry) in entries.iter().enumerate() {
            let before = entries[..at].iter().rev().find(|before| before.slot == entry.slot);
            let grew = before.is_none_or(|before| before.fence < entry.fence || entry.fence == 0);
            assert!(grew, "the fence of {} did not grow:\n{log}", entry.name);
        }
        entries
    }
}

/// The planted bugs: one slot with two holders, a slot beyond k, a fence that does not increase;
/// and a correct run.
#[test]
fn the_book_sees_what_is_wrong() {
    let home = Home::new("book");
    let wrong = |name: &str, lines: &[&str]| {
        let book = Book::new(&home, name);
        lines.iter().for_each(|line| book.write(line));
        std::panic::catch_unwind(|| book.check(2)).is_err()
    };
    assert!(!wrong("right", &["in 0 1 a", "in 1 2 b", "in 0 3 c"]));
    assert!(wrong("beyond", &["in 2 1 a"]));
    assert!(wrong("fence", &["in 0 5 a", "in 1 6 b", "in 0 5 c"]));
    let book = Book::new(&home, "locks");
    let shell = |name: &str, rest: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", &book.script(name, rest)])
            .env("KGATE_SLOT", "0")
            .env("KGATE_FENCE", "0");
        command
    };
    // Its child keeps the lock until the second holder has entered and noticed it.
    let mut first = shell("first", "exec 3<&0; cat <&3 >/dev/null &");
    let mut first = Process::start(first.stdin(Stdio::piped()));
    first.code();
    assert_eq!(book.inside_now(), 1);
    assert!(shell("second", "").status().unwrap().success());
    assert!(std::panic::catch_unwind(|| book.check(2)).is_err());
    first.close_input();
    until("the slot is free", || book.inside_now() == 0);
}
