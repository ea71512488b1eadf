//! The link to one peer: a task that gets a connection, greets, carries messages, and begins again
//! when it is lost.
//!
//! One task has one connection at a time. A new call of the peer replaces the old connection (its
//! side gave that up before it called), and the old one is closed before the answer says how much
//! has come: so that number is final. The [`Channel`](crate::Channel) outlives the connections; it
//! is shared with the owner, who pushes into it and wakes the task.
//!
//! | file | what |
//! |---|---|
//! | `carrier` | what keeps its messages: exactly once in order, or as far as there is room |
//! | `peer` | what the owner and the task share |
//! | `greet` | who may be met: both sides of the handshake |
//! | `live` | a connection that carries messages |
//! | `pause` | how long to wait before the next attempt |

mod carrier;
mod greet;
mod live;
mod pause;
mod peer;

use std::sync::Arc;

use kgate_core::NodeId;
use tokio::sync::{mpsc, watch};

use crate::links::{LinkConfig, LinkEvent, Roster};
use crate::tls::Keys;
pub(crate) use greet::{Call, Unread, check, read_frame, refuse};
use greet::{Failure, Met};
use live::End;
use pause::Pause;
pub(crate) use peer::Peer;
pub use peer::refuses_this_incarnation;

/// What all tasks of a node know.
pub(crate) struct Shared {
    pub(crate) config: LinkConfig,
    pub(crate) keys: Keys,
    pub(crate) roster: Roster,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.config.fmt(f)
    }
}

/// The owner does not listen any more, or has said stop: the task ends.
pub(crate) struct Over;

/// The task of one peer.
pub(crate) struct Link {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    /// Connections of the peer that have greeted, if it is the one who dials.
    calls: mpsc::Receiver<Call>,
    tell: Tell,
    stop: watch::Receiver<bool>,
    pause: Pause,
    last_refusal: Option<String>,
}

impl Link {
    pub(crate) fn new(
        shared: Arc<Shared>,
        peer: Arc<Peer>,
        calls: mpsc::Receiver<Call>,
        events: mpsc::Sender<LinkEvent>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let tell = Tell { events, stop: stop.clone() };
        let pause = Pause::new(&shared.config.limits, shared.config.me, peer.id);
        Self { shared, peer, calls, tell, stop, pause, last_refusal: None }
    }

    /// Until the owner stops it.
    pub(crate) async fn run(mut self) {
        let Over = self.go_on().await;
    }

    async fn go_on(&mut self) -> Over {
        let mut call = None;
        loop {
            let met = match call.take() {
                Some(call) => greet::answer(&self.shared, &self.peer, call).await,
                None => match self.next().await {
                    Ok(met) => met,
                    Err(over) => return over,
                },
            };
            let after = match met {
                Ok(met) => self.live(met).await,
                Err(Failure::Refused(why)) => self.tell_refused(why).await.map(|()| None),
                Err(Failure::Broken) => self.tell_broken().await.map(|()| None),
                Err(Failure::Unreachable) => Ok(None),
            };
            match after {
                Ok(next) => call = next,
                Err(over) => return over,
            }
        }
    }

    /// The next connection that has greeted or failed to. The smaller id dials.
    async fn next(&mut self) -> Result<Result<Met, Failure>, Over> {
        let dials = self.shared.config.me < self.peer.id;
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return Err(Over),
                () = self.peer.broke.notified() => {}
                () = self.peer.moved.notified() => {
                    self.pause.begin_anew();
                    continue;
                }
                met = greet::dial(&self.shared, &self.peer, &mut self.pause), if dials => return Ok(met),
                call = self.calls.recv() => {
                    let call = call.ok_or(Over)?;
                    return Ok(greet::answer(&self.shared, &self.peer, call).await);
                }
            }
            self.tell_broken().await?;
        }
    }

    /// One connection from its first message to its end; returns the call that took its place, if
    /// one did.
    async fn live(&mut self, met: Met) -> Result<Option<Call>, Over> {
        let (peer, now) = (self.peer.id, met.hello.incarnation);
        match self.peer.resume(&met.hello) {
            Err(_) => return self.tell_broken().await.map(|()| None),
            Ok(Some(was)) => self.tell.event(LinkEvent::Reborn { peer, was, now }).await?,
            Ok(None) => {}
        }
        self.pause.begin_anew();
        self.last_refusal = None;
        self.tell.event(LinkEvent::Up { peer, incarnation: now }).await?;
        let limits = &self.shared.config.limits;
        let end = tokio::select! {
            end = live::carry(met, &self.peer, limits, &self.tell.events, self.stop.clone()) => end,
            call = self.calls.recv() => End::Replaced(call.ok_or(Over)?),
            () = self.peer.until_broken() => End::Broken,
        };
        if matches!(end, End::Stopped) {
            return Err(Over);
        }
        self.tell.event(LinkEvent::Down { peer }).await?;
        match end {
            End::Stopped | End::Lost => {}
            End::Replaced(call) => return Ok(Some(call)),
            End::Broken => self.tell_broken().await?,
            End::Refused(why) => self.tell_refused(why).await?,
        }
        Ok(None)
    }

    async fn tell_broken(&mut self) -> Result<(), Over> {
        match self.peer.untold() {
            Some(why) => self.tell.event(LinkEvent::Broken { peer: self.peer.id, why }).await,
            None => Ok(()),
        }
    }

    /// Once, however often it happens again.
    async fn tell_refused(&mut self, why: String) -> Result<(), Over> {
        if self.last_refusal.as_ref() == Some(&why) {
            return Ok(());
        }
        self.last_refusal = Some(why.clone());
        self.tell.event(LinkEvent::Refused { peer: Some(self.peer.id), why }).await
    }
}

/// The owner's queue, for as long as it wants to hear.
struct Tell {
    events: mpsc::Sender<LinkEvent>,
    stop: watch::Receiver<bool>,
}

impl Tell {
    /// Waits for room in the queue: an event is never dropped.
    async fn event(&mut self, event: LinkEvent) -> Result<(), Over> {
        tokio::select! {
            biased;
            sent = self.events.send(event) => sent.map_err(|_| Over),
            () = stopped(&mut self.stop) => Err(Over),
        }
    }
}

/// Until the owner says stop, or is gone.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// How a node is called in texts.
pub(crate) fn named(node: NodeId, cluster: &str) -> String {
    format!("{node} of cluster {cluster:?}")
}
