//! The thread of a log: serves the requests of handles and of other logs, and keeps the status.

use std::sync::Arc;
use std::time::Duration;

use kgate_core::NodeId;
use openraft::ServerState;
use openraft::error::{Fatal, RaftError};
use openraft::raft::AppendEntriesResponse;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::api::{Bootstrap, LogStatus, StopReason};
use super::election::LeaderContact;
use super::error::ProposeError;
use super::in_flight::InFlight;
use super::raft::Raft;
use super::rpc::RpcClient;
use super::shared::Shared;
use super::store::Store;
use super::timing::LogTiming;
use super::wire::{Body, Envelope, LeaderReply, LeaderRequest, Reply, Request, SNAPSHOT_MAX};
use crate::membership::StoreId;
use crate::state::ClusterId;

/// Capacity of the queue of received messages. When it is full, messages are lost, as on a network.
pub(super) const RECEIVED_MAX: usize = 1024;
/// The most requests of one class (see `Classes`) that are served at once; more are lost.
const CONCURRENT_MAX: usize = 256;
/// The most entries that openraft works on at once. Others wait outside, where they can still be
/// cancelled. openraft writes entries one after the other and does nothing else meanwhile, neither
/// vote nor send a heartbeat, so where writes are slow a long queue would silence a leader.
pub(super) const WRITES_MAX: usize = 4;

/// A request of a handle.
pub(super) enum ClientRequest {
    Leader(LeaderRequest, Duration, oneshot::Sender<Result<LeaderReply, ProposeError>>),
    Bootstrap(Bootstrap, oneshot::Sender<Result<ClusterId, ProposeError>>),
    Stop,
}

/// Requests of other logs are limited by class. A request to the leader may wait long for a quorum,
/// so it must not keep out the requests by which a leader is elected; and however many requests
/// clients cause, they must not keep out the eviction of a silent node.
struct Classes {
    raft: Arc<Semaphore>,
    leader: Arc<Semaphore>,
    clients: Arc<Semaphore>,
}

impl Classes {
    fn new() -> Self {
        let [raft, leader, clients] = [(); 3].map(|()| Arc::new(Semaphore::new(CONCURRENT_MAX)));
        Self { raft, leader, clients }
    }

    fn of(&self, request: &Request) -> Arc<Semaphore> {
        let class = if request.is_raft() {
            &self.raft
        } else if request.is_of_clients() {
            &self.clients
        } else {
            &self.leader
        };
        Arc::clone(class)
    }
}

/// What all tasks of one log share.
pub(super) struct Engine {
    pub(super) me: NodeId,
    pub(super) store: StoreId,
    pub(super) timing: LogTiming,
    pub(super) raft: Raft,
    pub(super) memory: Store,
    pub(super) rpc: Arc<RpcClient>,
    pub(super) shared: Arc<Shared>,
    /// Held while this node changes the voters or learners.
    pub(super) reconfiguring: tokio::sync::Mutex<()>,
    /// One permit for each entry that openraft works on.
    pub(super) writing: Semaphore,
    /// The same for the entries that requests of clients cause.
    pub(super) writing_for_clients: Semaphore,
    pub(super) in_flight: InFlight,
    pub(super) leader_contact: LeaderContact,
}

impl Engine {
    /// Works until it is stopped, or no handle is left.
    pub(super) async fn run(
        self: Arc<Self>,
        mut requests: mpsc::Receiver<ClientRequest>,
        mut received: mpsc::Receiver<(NodeId, Envelope)>,
        status: watch::Sender<LogStatus>,
    ) {
        let classes = Classes::new();
        let mut metrics = self.raft.metrics();
        let reconciling = tokio::spawn(Arc::clone(&self).reconcile());
        let elections = tokio::spawn(Arc::clone(&self).run_elections());
        loop {
            status.send_if_modified(|status| {
                let now = self.status();
                let changed = *status != now;
                *status = now;
                changed
            });
            tokio::select! {
                request = requests.recv() => match request {
                    None | Some(ClientRequest::Stop) => break,
                    Some(request) => { tokio::spawn(Arc::clone(&self).perform(request)); }
                },
                Some((from, envelope)) = received.recv() => {
                    self.on_message(from, envelope, &classes);
                }
                // An error: openraft has ended, which the status says.
                changed = metrics.changed() => if changed.is_err() { break },
            }
        }
        reconciling.abort();
        elections.abort();
        // With a timeout: openraft waits for its own tasks, which may wait for peers.
        let _ = tokio::time::timeout(self.election_max(), self.raft.shutdown()).await;
        status.send_modify(|status| {
            *status = self.status();
            status.stopped.get_or_insert(StopReason::Requested);
        });
    }

    fn on_message(self: &Arc<Self>, from: NodeId, envelope: Envelope, classes: &Classes) {
        self.rpc.set_write_time(from, envelope.write_ms);
        match envelope.body {
            Body::Reply(reply) => self.rpc.on_reply(from, envelope.from, envelope.id, reply),
            Body::Request(request) => {
                // Over the limit a request is dropped without a reply.
                let Ok(permit) = classes.of(&request).try_acquire_owned() else { return };
                let engine = Arc::clone(self);
                let Envelope { from: from_store, to: to_store, id, .. } = envelope;
                tokio::spawn(async move {
                    engine.serve(from, from_store, to_store, id, request).await;
                    drop(permit);
                });
            }
        }
    }

    async fn perform(self: Arc<Self>, request: ClientRequest) {
        match request {
            ClientRequest::Leader(request, timeout, answer) => {
                let _ = answer.send(self.request(request, Instant::now() + timeout).await);
            }
            ClientRequest::Bootstrap(bootstrap, answer) => {
                let _ = answer.send(self.bootstrap(bootstrap).await);
            }
            ClientRequest::Stop => {}
        }
    }

    /// Serves a request of another log.
    async fn serve(
        &self,
        from: NodeId,
        from_store: StoreId,
        to_store: Option<StoreId>,
        id: u64,
        request: Request,
    ) {
        let is_raft = request.is_raft();
        // R4: a node that is known with another store has forgotten what it promised, whether that
        // is the sender or this node.
        let is_for_us = to_store.map_or(!is_raft, |store| store == self.store);
        let known = self.shared.roster().stores.get(&from).copied();
        if !is_for_us && is_raft && self.shared.set_store_mismatch() {
            tracing::error!(
                peer = from.0,
                "{from} knows {0} with another store: this one is new, foreign or a copy, and \
                must not vote; \
                 remove {0} and add it anew",
                self.me
            );
        }
        let reply = if !is_for_us || known.is_some_and(|known| known != from_store) && is_raft {
            Some(Reply::StoreMismatch)
        } else {
            self.reply(request).await
        };
        if let Some(reply) = reply {
            self.rpc.reply(from, from_store, id, reply);
        }
    }

    /// None: openraft has ended here, or the request is malformed, so this node is silent.
    async fn reply(&self, request: Request) -> Option<Reply> {
        match request {
            Request::Vote(request) => {
                let reply = self.raft.vote(request).await.ok()?;
                if reply.vote_granted {
                    self.leader_contact.touch();
                }
                Some(Reply::Vote(reply))
            }
            Request::Append(request) => {
                let reply = self.raft.append_entries(request).await.ok()?;
                if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
                    self.leader_contact.touch();
                }
                Some(Reply::Append(reply))
            }
            Request::PreVote(last) => Some(Reply::PreVote(self.would_vote(last))),
            Request::Snapshot(request)
                if request.offset.saturating_add(request.data.len() as u64) > SNAPSHOT_MAX =>
            {
                None
            }
            Request::Snapshot(request) => match self.raft.install_snapshot(request).await {
                Ok(reply) => {
                    self.leader_contact.touch();
                    Some(Reply::Snapshot(Ok(reply)))
                }
                Err(RaftError::APIError(error)) => Some(Reply::Snapshot(Err(error))),
                Err(RaftError::Fatal(_)) => None,
            },
            Request::Identify => Some(Reply::Identity(self.shared.roster().stores)),
            Request::Leader(request, milliseconds) => {
                let timeout = Duration::from_millis(milliseconds).min(self.propose_timeout());
                let reply = tokio::time::timeout(timeout, self.lead(request)).await;
                reply.ok().map(Reply::Leader)
            }
        }
    }

    pub(super) fn status(&self) -> LogStatus {
        let metrics = self.raft.metrics().borrow().clone();
        let cluster_state = self.shared.cluster_state();
        LogStatus {
            leader: metrics.current_leader.map(NodeId),
            is_leader: metrics.state == ServerState::Leader,
            term: metrics.current_term,
            applied: cluster_state.applied,
            committed: self.shared.committed(),
            appended: self.shared.voters_appended(),
            voters: cluster_state.voters.clone(),
            learners: cluster_state.learners.clone(),
            store_mismatch: self.shared.has_store_mismatch(),
            stopped: metrics.running_state.err().map(stop_reason),
        }
    }

    pub(super) fn propose_timeout(&self) -> Duration {
        Duration::from_nanos(self.timing.propose_timeout.0)
    }

    pub(super) fn election_max(&self) -> Duration {
        Duration::from_nanos(self.timing.election_max.0)
    }

    pub(super) fn heartbeat(&self) -> Duration {
        Duration::from_nanos(self.timing.heartbeat.0)
    }
}

pub(super) fn stop_reason(fatal: Fatal<u32>) -> StopReason {
    match fatal {
        Fatal::StorageError(error) => StopReason::Store(error.to_string()),
        Fatal::Panicked => StopReason::Panicked,
        Fatal::Stopped => StopReason::Requested,
    }
}
