//! The book: who was inside, checked by locks of the kernel and by the order of lines in one file.
//!
//! Whoever goes in locks the file of its slot and does not wait for the lock; its descendants
//! inherit it, so it is free when the last of them is dead. A lock that is taken is a second one
//! inside. Then it writes a line, so that for each slot the lines are in the order of its holders,
//! and their fences must grow.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kgate_client::Permit;
use rustix::fs::{FlockOperation, flock};

use crate::scene::{Home, Process, until};

/// The book of one gate.
#[derive(Clone)]
pub(crate) struct Book(PathBuf);

/// A line of it: somebody went in.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) slot: u32,
    pub(crate) fence: u128,
    pub(crate) name: String,
}

/// Somebody of this process is inside. What is started meanwhile has a copy of the lock until it
/// runs its own program, so it is not enough to close ours: it is given up.
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

    /// What a shell does that goes in under this name; then it does the rest.
    pub(crate) fn script(&self, name: &str, rest: &str) -> String {
        let book = self.0.display();
        format!(
            "exec 9>>{book}/slot-$KGATE_SLOT
             flock -n 9 || echo violation: {name} found slot $KGATE_SLOT taken >>{book}/log
             echo in $KGATE_SLOT $KGATE_FENCE {name} >>{book}/log
             {rest}"
        )
    }

    /// A command that goes in under this name and does the rest.
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

    /// The same for a process that has no guard: it is inside for as long as it keeps what it gets.
    pub(crate) fn enter(&self, permit: &Permit, name: &str) -> Inside {
        // Where slots have no numbers k is 1.
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

    /// Whoever went in so far, in their order.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let read = |line: &str| {
            let words: Vec<&str> = line.strip_prefix("in ")?.split(' ').collect();
            let [slot, fence, name] = words[..] else { panic!("{line}") };
            let fence = u128::from_str_radix(fence, 16).unwrap();
            Some(Entry { slot: slot.parse().unwrap(), fence, name: name.to_owned() })
        };
        // The last line may not be there as a whole.
        log.split_inclusive('\n').filter_map(|line| read(line.strip_suffix('\n')?)).collect()
    }

    /// Waits until somebody of that name went in.
    pub(crate) fn until_in(&self, name: &str) {
        until(&format!("{name} is inside"), || {
            self.entries().iter().any(|entry| entry.name == name)
        });
    }

    /// How many are inside now, by what the kernel says of its locks: to try one would stand in the
    /// way of whoever goes in.
    pub(crate) fn inside_now(&self) -> usize {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let files = fs::read_dir(&self.0).unwrap().map(|file| file.unwrap().metadata().unwrap());
        files.filter(|file| locks.contains(&format!(":{} ", file.ino()))).count()
    }

    /// The verdict without the fences.
    pub(crate) fn check_locks(&self, k: u32) -> Vec<Entry> {
        let log = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        assert!(!log.contains("violation"), "{log}");
        let entries = self.entries();
        assert!(entries.iter().all(|entry| entry.slot < k), "a slot that is not below {k}:\n{log}");
        entries
    }

    /// The verdict: nobody met another in its slot, all slots are below k, and where there are
    /// fences they grew.
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

/// The planted bugs: one slot for two at once, a slot beyond k, a fence that does not grow; and a
/// run that is right.
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
    // Its child has the lock and incarnations on, until the second is there and has seen it.
    let mut first = shell("first", "exec 3<&0; cat <&3 >/dev/null &");
    let mut first = Process::start(first.stdin(Stdio::piped()));
    first.code();
    assert_eq!(book.inside_now(), 1);
    assert!(shell("second", "").status().unwrap().success());
    assert!(std::panic::catch_unwind(|| book.check(2)).is_err());
    first.close_input();
    until("the slot is free", || book.inside_now() == 0);
}
