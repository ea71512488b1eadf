//! When a voter stands for election.
//!
//! openraft by itself lets each voter stand as soon as it misses heartbeats. A voter that was
//! paused or cut off would then raise the term again and again, and depose a leader that all others
//! hear as soon as it is back. Where writes are slow, elections take longer than the pauses between
//! them, so that no leader is ever elected. Therefore a voter stands only if
//!
//! - it has heard no leader for a random time, which doubles with each attempt that fails, and
//! - a quorum, which it has asked first, hears no leader either and would not refuse it for its log
//!   (pre-vote: D. Ongaro, thesis, section 9.6).
//!
//! This decides only *when* a voter stands. openraft decides who is elected, so a mistake here
//! costs time, never safety.

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

/// The pause after failed attempts doubles at most so many times.
const DOUBLINGS: u32 = 3;

/// When this node last heard from a leader, or from a voter that it has voted for.
#[derive(Debug)]
pub(super) struct LeaderContact(Mutex<Instant>);

impl LeaderContact {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    pub(super) fn touch(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Stands for election whenever the rules above allow it.
    pub(super) async fn run_elections(self: Arc<Self>) {
        let mut failed = 0;
        loop {
            let contact = self.leader_contact.last();
            // After a failed attempt the pause begins now, otherwise with the last contact.
            let since = if failed == 0 { contact } else { Instant::now() };
            if !self.is_sole_voter() {
                let pause = self.election_pause() * (1 << failed.min(DOUBLINGS));
                tokio::time::sleep_until(since + pause).await;
            }
            if self.leads() || !self.shared.voters_appended().has(self.me) {
                self.leader_contact.touch();
                failed = 0;
                tokio::time::sleep(self.election_min()).await;
            } else if self.leader_contact.last() != contact {
                failed = 0;
            } else if !self.pre_vote().await {
                tokio::time::sleep(self.heartbeat()).await;
            } else {
                failed += 1;
                if self.raft.trigger().elect().await.is_err() {
                    return;
                }
                self.until_it_leads().await;
            }
        }
    }

    /// Whether a quorum would vote for this node.
    async fn pre_vote(&self) -> bool {
        let Ok(last) = self.memory.last() else { return false };
        let roster = self.shared.roster();
        let mut requests = JoinSet::new();
        for node in roster.voters.all().into_iter().filter(|node| *node != self.me) {
            let (rpc, store) = (Arc::clone(&self.rpc), roster.stores.get(&node).copied());
            let timeout = self.election_min();
            requests.spawn(async move {
                let reply = rpc.request(node, store, Request::PreVote(last), timeout).await;
                matches!(reply, Ok((_, Reply::PreVote(true)))).then_some(node)
            });
        }
        let mut granted: BTreeSet<NodeId> = BTreeSet::from([self.me]);
        while !roster.voters.is_quorum(|node| granted.contains(&node)) {
            match requests.join_next().await {
                Some(node) => granted.extend(node.ok().flatten()),
                None => return false,
            }
        }
        true
    }

    /// Whether this node would vote for a node whose log ends there.
    pub(super) fn would_vote(&self, last: Option<LogId>) -> bool {
        let hears_leader = self.leader_contact.last().elapsed() < self.election_min();
        !self.leads() && !hears_leader && self.memory.last().is_ok_and(|mine| last >= mine)
    }

    fn is_sole_voter(&self) -> bool {
        self.shared.voters_appended().all() == BTreeSet::from([self.me])
    }

    fn leads(&self) -> bool {
        self.raft.metrics().borrow().state == ServerState::Leader
    }

    /// Waits until this node leads, or the slowest voter had its time to vote.
    async fn until_it_leads(&self) {
        let voters = self.shared.voters_appended().all();
        let slowest =
            voters.into_iter().map(|node| self.rpc.timeout(node, self.election_min())).max();
        let mut metrics = self.raft.metrics();
        let elected = metrics.wait_for(|metrics| metrics.state == ServerState::Leader);
        let _ = tokio::time::timeout(slowest.unwrap_or_default(), elected).await;
    }

    /// A random time between the two bounds, and a heartbeat more, because another voter may have
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
