//! The guarded resource: it checks fences, and has a lock of the kernel for each slot.
//!
//! The resource is a thread of the driver behind a Unix socket, which every namespace can reach.
//! For each slot of each gate it stores the greatest fence and refuses smaller ones (LEASES 9). A
//! client that is stopped during an access does not block others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};

type Greatest = BTreeMap<(String, u32), u128>;

fn socket(run: &Path) -> PathBuf {
    run.join("resource")
}

/// Serves until the process ends.
pub(crate) fn serve(run: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket(run)).context("cannot open the resource")?;
    let greatest: Arc<Mutex<Greatest>> = Arc::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let greatest = greatest.clone();
            std::thread::spawn(move || answer(&stream, &greatest));
        }
    });
    Ok(())
}

/// Reads one line and writes one answer. The client may be dead by now; that is not an error.
fn answer(stream: &UnixStream, greatest: &Mutex<Greatest>) -> Option<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (gate, slot, fence) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let fence = u128::from_str_radix(fence, 16).ok()?;
    let mut all = greatest.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.entry((gate.to_owned(), slot)).or_default();
    *known = fence.max(*known);
    let known = *known;
    drop(all);
    let mut stream = stream;
    writeln!(stream, "{known:032x}").ok()
}

/// Uses the resource; returns the greater fence if the resource refuses.
pub(crate) fn access(run: &Path, gate: &str, slot: u32, fence: &str) -> Result<Option<String>> {
    let mut stream = UnixStream::connect(socket(run)).context("cannot reach the resource")?;
    writeln!(stream, "{gate} {slot} {fence}").context("the resource does not read")?;
    let mut known = String::new();
    stream.read_to_string(&mut known).context("the resource does not answer")?;
    let known = known.trim();
    anyhow::ensure!(!known.is_empty(), "the resource did not understand `{gate} {slot} {fence}`");
    Ok((known != fence).then(|| known.to_owned()))
}

/// Takes the lock of a slot; the id of its owner if it is taken. The lock is free when the last
/// process that inherited it is dead.
pub(crate) fn lock(run: &Path, gate: &str, slot: u32) -> Result<std::result::Result<File, u32>> {
    let path = run.join(format!("lock-{gate}-{slot}"));
    let file = File::options().create(true).read(true).append(true).open(&path);
    let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
    if file.try_lock().is_err() {
        let mut owner = String::new();
        file.read_to_string(&mut owner).context("cannot read who has the lock")?;
        return Ok(Err(owner.trim().parse().unwrap_or(0)));
    }
    file.set_len(0).and_then(|()| file.rewind()).context("cannot write who has the lock")?;
    writeln!(file, "{}", std::process::id()).context("cannot write who has the lock")?;
    Ok(Ok(file))
}

#[cfg(test)]
mod tests {
    use kgate_testkit::TempFolder;

    use super::*;

    /// LEASES 9: a smaller fence is refused, the same and a greater one are not; slots and gates
    /// know nothing of each other.
    #[test]
    fn the_resource_refuses_old_fences() {
        let run = TempFolder::new("resource");
        serve(&run).unwrap();
        let fence = |number: u32| format!("{number:032x}");
        let uses = |gate, slot, number| access(&run, gate, slot, &fence(number)).unwrap();
        assert_eq!(uses("a", 0, 5), None);
        assert_eq!(uses("a", 0, 5), None);
        assert_eq!(uses("a", 0, 4), Some(fence(5)));
        assert_eq!((uses("a", 1, 1), uses("b", 0, 1), uses("a", 0, 6)), (None, None, None));
        assert!(access(&run, "a", 0, "no number").is_err());
    }

    /// A lock that is taken names its owner, and is free when it is dropped.
    #[test]
    fn a_lock_names_its_owner() {
        let run = TempFolder::new("lock");
        let first = lock(&run, "a", 0).unwrap().expect("free");
        assert_eq!(lock(&run, "a", 0).unwrap().unwrap_err(), std::process::id());
        assert!(lock(&run, "a", 1).unwrap().is_ok());
        drop(first);
        assert!(lock(&run, "a", 0).unwrap().is_ok());
    }
}
