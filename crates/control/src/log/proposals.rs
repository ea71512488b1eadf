//! Requests to the leader: find it, send the request, and try again until the outcome is known or
//! the time is over.

use std::collections::BTreeSet;

use kgate_core::NodeId;
use openraft::error::{CheckIsLeaderError, ClientWriteError, ForwardToLeader, RaftError};
use tokio::time::Instant;

use super::engine::Engine;
use super::error::{ProposeError, Unavailable};
use super::in_flight::Joined;
use super::raft::Peer;
use super::store::encode;
use super::wire::{COMMAND_MAX, LeaderReply, LeaderRequest, Reply, Request};
use crate::state::{Command, Invalid, Rejected};

/// The most entries that may wait for a quorum.
const UNCOMMITTED_MAX: u64 = 4096;

impl Engine {
    /// Has the leader serve a request, whichever node that is.
    pub(super) async fn request(
        &self,
        request: LeaderRequest,
        deadline: Instant,
    ) -> Result<LeaderReply, ProposeError> {
        loop {
            let leader = {
                let metrics = self.raft.metrics();
                let metrics = metrics.borrow();
                if metrics.running_state.is_err() {
                    return Err(ProposeError::Stopped);
                }
                metrics.current_leader.map(NodeId)
            };
            let unavailable = match self.attempt(&request, leader, deadline).await {
                LeaderReply::Unavailable(why) => why,
                LeaderReply::ReadAt(index) => return self.until_applied(index, deadline).await,
                decided @ (LeaderReply::Applied(_)
                | LeaderReply::Rejected(_)
                | LeaderReply::Changed(_)) => return Ok(decided),
            };
            let pause = self.pause(leader);
            if tokio::time::timeout_at(deadline, pause).await.is_err() {
                return Err(ProposeError::NoQuorum(unavailable));
            }
        }
    }

    async fn attempt(
        &self,
        request: &LeaderRequest,
        leader: Option<NodeId>,
        deadline: Instant,
    ) -> LeaderReply {
        let voters = self.shared.voters_appended().all();
        match leader {
            None if voters.is_empty() => LeaderReply::Unavailable(Unavailable::NoLog(self.me)),
            None => LeaderReply::Unavailable(Unavailable::NoLeader { node: self.me, voters }),
            Some(leader) if leader == self.me => {
                let reply = tokio::time::timeout_at(deadline, self.lead(request.clone())).await;
                let no_majority = Unavailable::NoMajority { leader, voters };
                reply.unwrap_or(LeaderReply::Unavailable(no_majority))
            }
            Some(leader) => self.forward(request, leader, voters, deadline).await,
        }
    }

    /// Sends a request to a leader that is another node.
    async fn forward(
        &self,
        request: &LeaderRequest,
        leader: NodeId,
        voters: BTreeSet<NodeId>,
        deadline: Instant,
    ) -> LeaderReply {
        // The leader may be gone: try again before the deadline, when there may be another.
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = left.min(2 * self.election_max());
        let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let store = self.shared.roster().stores.get(&leader).copied();
        let request = Request::Leader(request.clone(), milliseconds);
        let unavailable = match self.rpc.request(leader, store, request, wait).await {
            Ok((_, Reply::Leader(reply))) => return reply,
            Ok(_) => Unavailable::UnexpectedReply,
            Err(reason) => Unavailable::LeaderSilent { leader, reason, voters },
        };
        LeaderReply::Unavailable(unavailable)
    }

    /// Waits for another leader, or for a heartbeat.
    async fn pause(&self, leader: Option<NodeId>) {
        let mut metrics = self.raft.metrics();
        let other = metrics.wait_for(|metrics| metrics.current_leader.map(NodeId) != leader);
        let _ = tokio::time::timeout(self.heartbeat(), other).await;
    }

    /// Serves a request, if this node leads.
    pub(super) async fn lead(&self, request: LeaderRequest) -> LeaderReply {
        match request {
            LeaderRequest::Propose(command) => self.write(command).await,
            LeaderRequest::ReadIndex => self.read_index().await,
            LeaderRequest::AddLearner(node) => self.add_learner(node).await,
            LeaderRequest::RemoveLearner(node) => self.remove_learner(node).await,
            LeaderRequest::Promote(node) => self.promote(node).await,
            LeaderRequest::Demote(node) => self.demote(node).await,
            LeaderRequest::SetVoters(voters) => self.set_voters(voters).await,
        }
    }

    async fn read_index(&self) -> LeaderReply {
        let unavailable = match self.raft.ensure_linearizable().await {
            Ok(read) => return LeaderReply::ReadAt(read.map_or(0, |read| read.index)),
            Err(RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_))) => {
                let voters = self.shared.voters_appended().all();
                Unavailable::NoMajority { leader: self.me, voters }
            }
            Err(RaftError::APIError(CheckIsLeaderError::ForwardToLeader(other))) => {
                not_leader(&other)
            }
            Err(RaftError::Fatal(_)) => Unavailable::LeaderStopped,
        };
        LeaderReply::Unavailable(unavailable)
    }

    /// Writes a command. Equal commands, from several nodes or from one that tries again, are one
    /// entry until it is decided: all voters propose to suspect a node that is silent for all of
    /// them, and where writes are slow a queue of such entries would take minutes.
    async fn write(&self, command: Command) -> LeaderReply {
        let Some(bytes) = encode(&command).ok().filter(|bytes| bytes.len() <= COMMAND_MAX) else {
            let too_long = Invalid::CommandTooLong { most: COMMAND_MAX };
            return LeaderReply::Rejected(Rejected::Invalid(too_long));
        };
        loop {
            match self.in_flight.join(&bytes) {
                Joined::Writer(writer) => {
                    let reply = self.write_alone(command).await;
                    writer.finish(reply.clone());
                    return reply;
                }
                // None: the writer timed out before the command was decided.
                Joined::Waiter(waiter) => {
                    if let Some(reply) = waiter.reply().await {
                        return reply;
                    }
                }
            }
        }
    }

    async fn write_alone(&self, command: Command) -> LeaderReply {
        // Without a quorum no entry is ever committed, so the number of new ones is bounded.
        let last = self.raft.metrics().borrow().last_log_index.unwrap_or(0);
        if last > self.shared.committed() + UNCOMMITTED_MAX {
            return LeaderReply::Unavailable(Unavailable::TooManyUncommitted(UNCOMMITTED_MAX));
        }
        let writing =
            if command.is_of_clients() { &self.writing_for_clients } else { &self.writing };
        // The semaphore is never closed.
        let _permit = writing.acquire().await;
        match self.raft.client_write(command).await {
            Ok(written) => written.data.map_or_else(LeaderReply::Rejected, LeaderReply::Applied),
            Err(error) => LeaderReply::Unavailable(not_written(&error)),
        }
    }

    /// Waits until everything up to that entry is applied here.
    async fn until_applied(
        &self,
        index: u64,
        deadline: Instant,
    ) -> Result<LeaderReply, ProposeError> {
        let mut states = self.shared.states();
        let applied = states.wait_for(|cluster_state| cluster_state.applied >= index);
        match tokio::time::timeout_at(deadline, applied).await {
            Ok(_) => Ok(LeaderReply::ReadAt(index)),
            Err(_) => Err(ProposeError::NoQuorum(Unavailable::NotApplied { node: self.me, index })),
        }
    }
}

/// Why openraft did not write an entry.
pub(super) fn not_written(error: &RaftError<u32, ClientWriteError<u32, Peer>>) -> Unavailable {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(other)) => not_leader(other),
        RaftError::APIError(ClientWriteError::ChangeMembershipError(_)) => {
            Unavailable::ChangeInProgress
        }
        RaftError::Fatal(_) => Unavailable::LeaderStopped,
    }
}

fn not_leader(other: &ForwardToLeader<u32, Peer>) -> Unavailable {
    Unavailable::NotLeader { leader: other.leader_id.map(NodeId) }
}
