//! What the owner and the task of a peer share: the message buffer, whether the link has failed,
//! and the wakers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kgate_core::{Incarnation, NodeId};
use tokio::sync::{Notify, mpsc};

use super::buffer::{self, Buffer};
use super::{Incoming, Refusal};
use crate::channel::{ChannelError, Handshake};
use crate::links::LinkConfig;
use crate::wire::{Hello, RefuseCode};

/// What to do when a process turns out to be older than another of the same name.
const NEWER_PROCESS: &str = "a newer process of this name has started; stop the older one";
/// What to do with a node that lost its data.
const ADD_AGAIN: &str = "add it again, under another number (docs/guide/operating.md)";

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    address: Mutex<String>,
    /// Queue of connections on which this peer has sent its `Hello`.
    pub(crate) incoming: mpsc::Sender<Incoming>,
    /// Notified when there is something to write.
    pub(super) work: Notify,
    /// Notified when the link has failed and the task may not know yet.
    pub(super) failed: Notify,
    /// Notified when the peer has another address.
    pub(super) moved: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) buffer: Box<dyn Buffer>,
    failure: Option<ChannelError>,
    /// The owner has been notified of the failure.
    reported: bool,
    /// The owner has been notified of a new incarnation and has not accepted it yet: messages that
    /// it sends are still meant for the earlier one.
    awaits_accept: bool,
}

impl Peer {
    pub(crate) fn new(
        id: NodeId,
        address: String,
        incoming: mpsc::Sender<Incoming>,
        config: &LinkConfig,
    ) -> Self {
        let buffer = buffer::new(config);
        let state = State { buffer, failure: None, reported: false, awaits_accept: false };
        Self {
            id,
            address: Mutex::new(address),
            incoming,
            work: Notify::new(),
            failed: Notify::new(),
            moved: Notify::new(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the address of the next connection. A connection that works stays.
    pub(crate) fn move_to(&self, address: String) {
        let mut known = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != address {
            *known = address;
            self.moved.notify_one();
        }
    }

    /// Locks the state. The lock is held for a few instructions, never across an `await`.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, bytes: Bytes) {
        let mut state = self.state();
        if state.failure.is_some() || state.awaits_accept {
            return;
        }
        match state.buffer.push(bytes) {
            Ok(()) => self.work.notify_one(),
            Err(error) => {
                drop(state);
                self.fail(error);
            }
        }
    }

    pub(crate) fn accept(&self, incarnation: Incarnation) {
        let mut state = self.state();
        if state.buffer.theirs() == Some(incarnation) {
            state.awaits_accept = false;
        }
    }

    /// Fails the link. The first reason counts. A link that may lose messages never fails.
    pub(crate) fn fail(&self, error: ChannelError) {
        let mut state = self.state();
        if state.failure.is_none() && state.buffer.fail() {
            state.failure = Some(error);
            self.failed.notify_one();
        }
    }

    /// Number of messages dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.state().buffer.dropped()
    }

    pub(crate) fn failure(&self) -> Option<ChannelError> {
        self.state().failure.clone()
    }

    /// Waits until the link fails. A notification left over from an earlier failure is ignored.
    pub(super) async fn until_failed(&self) {
        loop {
            self.failed.notified().await;
            if self.state().failure.is_some() {
                return;
            }
        }
    }

    /// The failure, if the owner has not been notified yet.
    pub(super) fn unreported_failure(&self) -> Option<ChannelError> {
        let mut state = self.state();
        let unreported = state.failure.clone().filter(|_| !state.reported);
        state.reported |= unreported.is_some();
        unreported
    }

    /// This side's handshake: for the incarnation that has just sent its own, or for the known one.
    pub(super) fn handshake(&self, to: Option<Incarnation>) -> Handshake {
        self.state().buffer.handshake(to)
    }

    /// Checks whether a link to the incarnation that sends this `Hello` is allowed.
    pub(crate) fn check(&self, hello: &Hello, config: &LinkConfig) -> Result<(), Refusal> {
        let mut state = self.state();
        let (peer, now, me, mine) = (self.id, hello.incarnation.0, config.me, config.incarnation);
        if let Some(known) = hello.known.filter(|known| *known > mine) {
            return Err(Refusal::local(
                RefuseCode::StaleIncarnation,
                format!(
                    "{peer} knows incarnation {} of {me}, and this process is incarnation {}: \
                     {NEWER_PROCESS}. If there is none, {me} has lost its data: {ADD_AGAIN}",
                    known.0, mine.0,
                ),
            ));
        }
        if state.failure.is_some() && state.buffer.theirs().is_none() {
            state.buffer.adopt(hello.incarnation);
        }
        let Some(was) = state.buffer.theirs().map(|incarnation| incarnation.0) else {
            return Ok(());
        };
        if now < was {
            return Err(Refusal::local(
                RefuseCode::StaleIncarnation,
                format!(
                    "{peer} connects as incarnation {now}, and {me} knows incarnation {was} of it: \
                     {NEWER_PROCESS}. If there is none, {peer} has lost its data: {ADD_AGAIN}"
                ),
            ));
        }
        if now > was && !config.accepts_new_incarnations() {
            return Err(Refusal::local(
                RefuseCode::RestartNotAccepted,
                format!(
                    "{peer} was incarnation {was} and has restarted as incarnation {now}: with \
                     fixed nodes a restarted node cannot take part again, and to {me} it has \
                     crashed. Stop {peer}; to have it back, stop all nodes and start them together"
                ),
            ));
        }
        match &state.failure {
            Some(error) if now == was => Err(refusal_of_failure(error, me, peer, was)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks whether the channel can continue with that incarnation; if not, the link fails.
    pub(super) fn check_channel(&self, hello: &Hello) -> Result<(), ChannelError> {
        let checked = self.state().buffer.check(handshake_of(hello));
        checked.inspect_err(|error| self.fail(error.clone()))
    }

    /// The peer has received all messages up to this one.
    pub(super) fn acknowledged(&self, ack: u64) -> Result<(), ChannelError> {
        self.state().buffer.acknowledged(ack)
    }

    /// Fills a buffer with the bytes to write now: messages, and an acknowledgement if it is due or
    /// the number of unacknowledged messages has reached `ack_frames`. Returns the number of
    /// messages that are still unacknowledged.
    pub(super) fn write(
        &self,
        room: usize,
        ack_is_due: bool,
        ack_frames: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let mut state = self.state();
        let buffer = &mut state.buffer;
        if ack_is_due || buffer.unacknowledged() >= ack_frames {
            buffer.write_ack(out);
        }
        buffer.write(room, out);
        buffer.unacknowledged()
    }

    /// Starts a new connection. Returns the earlier incarnation, if this is another.
    pub(super) fn resume(&self, hello: &Hello) -> Result<Option<Incarnation>, ChannelError> {
        self.check_channel(hello)?;
        let mut state = self.state();
        let was = state.buffer.resume(handshake_of(hello))?;
        if was.is_some() {
            (state.failure, state.reported, state.awaits_accept) = (None, false, true);
        }
        // The other side does not count the link as established before it has received something.
        self.work.notify_one();
        Ok(was)
    }
}

/// The refusal of an incarnation whose link has failed before.
fn refusal_of_failure(error: &ChannelError, me: NodeId, peer: NodeId, was: u32) -> Refusal {
    let code = match error {
        ChannelError::DeclaredDead(_) => RefuseCode::DeclaredDead,
        ChannelError::WindowFull { .. }
        | ChannelError::StateLost { .. }
        | ChannelError::NeverSent { .. }
        | ChannelError::Gap { .. } => RefuseCode::LinkFailed,
    };
    let message = format!(
        "the link of {me} to incarnation {was} of {peer} has failed: {error}. Restart {peer} as a \
         new incarnation"
    );
    Refusal::local(code, message)
}

fn handshake_of(hello: &Hello) -> Handshake {
    Handshake { incarnation: hello.incarnation, known: hello.known, received: hello.received }
}
