//! Questions to other logs and their answers, over a transport that may lose both.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kgate_core::{NodeId, Span};
use openraft::error::{
    NetworkError, PayloadTooLarge, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use tokio::sync::oneshot;

use super::api::Transport;
use super::raft::{Peer, Types};
use super::wire::{Body, Envelope, Reply, Request};
use crate::membership::StoreId;

/// So many writes may be before ours on another's disk.
const WRITES: u32 = 4;
/// Nobody is believed to be slower.
const SLOWEST: Duration = Duration::from_secs(2);

/// Asks and is answered.
pub(super) struct RpcClient {
    store: StoreId,
    /// How long a write takes here.
    write_ms: u32,
    transport: Arc<dyn Transport>,
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Open>>,
    /// How long a write takes at others, as they have said.
    writes: Mutex<BTreeMap<NodeId, Duration>>,
}

/// A question without an answer.
struct Open {
    to: NodeId,
    answer: oneshot::Sender<(StoreId, Reply)>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Silence {
    #[error("it does not answer")]
    Silent,
    #[error("the message is too long")]
    TooLong,
    #[error("one of the two stores is not the known one")]
    Stranger,
}

impl RpcClient {
    pub(super) fn new(store: StoreId, write: Span, transport: Arc<dyn Transport>) -> Self {
        let write_ms = u32::try_from(write.0 / 1_000_000).unwrap_or(u32::MAX);
        let next = AtomicU64::new(super::random());
        Self { store, write_ms, transport, next, open: Mutex::default(), writes: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and waits for so long. Returns the answer and the store it comes from.
    pub(super) async fn ask(
        &self,
        to: NodeId,
        store: Option<StoreId>,
        request: Request,
        patience: Duration,
    ) -> Result<(StoreId, Reply), Silence> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let envelope = Envelope {
            from: self.store,
            to: store,
            id,
            write_ms: self.write_ms,
            body: Body::Ask(request),
        };
        let bytes = envelope.to_bytes().ok_or(Silence::TooLong)?;
        let (answer, heard) = oneshot::channel();
        self.open().insert(id, Open { to, answer });
        // Also when the asker is dropped while it waits.
        let _closed = Closes { post: self, id };
        self.transport.send(to, bytes);
        match tokio::time::timeout(patience, heard).await {
            Ok(Ok((_, Reply::Stranger))) => Err(Silence::Stranger),
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(Silence::Silent),
        }
    }

    /// That node says how long a write takes there, with all that it says.
    pub(super) fn writes_take(&self, node: NodeId, write_ms: u32) {
        let write = Duration::from_millis(write_ms.into()).min(SLOWEST);
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).insert(node, write);
    }

    /// How long to wait for what is on that node's disk before it answers, at least.
    pub(super) fn patience(&self, node: NodeId, least: Duration) -> Duration {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.get(&node).map_or(least, |write| least.max(*write * WRITES))
    }

    pub(super) fn answer(&self, to: NodeId, store: StoreId, id: u64, reply: Reply) {
        let body = Body::Answer(reply);
        let envelope =
            Envelope { from: self.store, to: Some(store), id, write_ms: self.write_ms, body };
        // Answers are short, so none is too long.
        if let Some(bytes) = envelope.to_bytes() {
            self.transport.send(to, bytes);
        }
    }

    /// An answer has come. One to no open question, or from somebody who was not asked, is dropped.
    pub(super) fn answered(&self, from: NodeId, store: StoreId, id: u64, reply: Reply) {
        let mut open = self.open();
        if open.get(&id).is_some_and(|open| open.to == from)
            && let Some(open) = open.remove(&id)
        {
            let _ = open.answer.send((store, reply));
        }
    }
}

struct Closes<'a> {
    post: &'a RpcClient,
    id: u64,
}

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.post.open().remove(&self.id);
    }
}

/// The post as openraft uses it.
pub(super) struct NetworkFactory(pub(super) Arc<RpcClient>);

/// The post to one node, with the store that the log knows it with.
pub(super) struct PeerNetwork {
    post: Arc<RpcClient>,
    to: NodeId,
    store: StoreId,
}

impl RaftNetworkFactory<Types> for NetworkFactory {
    type Network = PeerNetwork;

    async fn new_client(&mut self, target: u32, node: &Peer) -> PeerNetwork {
        PeerNetwork { post: Arc::clone(&self.0), to: NodeId(target), store: node.store }
    }
}

type Failed<E = openraft::error::Infallible> = RPCError<u32, Peer, RaftError<u32, E>>;

impl PeerNetwork {
    async fn ask<E: std::error::Error>(
        &self,
        request: Request,
        option: RPCOption,
    ) -> Result<Reply, Failed<E>> {
        let patience = self.post.patience(self.to, option.hard_ttl());
        let answer = self.post.ask(self.to, Some(self.store), request, patience).await;
        match answer {
            Ok((store, reply)) if store == self.store => Ok(reply),
            Ok(_) => Err(RPCError::Unreachable(Unreachable::new(&Silence::Stranger))),
            Err(Silence::TooLong) => {
                Err(RPCError::PayloadTooLarge(PayloadTooLarge::new_entries_hint(1)))
            }
            Err(silence @ Silence::Silent) => Err(RPCError::Network(NetworkError::new(&silence))),
            Err(silence @ Silence::Stranger) => {
                Err(RPCError::Unreachable(Unreachable::new(&silence)))
            }
        }
    }
}

/// An answer to another question, which only another version could give.
fn odd<E: std::error::Error>() -> Failed<E> {
    RPCError::Network(NetworkError::new(&Silence::Silent))
}

impl RaftNetwork<Types> for PeerNetwork {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u32>, Failed> {
        let Reply::Append(reply) = self.ask(Request::Append(request), option).await? else {
            return Err(odd());
        };
        Ok(reply)
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u32>, Failed<openraft::error::InstallSnapshotError>> {
        let Reply::Snapshot(reply) = self.ask(Request::Snapshot(request), option).await? else {
            return Err(odd());
        };
        reply.map_err(|error| {
            RPCError::RemoteError(RemoteError::new(self.to.0, RaftError::APIError(error)))
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<u32>,
        option: RPCOption,
    ) -> Result<VoteResponse<u32>, Failed> {
        let Reply::Vote(reply) = self.ask(Request::Vote(request), option).await? else {
            return Err(odd());
        };
        Ok(reply)
    }

    /// Only for nodes with another store, which does not change soon.
    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_secs(1)))
    }
}
