//! Who stands for election, and when.
//!
//! Left to itself, openraft lets each voter stand as soon as it misses heartbeats. One that was
//! paused or cut off would then raise the term again and again, and take the lead from a leader
//! whom all others hear once it is back. And where writes are slow, elections take longer than the
//! pauses between them, so that nobody is ever elected. Therefore a voter stands only if
//!
//! - it has heard no leader for a random while, twice as long after each attempt that came to
//!   nothing, and
//! - a quorum that it has asked before hears none either, and would not refuse it for its log (the
//!   pre-vote of Raft's author: D. Ongaro, thesis, section 9.6).
//!
//! This is only about when somebody stands. Who is elected is openraft's business: a mistake here
//! costs time, and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kgate_core::NodeId;
use openraft::ServerState;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::engine::Engine;
use super::raft::LogId;
use super::wire::{Reply, Request};

/// The pause after attempts in vain is at most 2 to the power of this as long as the first.
const DOUBLINGS: u32 = 3;

/// When this node has last heard of somebody who leads, or may be about to.
#[derive(Debug)]
pub(super) struct Heard(Mutex<Instant>);

impl Heard {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    pub(super) fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Stands for election whenever there is reason to.
    pub(super) async fn elections(self: Arc<Self>) {
        let mut stood = 0;
        loop {
            let heard = self.heard.last();
            // Whoever stood in vain waits from now on, all others since they have heard a leader.
            let since = if stood == 0 { heard } else { Instant::now() };
            if !self.is_sole_voter() {
                tokio::time::sleep_until(
                    since + self.election_pause() * (1 << stood.min(DOUBLINGS)),
                )
                .await;
            }
            if self.leads() || !self.shared.voters_appended().has(self.me) {
                self.heard.now();
                stood = 0;
                tokio::time::sleep(self.election_min()).await;
            } else if self.heard.last() != heard {
                stood = 0;
            } else if !self.canvass().await {
                tokio::time::sleep(self.heartbeat()).await;
            } else {
                stood += 1;
                if self.raft.trigger().elect().await.is_err() {
                    return;
                }
                self.until_it_leads().await;
            }
        }
    }

    /// Whether a quorum would have this node lead.
    async fn canvass(&self) -> bool {
        let Ok(last) = self.memory.last() else { return false };
        let roster = self.shared.roster();
        let mut asked = JoinSet::new();
        for node in roster.voters.all().into_iter().filter(|node| *node != self.me) {
            let (post, store) = (Arc::clone(&self.post), roster.stores.get(&node).copied());
            let patience = self.election_min();
            asked.spawn(async move {
                let answer = post.ask(node, store, Request::Canvass(last), patience).await;
                matches!(answer, Ok((_, Reply::Canvass(true)))).then_some(node)
            });
        }
        let mut yes: BTreeSet<NodeId> = BTreeSet::from([self.me]);
        while !roster.voters.is_quorum(|node| yes.contains(&node)) {
            match asked.join_next().await {
                Some(answer) => yes.extend(answer.ok().flatten()),
                None => return false,
            }
        }
        true
    }

    /// What this node says to somebody whose log ends there and who would stand.
    pub(super) fn would_elect(&self, last: Option<LogId>) -> bool {
        let hears = self.heard.last().elapsed() < self.election_min();
        !self.leads() && !hears && self.memory.last().is_ok_and(|mine| last >= mine)
    }

    fn is_sole_voter(&self) -> bool {
        self.shared.voters_appended().all() == BTreeSet::from([self.me])
    }

    fn leads(&self) -> bool {
        self.raft.metrics().borrow().state == ServerState::Leader
    }

    /// Until this node leads, or the votes of all have had their time to come.
    async fn until_it_leads(&self) {
        let voters = self.shared.voters_appended().all();
        let slowest =
            voters.into_iter().map(|node| self.post.patience(node, self.election_min())).max();
        let mut metrics = self.raft.metrics();
        let elected = metrics.wait_for(|metrics| metrics.state == ServerState::Leader);
        let _ = tokio::time::timeout(slowest.unwrap_or_default(), elected).await;
    }

    /// Between the two bounds, by chance; and for a heartbeat more, since another voter may have
    /// heard the leader later than this one.
    fn election_pause(&self) -> Duration {
        let range = self.election_max().saturating_sub(self.election_min());
        let share =
            f64::from(u32::try_from(super::random() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        self.election_min() + range.mul_f64(share) + self.heartbeat()
    }

    fn election_min(&self) -> Duration {
        Duration::from_nanos(self.timing.election_min.0)
    }
}
