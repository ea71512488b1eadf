//! The deadline D, where both processes see it: sixteen bytes of memory behind a descriptor.
//!
//! Eight bytes are D in nanoseconds of the lease clock, eight are its complement, both in the
//! machine's byte order. The guard writes, front and CMD read. A copy of sixteen bytes is not
//! atomic; one that does not agree with itself is read again. Without `unsafe` there is no shared
//! mapping, and a read now and then costs less than one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

use super::lease_clock::LeaseInstant;

/// The shared memory with the deadline.
#[derive(Debug)]
pub(crate) struct Page(File);

impl Page {
    /// A page that says [`LeaseInstant::NEVER`].
    pub(crate) fn new() -> io::Result<Self> {
        let page = Page(File::from(memfd_create("kgate-deadline", MemfdFlags::CLOEXEC)?));
        page.write(LeaseInstant::NEVER)?;
        Ok(page)
    }

    pub(crate) fn write(&self, until: LeaseInstant) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&until.0.to_ne_bytes());
        bytes[8..].copy_from_slice(&(!until.0).to_ne_bytes());
        self.0.write_all_at(&bytes, 0)
    }

    /// `None` if it could not be read in one piece: whoever asks keeps to what was read before,
    /// which is earlier and so safe.
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

    /// The same page for CMD, which may only read it.
    pub(crate) fn read_only(&self) -> io::Result<OwnedFd> {
        Ok(File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd()))?.into())
    }
}

impl From<OwnedFd> for Page {
    fn from(descriptor: OwnedFd) -> Self {
        Page(File::from(descriptor))
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one side writes, the other reads; half a write is not taken for a deadline.
    #[test]
    fn a_torn_page_says_nothing() {
        let page = Page::new().expect("memory");
        assert_eq!(page.read(), Some(LeaseInstant::NEVER));
        page.write(LeaseInstant(77)).expect("written");
        let other = Page::from(page.read_only().expect("opened"));
        assert_eq!(other.read(), Some(LeaseInstant(77)));
        assert!(other.write(LeaseInstant(78)).is_err(), "CMD may not write");
        page.0.write_all_at(&[1], 0).expect("written");
        assert_eq!(other.read(), None);
    }
}
