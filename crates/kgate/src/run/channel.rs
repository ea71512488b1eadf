//! What front, guard and stage say to each other, over pairs of sockets.
//!
//! Each child of ours gets its end as standard input, since that is the one descriptor that safe
//! code can take over from a parent; CMD's real standard input and everything else travels inside a
//! message. Packets keep their borders and order. Sending never waits: a frozen reader must not
//! freeze the writer.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keeper::Wish;
use super::margins::Margins;

/// From the front to the guard.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToGuard {
    /// The first one; with it come CMD's standard input and the page.
    Hello {
        wish: Box<Wish>,
        /// Exit code of a wait that is over.
        occupied_code: u8,
        verbose: bool,
        /// Nobody waits for the front: it says nothing more once CMD runs.
        detached: bool,
        /// The front's process group, if CMD is to take the terminal from it.
        terminal_of: Option<i32>,
        /// Signals that were blocked before we blocked ours.
        blocked: Vec<i32>,
    },
    /// A signal that came before the front knew of CMD.
    Signal(i32),
    /// Said before the front stops CMD in the guard's place: whatever end of CMD is seen from then
    /// on, the permit was lost.
    Stopping,
}

/// From the guard to the front.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToFront {
    /// CMD may run: its process, which is also its group, how to give the permit back should the
    /// guard die, and when to kill should it sleep.
    Started { process: i32, ticket: Vec<u8>, margins: Margins },
    /// CMD was stopped by this signal.
    Stopped(i32),
    /// TERM was sent: the front need not do it.
    Stopping,
    /// The tree is gone and the permit given back.
    Ended(End),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// The permit was lost and CMD stopped.
    Lost(String),
    /// CMD never ran; the text is for people.
    Refused {
        code: u8,
        text: String,
    },
    /// A signal came while we waited.
    Cancelled(i32),
}

/// From the guard to the stage: go. With it come standard input, the page to read, and what else
/// CMD inherits.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Go {
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) terminal_of: Option<i32>,
    pub(crate) blocked: Vec<i32>,
}

/// From the stage to the guard: it could not become CMD. If it could, its end closes without a
/// word.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NotRun {
    pub(crate) errno: i32,
}

/// What was there to read.
#[derive(Debug)]
pub(crate) enum Received<T> {
    Message(T, Vec<OwnedFd>),
    Nothing,
    /// The other end is gone.
    Closed,
}

/// One end.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

const BYTES_MAX: usize = 1 << 16;
const DESCRIPTORS_MAX: usize = 64;

impl Channel {
    pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(ours), theirs))
    }

    /// The end that our parent gave us.
    pub(crate) fn from_standard_input() -> io::Result<Channel> {
        Ok(Channel(io::stdin().as_fd().try_clone_to_owned()?))
    }

    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
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
        Ok(Received::Message(serde_json::from_slice(&bytes[..length])?, descriptors))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages keep their borders, descriptors arrive with theirs, and the end of the other side
    /// is told from silence.
    #[test]
    fn a_message_arrives_whole() {
        let (ours, theirs) = Channel::pair().expect("sockets");
        let theirs = Channel(theirs);
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
}
