//! The messages between front, guard and stage, over socket pairs.
//!
//! A child process has its end from its parent by the fork. Packets keep their boundaries and
//! order. Sending never waits: a frozen reader must not freeze the writer. A message that does not
//! fit into a packet travels as a descriptor of memory that contains it.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keeper::AcquireRequest;
use super::margins::Margins;

/// From the front to the guard.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToGuard {
    /// The first message.
    Hello {
        request: Box<AcquireRequest>,
        /// Exit code for [`RefusalKind::Busy`](super::keeper::RefusalKind::Busy).
        busy_code: u8,
        verbose: bool,
        /// The wait is not shown on a terminal.
        quiet: bool,
        /// No process waits for the front: it closes its output when CMD runs.
        detached: bool,
        /// The front's process group, if CMD takes the terminal from it.
        terminal_of: Option<i32>,
        /// Signals that were blocked when the front was started.
        blocked: Vec<i32>,
    },
    /// A signal that arrived before the front knew the process of CMD. SIGTSTP: the front is about
    /// to stop, answered by `LineCleared`; SIGCONT: it continues.
    Signal(i32),
    /// The front is about to stop CMD instead of the guard: from now on every end of CMD means that
    /// the permit was lost.
    Stopping,
}

/// From the guard to the front.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToFront {
    /// CMD starts: its process, which is also its process group, the token to release the permit if
    /// the guard dies, and the margins to kill by if the guard is frozen.
    Started {
        process: i32,
        release_token: Vec<u8>,
        margins: Margins,
        /// The control group of CMD, if it has one.
        control_group: Option<PathBuf>,
    },
    /// Nothing of the wait is on the terminal until the front continues.
    LineCleared,
    /// CMD was stopped by this signal.
    Stopped(i32),
    /// The guard has sent TERM, so the front need not.
    Stopping,
    /// The tree is gone and the permit is released.
    Ended(End),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Exited(i32),
    /// CMD was ended by this signal.
    Killed(i32),
    /// The permit was lost, for this reason, and CMD was stopped.
    Lost(String),
    /// CMD never ran.
    Refused {
        code: u8,
        message: String,
    },
    /// This signal arrived before the grant.
    Cancelled(i32),
}

/// From the guard to the stage: become CMD. Carries the descriptors of the permit that CMD
/// inherits.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Go {
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) terminal_of: Option<i32>,
    pub(crate) blocked: Vec<i32>,
}

/// From the stage to the guard: CMD could not be executed. If it could, the channel closes without
/// a message.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NotRun {
    pub(crate) errno: i32,
}

/// Result of a receive.
#[derive(Debug)]
pub(crate) enum Received<T> {
    Message(T, Vec<OwnedFd>),
    Nothing,
    /// The other end is closed.
    Closed,
}

/// One end of a socket pair.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

/// Maximum size of a packet.
const BYTES_MAX: usize = 1 << 13;
/// The packet of a longer message, whose first descriptor is its memory. No JSON text begins so.
const IN_MEMORY: &[u8] = b"@";
/// The kernel's maximum per packet.
const DESCRIPTORS_MAX: usize = 253;
/// Maximum number of descriptors that CMD inherits from a permit: all that Go carries, but for the
/// memory of a long message.
pub(crate) const INHERITED_MAX: usize = DESCRIPTORS_MAX - 1;

impl Channel {
    pub(crate) fn pair() -> io::Result<(Channel, Channel)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(ours), Channel(theirs)))
    }

    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        let memory = (bytes.len() > BYTES_MAX).then(|| in_memory(&bytes)).transpose()?;
        let mut descriptors = descriptors.to_vec();
        if let Some(memory) = &memory {
            descriptors.insert(0, memory.as_fd());
            bytes = IN_MEMORY.to_vec();
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::Error::other("too many descriptors for one message"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Waits for a message.
    pub(crate) fn wait<T: DeserializeOwned>(&self) -> io::Result<Received<T>> {
        self.receive(RecvFlags::CMSG_CLOEXEC)
    }

    /// Takes a message if there is one.
    pub(crate) fn take<T: DeserializeOwned>(&self) -> io::Result<Received<T>> {
        self.receive(RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
    }

    fn receive<T: DeserializeOwned>(&self, flags: RecvFlags) -> io::Result<Received<T>> {
        let mut bytes = vec![0; BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::io::retry_on_intr(|| {
            recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)
        });
        let length = match got {
            Ok(message) => message.bytes,
            Err(rustix::io::Errno::AGAIN) => return Ok(Received::Nothing),
            Err(rustix::io::Errno::CONNRESET) => return Ok(Received::Closed),
            Err(error) => return Err(error.into()),
        };
        if length == 0 {
            return Ok(Received::Closed);
        }
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = part {
                descriptors.extend(rights);
            }
        }
        bytes.truncate(length);
        if bytes == IN_MEMORY && !descriptors.is_empty() {
            bytes.clear();
            File::from(descriptors.remove(0)).read_to_end(&mut bytes)?;
        }
        Ok(Received::Message(serde_json::from_slice(&bytes)?, descriptors))
    }
}

/// Memory that contains a message, to be read from its start.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut memory = File::from(memfd_create("kgate-message", MemfdFlags::CLOEXEC)?);
    memory.write_all(bytes)?;
    memory.rewind()?;
    Ok(memory)
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages keep their boundaries, descriptors arrive with their message, and a closed end is
    /// told from an empty channel.
    #[test]
    fn messages_keep_their_boundaries() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        assert!(matches!(theirs.take::<ToGuard>(), Ok(Received::Nothing)));
        ours.send(&ToGuard::Signal(2), &[ours.as_fd()]).expect("sent");
        ours.send(&ToGuard::Signal(15), &[]).expect("sent");
        let Ok(Received::Message(ToGuard::Signal(2), descriptors)) = theirs.take() else {
            panic!("first")
        };
        assert_eq!(descriptors.len(), 1);
        drop(descriptors);
        assert!(matches!(theirs.take(), Ok(Received::Message(ToGuard::Signal(15), _))));
        drop(ours);
        assert!(matches!(theirs.take::<ToGuard>(), Ok(Received::Closed)));
    }

    /// A message longer than any packet arrives whole, and so do its descriptors.
    #[test]
    fn a_message_may_be_long() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        for length in [BYTES_MAX - 64, BYTES_MAX, 70_000, 3 << 20] {
            let variables = vec![("NAME".to_owned(), "x".repeat(length))];
            let go = Go { variables, terminal_of: None, blocked: Vec::new() };
            let descriptors = vec![ours.as_fd(); INHERITED_MAX];
            ours.send(&go, &descriptors).expect("sent");
            let Ok(Received::Message(received, descriptors)) = theirs.take::<Go>() else {
                panic!("a message of {length} bytes")
            };
            assert_eq!(received, go);
            assert_eq!(descriptors.len(), INHERITED_MAX);
        }
    }
}
