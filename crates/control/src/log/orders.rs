//! Orders: find the leader, tell it, and go on until it is known what came of it.

use kgate_core::NodeId;
use openraft::error::{CheckIsLeaderError, ClientWriteError, RaftError};
use tokio::time::Instant;

use super::api::ProposeError;
use super::engine::Engine;
use super::store::encode;
use super::under_way::Joined;
use super::wire::{COMMAND, Order, Reply, Request, Ruling};
use crate::state::{Command, Rejected};

/// So many entries may wait for a quorum.
const UNDECIDED: u64 = 4096;

impl Engine {
    /// Has an order carried out by whoever leads.
    pub(super) async fn order(
        &self,
        order: Order,
        deadline: Instant,
    ) -> Result<Ruling, ProposeError> {
        loop {
            let leader = {
                let metrics = self.raft.metrics();
                let metrics = metrics.borrow();
                if metrics.running_state.is_err() {
                    return Err(ProposeError::Stopped);
                }
                metrics.current_leader.map(NodeId)
            };
            let why = match self.attempt(&order, leader, deadline).await {
                Ruling::NotNow(why) => why,
                Ruling::ReadAt(index) => return self.until_applied(index, deadline).await,
                decided @ (Ruling::Applied(_) | Ruling::Rejected(_) | Ruling::Changed(_)) => {
                    return Ok(decided);
                }
            };
            let pause = self.pause(leader);
            if tokio::time::timeout_at(deadline, pause).await.is_err() {
                return Err(ProposeError::NoQuorum(why));
            }
        }
    }

    async fn attempt(&self, order: &Order, leader: Option<NodeId>, deadline: Instant) -> Ruling {
        let voters = named(self.shared.voters_appended().all());
        match leader {
            None if voters.is_empty() => Ruling::NotNow(format!("{} has no log yet", self.me)),
            None => Ruling::NotNow(format!("{} knows no leader; the voters are {voters}", self.me)),
            Some(leader) if leader == self.me => {
                let ruling = tokio::time::timeout_at(deadline, self.lead(order.clone())).await;
                let silent = || {
                    format!(
                        "{leader} leads, but too few of the voters {voters} answer; it may still be done"
                    )
                };
                ruling.unwrap_or_else(|_| Ruling::NotNow(silent()))
            }
            Some(leader) => {
                // A leader may be gone: ask again before the patience is over, when there may be
                // another.
                let left = deadline.saturating_duration_since(Instant::now());
                let wait = left.min(2 * self.election_max());
                let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                let store = self.shared.roster().stores.get(&leader).copied();
                let request = Request::Order(order.clone(), milliseconds);
                match self.post.ask(leader, store, request, wait).await {
                    Ok((_, Reply::Order(ruling))) => ruling,
                    Ok(_) => Ruling::NotNow(format!("{leader} answers something else")),
                    Err(silence) => Ruling::NotNow(format!(
                        "{leader} leads, but {silence}; the voters are {voters}"
                    )),
                }
            }
        }
    }

    /// Until somebody else leads, or for a heartbeat.
    async fn pause(&self, leader: Option<NodeId>) {
        let mut metrics = self.raft.metrics();
        let other = metrics.wait_for(|metrics| metrics.current_leader.map(NodeId) != leader);
        let _ = tokio::time::timeout(self.heartbeat(), other).await;
    }

    /// Carries an order out, if this node leads.
    pub(super) async fn lead(&self, order: Order) -> Ruling {
        match order {
            Order::Propose(command) => self.write(command).await,
            Order::Read => match self.raft.ensure_linearizable().await {
                Ok(read) => Ruling::ReadAt(read.map_or(0, |read| read.index)),
                Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                    Ruling::NotNow(format!(
                        "{} leads, but too few of the voters {} answer",
                        self.me,
                        named(self.shared.voters_appended().all())
                    ))
                }
                Err(error) => Ruling::NotNow(error.to_string()),
            },
            Order::AddLearner(node) => self.add_learner(node).await,
            Order::RemoveLearner(node) => self.remove_learner(node).await,
            Order::Promote(node) => self.promote(node).await,
            Order::Demote(node) => self.demote(node).await,
            Order::SetVoters(voters) => self.set_voters(voters).await,
        }
    }

    /// Writes a command. The same one from several nodes, or again from one, is one entry as long
    /// as nothing has come of it: all voters propose to suspect a node that is silent for all of
    /// them, and where writes are slow a queue of that would take minutes.
    async fn write(&self, command: Command) -> Ruling {
        let Some(bytes) = encode(&command).ok().filter(|bytes| bytes.len() <= COMMAND) else {
            return Ruling::Rejected(Rejected::Refused(format!(
                "a command has at most {COMMAND} bytes"
            )));
        };
        loop {
            match self.under_way.join(&bytes) {
                Joined::First(writing) => {
                    let ruling = self.write_alone(command).await;
                    writing.done(ruling.clone());
                    return ruling;
                }
                // None: the first has lost its patience before anything came of it.
                Joined::Later(same) => {
                    if let Some(ruling) = same.ruling().await {
                        return ruling;
                    }
                }
            }
        }
    }

    async fn write_alone(&self, command: Command) -> Ruling {
        // Without a quorum nothing leaves the log, so not everything may enter it.
        let last = self.raft.metrics().borrow().last_log_index.unwrap_or(0);
        if last > self.shared.committed() + UNDECIDED {
            return Ruling::NotNow(format!("{UNDECIDED} entries wait for too few voters already"));
        }
        let writing =
            if command.is_of_clients() { &self.writing_for_clients } else { &self.writing };
        // Never closed.
        let _place = writing.acquire().await;
        match self.raft.client_write(command).await {
            Ok(written) => written.data.map_or_else(Ruling::Rejected, Ruling::Applied),
            Err(error) => not_led(&error),
        }
    }

    /// Waits until everything up to that entry is applied here.
    async fn until_applied(&self, index: u64, deadline: Instant) -> Result<Ruling, ProposeError> {
        let mut pictures = self.shared.pictures();
        let applied = pictures.wait_for(|cluster_state| cluster_state.applied >= index);
        match tokio::time::timeout_at(deadline, applied).await {
            Ok(_) => Ok(Ruling::ReadAt(index)),
            Err(_) => Err(ProposeError::NoQuorum(format!(
                "entry {index} has not come to {} yet",
                self.me
            ))),
        }
    }
}

/// Nobody has decided: another leads, or nobody.
pub(super) fn not_led(error: &RaftError<u32, ClientWriteError<u32, super::raft::Peer>>) -> Ruling {
    Ruling::NotNow(error.to_string())
}

pub(super) fn named(nodes: impl IntoIterator<Item = NodeId>) -> String {
    nodes.into_iter().map(|node| node.to_string()).collect::<Vec<_>>().join(", ")
}
