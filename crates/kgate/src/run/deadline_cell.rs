//! The deadline D, shared by front, guard and CMD: sixteen bytes of memory behind a descriptor.
//!
//! Eight bytes are D in nanoseconds of the lease clock, eight are its complement, both in the
//! machine's byte order. The guard writes; front and CMD read. Copying sixteen bytes is not atomic,
//! so a value whose halves disagree is read again. A shared mapping would need `unsafe`, and rare
//! reads cost less than one.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use super::lease_clock::LeaseInstant;

/// The shared memory with the deadline.
#[derive(Debug)]
pub(crate) struct DeadlineCell(File);

impl DeadlineCell {
    /// A cell with the deadline [`LeaseInstant::NEVER`].
    pub(crate) fn new() -> io::Result<Self> {
        let cell = DeadlineCell(File::from(memfd_create("kgate-deadline", MemfdFlags::CLOEXEC)?));
        cell.write(LeaseInstant::NEVER)?;
        Ok(cell)
    }

    pub(crate) fn write(&self, until: LeaseInstant) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&until.0.to_ne_bytes());
        bytes[8..].copy_from_slice(&(!until.0).to_ne_bytes());
        self.0.write_all_at(&bytes, 0)
    }

    /// The deadline; `None` if no consistent value could be read. The caller keeps the previous
    /// value, which is earlier and therefore safe.
    pub(crate) fn read(&self) -> Option<LeaseInstant> {
        const TRIES: u32 = 100;
        (0..TRIES).find_map(|_| {
            let mut bytes = [0; 16];
            self.0.read_exact_at(&mut bytes, 0).ok()?;
            let (until, complement) = bytes.split_at(8);
            let until = u64::from_ne_bytes(until.try_into().ok()?);
            let complement = u64::from_ne_bytes(complement.try_into().ok()?);
            (until == !complement).then_some(LeaseInstant(until))
        })
    }

    /// A read-only descriptor of the same cell, for CMD.
    pub(crate) fn read_only(&self) -> io::Result<OwnedFd> {
        Ok(File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One side reads what the other writes; a torn write is not taken for a deadline.
    #[test]
    fn a_torn_write_is_no_deadline() {
        let cell = DeadlineCell::new().expect("memory");
        assert_eq!(cell.read(), Some(LeaseInstant::NEVER));
        cell.write(LeaseInstant(77)).expect("written");
        let other = DeadlineCell(File::from(cell.read_only().expect("opened")));
        assert_eq!(other.read(), Some(LeaseInstant(77)));
        assert!(other.write(LeaseInstant(78)).is_err(), "CMD may not write");
        cell.0.write_all_at(&[1], 0).expect("written");
        assert_eq!(other.read(), None);
    }
}
