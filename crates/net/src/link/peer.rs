//! What the owner and the task of a peer share: the channel, whether it is broken, and the wakers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kgate_core::{Incarnation, NodeId};
use tokio::sync::{Notify, mpsc};

use super::Call;
use super::carrier::Carrier;
use crate::channel::{Broken, Greeting};
use crate::links::LinkConfig;
use crate::wire::Hello;

const NO_RETURN: &str = "a restarted node cannot take part again";
const BROKEN_OFF: &str = "has broken off with";
/// What to do with a node whose data is gone.
const ANEW: &str = "an operator adds it anew, under another number (docs/guide/fleet.md)";

/// Whether a peer has refused this incarnation of this node for good, by the words of its refusal:
/// it may as well stop.
pub fn refuses_this_incarnation(why: &str) -> bool {
    why.contains(" refuses: ") && (why.contains(NO_RETURN) || why.contains(BROKEN_OFF))
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    address: Mutex<String>,
    /// Where a connection of this peer goes that has greeted.
    pub(crate) calls: mpsc::Sender<Call>,
    /// There is something to write.
    pub(super) work: Notify,
    /// The link has broken, and the task does not know yet.
    pub(super) broke: Notify,
    /// It has another address.
    pub(super) moved: Notify,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) carrier: Carrier,
    broken: Option<Broken>,
    /// The owner was told of the break.
    told: bool,
    /// A new incarnation was told of, and the owner has not welcomed it: what it sends is still
    /// meant for the old one.
    unwelcome: bool,
}

impl Peer {
    pub(crate) fn new(
        id: NodeId,
        address: String,
        calls: mpsc::Sender<Call>,
        config: &LinkConfig,
    ) -> Self {
        let state =
            State { carrier: Carrier::new(config), broken: None, told: false, unwelcome: false };
        Self {
            id,
            address: Mutex::new(address),
            calls,
            work: Notify::new(),
            broke: Notify::new(),
            moved: Notify::new(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The next connection goes there; one that works is left alone.
    pub(crate) fn move_to(&self, address: String) {
        let mut known = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != address {
            *known = address;
            self.moved.notify_one();
        }
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
        match state.carrier.push(bytes) {
            Ok(()) => self.work.notify_one(),
            Err(why) => {
                drop(state);
                self.break_off(why);
            }
        }
    }

    pub(crate) fn welcome(&self, incarnation: Incarnation) {
        let mut state = self.state();
        if state.carrier.theirs() == Some(incarnation) {
            state.unwelcome = false;
        }
    }

    /// The first reason counts. A link that may lose messages never breaks.
    pub(crate) fn break_off(&self, why: Broken) {
        let mut state = self.state();
        let State { carrier: Carrier::Exact(channel), broken: broken @ None, .. } = &mut *state
        else {
            return;
        };
        *broken = Some(why);
        channel.drop_kept();
        self.broke.notify_one();
    }

    /// So many messages were dropped for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.state().carrier.dropped()
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

    /// What to say to the peer, or to the incarnation of it that has just spoken.
    pub(super) fn greeting(&self, to: Option<Incarnation>) -> Greeting {
        self.state().carrier.greeting(to)
    }

    /// Whether the incarnation that greets like this may be met, and if not, why.
    pub(crate) fn check(&self, hello: &Hello, config: &LinkConfig) -> Result<(), String> {
        let mut state = self.state();
        let (peer, now, me, mine) = (self.id, hello.incarnation.0, config.me, config.incarnation);
        if hello.of.is_some_and(|known| known > mine) {
            return Err(format!(
                "{peer} has met {me} as incarnation {}, and this process is incarnation {} of it: a newer process of this \
                 name has been started; stop the older one. If there is none, {me} has lost its data: {ANEW}",
                hello.of.unwrap_or_default().0,
                mine.0,
            ));
        }
        if let State { carrier: Carrier::Exact(channel), broken: Some(_), .. } = &mut *state
            && channel.theirs().is_none()
        {
            channel.adopt(hello.incarnation);
        }
        let Some(was) = state.carrier.theirs().map(|incarnation| incarnation.0) else {
            return Ok(());
        };
        if now < was {
            return Err(format!(
                "{peer} calls as incarnation {now}, and {me} has met incarnation {was} of it: a newer process of this name \
                 has been started; stop the older one. If there is none, {peer} has lost its data: {ANEW}"
            ));
        }
        if now > was && !config.takes_back() {
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

    /// Whether the channel can go on with that incarnation; if not, it is broken from now on.
    pub(super) fn fits(&self, hello: &Hello) -> Result<(), Broken> {
        let checked = self.state().carrier.check(said(hello));
        checked.inspect_err(|why| self.break_off(why.clone()))
    }

    /// The peer has had all messages up to this one.
    pub(super) fn acknowledged(&self, ack: u64) -> Result<(), Broken> {
        self.state().carrier.acknowledged(ack)
    }

    /// Fills a buffer with what is to be written now: messages, or, if it is due or many are owed,
    /// an acknowledgement. Returns how many are still owed.
    pub(super) fn write(
        &self,
        room: usize,
        ack_is_due: bool,
        ack_frames: u64,
        out: &mut Vec<u8>,
    ) -> u64 {
        let mut state = self.state();
        let carrier = &mut state.carrier;
        if ack_is_due || carrier.owed() >= ack_frames {
            carrier.write_ack(out);
        }
        carrier.write(room, out);
        carrier.owed()
    }

    /// A new connection begins: which incarnation is over, if this is another.
    pub(super) fn resume(&self, hello: &Hello) -> Result<Option<Incarnation>, Broken> {
        self.fits(hello)?;
        let mut state = self.state();
        let was = state.carrier.resume(said(hello))?;
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
