//! What the owner and the task of a peer share: the channel, whether it is broken, and the wakers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kgate_core::{Incarnation, NodeId};
use tokio::sync::{Notify, mpsc};

use super::Call;
use crate::channel::{Broken, Channel, Greeting};
use crate::links::LinkConfig;
use crate::wire::Hello;

const NO_RETURN: &str = "a restarted node cannot take part again";
const BROKEN_OFF: &str = "has broken off with";

/// Whether a peer has refused this life of this node for good, by the words of its refusal: it may as well stop.
pub fn refuses_this_life(why: &str) -> bool {
    why.contains(" refuses: ") && (why.contains(NO_RETURN) || why.contains(BROKEN_OFF))
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) address: String,
    /// Where a connection of this peer goes that has greeted.
    pub(crate) calls: mpsc::Sender<Call>,
    /// There is something to write.
    pub(super) work: Notify,
    /// The link has broken, and the task does not know yet.
    pub(super) broke: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) channel: Channel,
    broken: Option<Broken>,
    /// The owner was told of the break.
    told: bool,
    /// A new life was told of, and the owner has not welcomed it: what it sends is still meant for the old one.
    unwelcome: bool,
}

impl Peer {
    pub(crate) fn new(id: NodeId, address: String, calls: mpsc::Sender<Call>, config: &LinkConfig) -> Self {
        let channel = Channel::new(config.incarnation, config.limits.window);
        let state = State { channel, broken: None, told: false, unwelcome: false };
        Self { id, address, calls, work: Notify::new(), broke: Notify::new(), state: Mutex::new(state) }
    }

    /// Held for a few instructions at a time, never while anything waits.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, bytes: Bytes) {
        let mut state = self.state();
        if state.broken.is_some() || state.unwelcome {
            return;
        }
        match state.channel.push(bytes) {
            Ok(()) => self.work.notify_one(),
            Err(why) => {
                drop(state);
                self.break_off(why);
            }
        }
    }

    pub(crate) fn welcome(&self, life: Incarnation) {
        let mut state = self.state();
        if state.channel.theirs() == Some(life) {
            state.unwelcome = false;
        }
    }

    /// The first reason counts.
    pub(crate) fn break_off(&self, why: Broken) {
        let mut state = self.state();
        if state.broken.is_none() {
            state.broken = Some(why);
            state.channel.drop_kept();
            self.broke.notify_one();
        }
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.state().broken.clone()
    }

    /// Until the link breaks. A waker that is left over from an earlier break is nothing.
    pub(super) async fn until_broken(&self) {
        loop {
            self.broke.notified().await;
            if self.state().broken.is_some() {
                return;
            }
        }
    }

    /// Why it is broken, if the owner was not told yet.
    pub(super) fn untold(&self) -> Option<Broken> {
        let mut state = self.state();
        let untold = state.broken.clone().filter(|_| !state.told);
        state.told |= untold.is_some();
        untold
    }

    /// What to say to the peer, or to the life of it that has just spoken.
    pub(super) fn greeting(&self, to: Option<Incarnation>) -> Greeting {
        self.state().channel.greeting(to)
    }

    /// Whether the life that greets like this may be met, and if not, why.
    pub(crate) fn judge(&self, hello: &Hello, config: &LinkConfig) -> Result<(), String> {
        let mut state = self.state();
        let (peer, now, me, mine) = (self.id, hello.incarnation.0, config.me, config.incarnation);
        if hello.of.is_some_and(|known| known > mine) {
            return Err(format!(
                "{peer} has met {me} as incarnation {}, and this process is incarnation {} of it: a newer process of this \
                 name has been started; stop the older one",
                hello.of.unwrap_or_default().0,
                mine.0,
            ));
        }
        if state.broken.is_some() && state.channel.theirs().is_none() {
            state.channel.adopt(hello.incarnation);
        }
        let Some(was) = state.channel.theirs().map(|life| life.0) else { return Ok(()) };
        if now < was {
            return Err(format!(
                "{peer} calls as incarnation {now}, and {me} has met incarnation {was} of it: a newer process of this name \
                 has been started; stop the older one"
            ));
        }
        if now > was && !config.accepts_returns {
            return Err(format!(
                "{peer} was here as incarnation {was} and returns as incarnation {now}: {NO_RETURN} until membership is \
                 agreed. To {me} it has crashed. Stop {peer}; to have it back, stop all nodes and start them together"
            ));
        }
        match &state.broken {
            Some(why) if now == was => Err(format!(
                "{me} {BROKEN_OFF} incarnation {was} of {peer}: {why}. Start {peer} anew, as a new incarnation"
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the channel can go on with that life; if not, it is broken from now on.
    pub(super) fn fits(&self, hello: &Hello) -> Result<(), Broken> {
        let judged = self.state().channel.judge(said(hello));
        judged.inspect_err(|why| self.break_off(why.clone()))
    }

    /// The peer has had all messages up to this one.
    pub(super) fn acknowledged(&self, ack: u64) -> Result<(), Broken> {
        self.state().channel.acknowledged(ack)
    }

    /// Fills a buffer with what is to be written now: messages, or, if it is due or many are owed, an acknowledgement.
    /// Returns how many are still owed.
    pub(super) fn write(&self, room: usize, ack_is_due: bool, ack_frames: u64, out: &mut Vec<u8>) -> u64 {
        let mut state = self.state();
        let channel = &mut state.channel;
        if ack_is_due || channel.owed() >= ack_frames {
            channel.write_ack(out);
        }
        channel.write(room, out);
        channel.owed()
    }

    /// A new connection begins: which life is over, if this is another.
    pub(super) fn resume(&self, hello: &Hello) -> Result<Option<Incarnation>, Broken> {
        self.fits(hello)?;
        let mut state = self.state();
        let was = state.channel.resume(said(hello))?;
        if was.is_some() {
            (state.broken, state.told, state.unwelcome) = (None, false, true);
        }
        // The other side does not count this side as met before it has heard something.
        self.work.notify_one();
        Ok(was)
    }
}

fn said(hello: &Hello) -> Greeting {
    Greeting { incarnation: hello.incarnation, of: hello.of, received: hello.received }
}
