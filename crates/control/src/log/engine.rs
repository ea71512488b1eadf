//! The thread of a log: takes what handles ask and what the transport brings, and keeps the status.

use std::sync::Arc;
use std::time::Duration;

use kgate_core::NodeId;
use openraft::ServerState;
use openraft::error::RaftError;
use openraft::raft::AppendEntriesResponse;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::api::{Bootstrap, LogStatus, ProposeError};
use super::elect::Heard;
use super::raft::Raft;
use super::rpc::RpcClient;
use super::shared::Shared;
use super::store::Store;
use super::timing::LogTiming;
use super::under_way::UnderWay;
use super::wire::{Body, Envelope, Order, Reply, Request, Ruling, SNAPSHOT};
use crate::membership::StoreId;
use crate::state::ClusterId;

/// So many messages wait to be handled; more are lost, as on a network.
pub(super) const ARRIVALS: usize = 1024;
/// So many questions of others are worked on at once; more are lost. Orders may wait long for a
/// quorum, so they have a room of their own: nothing that waits for a leader may keep one from
/// being chosen. What clients cause has another one: however much that is, somebody who is silent
/// is evicted.
const AT_ONCE: usize = 256;
/// So many entries does openraft work on at once; others wait outside, where they can still be
/// taken back. It writes them one after the other and does nothing else meanwhile: no vote, no
/// heartbeat. Where writes are slow, a long queue would make a leader silent.
pub(super) const WRITING: usize = 4;

/// What a handle asks.
pub(super) enum Ask {
    Order(Order, Duration, oneshot::Sender<Result<Ruling, ProposeError>>),
    Bootstrap(Bootstrap, oneshot::Sender<Result<ClusterId, ProposeError>>),
    Stop,
}

/// What all tasks of one log share.
pub(super) struct Engine {
    pub(super) me: NodeId,
    pub(super) store: StoreId,
    pub(super) timing: LogTiming,
    pub(super) raft: Raft,
    pub(super) memory: Store,
    pub(super) post: Arc<RpcClient>,
    pub(super) shared: Arc<Shared>,
    /// Held while this node changes who votes or listens.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// Held by those whose entries openraft works on.
    pub(super) writing: Semaphore,
    /// The same for what clients cause.
    pub(super) writing_for_clients: Semaphore,
    pub(super) under_way: UnderWay,
    pub(super) heard: Heard,
}

impl Engine {
    /// Works until it is told to stop, or no handle is left.
    pub(super) async fn run(
        self: Arc<Self>,
        mut asks: mpsc::Receiver<Ask>,
        mut arrivals: mpsc::Receiver<(NodeId, Envelope)>,
        status: watch::Sender<LogStatus>,
    ) {
        let rooms = [(); 3].map(|()| Arc::new(Semaphore::new(AT_ONCE)));
        let mut metrics = self.raft.metrics();
        let tending = tokio::spawn(Arc::clone(&self).tend());
        let elections = tokio::spawn(Arc::clone(&self).elections());
        loop {
            status.send_if_modified(|status| {
                let now = self.status();
                let news = *status != now;
                *status = now;
                news
            });
            tokio::select! {
                ask = asks.recv() => match ask {
                    None | Some(Ask::Stop) => break,
                    Some(ask) => { tokio::spawn(Arc::clone(&self).perform(ask)); }
                },
                Some((from, envelope)) = arrivals.recv() => self.hear(from, envelope, &rooms),
                // An error: openraft has ended, which the status says.
                changed = metrics.changed() => if changed.is_err() { break },
            }
        }
        tending.abort();
        elections.abort();
        // Bounded: openraft waits for its own tasks, which may wait for peers.
        let _ = tokio::time::timeout(self.election_max(), self.raft.shutdown()).await;
        status.send_modify(|status| {
            *status = self.status();
            status.stopped.get_or_insert("it was stopped".to_owned());
        });
    }

    /// Another log says something. Whoever finds no room is not answered.
    fn hear(
        self: &Arc<Self>,
        from: NodeId,
        envelope: Envelope,
        [room, waiting_room, clients]: &[Arc<Semaphore>; 3],
    ) {
        self.post.writes_take(from, envelope.write_ms);
        match envelope.body {
            Body::Answer(reply) => self.post.answered(from, envelope.from, envelope.id, reply),
            Body::Ask(request) => {
                let room = if request.is_raft() {
                    room
                } else if request.is_of_clients() {
                    clients
                } else {
                    waiting_room
                };
                let Ok(place) = Arc::clone(room).try_acquire_owned() else { return };
                let engine = Arc::clone(self);
                let (id, stores) = (envelope.id, (envelope.from, envelope.to));
                tokio::spawn(async move {
                    engine.serve(from, stores, id, request).await;
                    drop(place);
                });
            }
        }
    }

    async fn perform(self: Arc<Self>, ask: Ask) {
        match ask {
            Ask::Order(order, patience, answer) => {
                let _ = answer.send(self.order(order, Instant::now() + patience).await);
            }
            Ask::Bootstrap(founding, answer) => {
                let _ = answer.send(self.bootstrap(founding).await);
            }
            Ask::Stop => {}
        }
    }

    /// Answers a question of another log.
    async fn serve(
        &self,
        from: NodeId,
        (from_store, to_store): (StoreId, Option<StoreId>),
        id: u64,
        request: Request,
    ) {
        let is_raft = request.is_raft();
        // R4: who is known with another store has forgotten what it promised, be it the other or
        // this node.
        let meant = to_store.map_or(!is_raft, |store| store == self.store);
        let known = self.shared.roster().stores.get(&from).copied();
        if !meant && is_raft && self.shared.found_stranger() {
            tracing::error!(
                "{from} knows {} with another store: this one is new, foreign or a copy, and must not vote; \
                 remove {} and add it anew",
                self.me,
                self.me
            );
        }
        let reply = if !meant || known.is_some_and(|known| known != from_store) && is_raft {
            Some(Reply::Stranger)
        } else {
            self.reply(request).await
        };
        if let Some(reply) = reply {
            self.post.answer(from, from_store, id, reply);
        }
    }

    /// None: openraft has ended here, so this node is silent.
    async fn reply(&self, request: Request) -> Option<Reply> {
        match request {
            Request::Vote(request) => {
                let reply = self.raft.vote(request).await.ok()?;
                if reply.vote_granted {
                    self.heard.now();
                }
                Some(Reply::Vote(reply))
            }
            Request::Append(request) => {
                let reply = self.raft.append_entries(request).await.ok()?;
                if !matches!(reply, AppendEntriesResponse::HigherVote(_)) {
                    self.heard.now();
                }
                Some(Reply::Append(reply))
            }
            Request::Canvass(last) => Some(Reply::Canvass(self.would_elect(last))),
            Request::Snapshot(request)
                if request.offset.saturating_add(request.data.len() as u64) > SNAPSHOT =>
            {
                None
            }
            Request::Snapshot(request) => match self.raft.install_snapshot(request).await {
                Ok(reply) => {
                    self.heard.now();
                    Some(Reply::Snapshot(Ok(reply)))
                }
                Err(RaftError::APIError(error)) => Some(Reply::Snapshot(Err(error))),
                Err(RaftError::Fatal(_)) => None,
            },
            Request::Hello => Some(Reply::Hello(self.shared.roster().stores)),
            Request::Order(order, milliseconds) => {
                let patience = Duration::from_millis(milliseconds).min(self.patience());
                let ruling = tokio::time::timeout(patience, self.lead(order)).await;
                ruling.ok().map(Reply::Order)
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
            store_mismatch: self.shared.is_stranger(),
            stopped: metrics.running_state.err().map(|fatal| fatal.to_string()),
        }
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_nanos(self.timing.patience.0)
    }

    pub(super) fn election_max(&self) -> Duration {
        Duration::from_nanos(self.timing.election_max.0)
    }

    pub(super) fn heartbeat(&self) -> Duration {
        Duration::from_nanos(self.timing.heartbeat.0)
    }
}
