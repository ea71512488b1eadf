//! Requests to other logs and their replies, over a transport that may lose both.

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
use super::error::NoReply;
use super::raft::{Peer, Types};
use super::wire::{Body, Envelope, Reply, Request};
use crate::membership::StoreId;

/// The number of writes that another node's disk may have to finish before ours.
const WRITES_AHEAD: u32 = 4;
/// The longest write time that another node is believed to have.
const WRITE_MAX: Duration = Duration::from_secs(2);

/// Sends requests and matches the replies with them.
pub(super) struct RpcClient {
    store: StoreId,
    /// How long a write takes on this node's disk.
    write_ms: u32,
    transport: Arc<dyn Transport>,
    next: AtomicU64,
    pending: Mutex<BTreeMap<u64, Pending>>,
    /// How long a write takes at other nodes, as they say.
    writes: Mutex<BTreeMap<NodeId, Duration>>,
}

/// A request that waits for its reply.
struct Pending {
    to: NodeId,
    reply: oneshot::Sender<(StoreId, Reply)>,
}

impl RpcClient {
    pub(super) fn new(store: StoreId, write: Span, transport: Arc<dyn Transport>) -> Self {
        let write_ms = u32::try_from(write.0 / 1_000_000).unwrap_or(u32::MAX);
        let (next, pending) = (AtomicU64::new(super::random()), Mutex::default());
        Self { store, write_ms, transport, next, pending, writes: Mutex::default() }
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and waits for its reply. Returns it with the store of the sender.
    pub(super) async fn request(
        &self,
        to: NodeId,
        store: Option<StoreId>,
        request: Request,
        timeout: Duration,
    ) -> Result<(StoreId, Reply), NoReply> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let body = Body::Request(request);
        let envelope = Envelope { from: self.store, to: store, id, write_ms: self.write_ms, body };
        let bytes = envelope.to_bytes().ok_or(NoReply::TooLong)?;
        let (sender, reply) = oneshot::channel();
        self.pending().insert(id, Pending { to, reply: sender });
        // Also when the caller is dropped while it waits.
        let _guard = ForgetOnDrop { rpc: self, id };
        self.transport.send(to, bytes);
        match tokio::time::timeout(timeout, reply).await {
            Ok(Ok((_, Reply::StoreMismatch))) => Err(NoReply::StoreMismatch),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) | Err(_) => Err(NoReply::TimedOut),
        }
    }

    /// Each message of a node says how long a write takes there.
    pub(super) fn set_write_time(&self, node: NodeId, write_ms: u32) {
        let write = Duration::from_millis(write_ms.into()).min(WRITE_MAX);
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).insert(node, write);
    }

    /// The timeout of a request that a node answers after a write: at least `least`, and longer
    /// where its disk is slow.
    pub(super) fn timeout(&self, node: NodeId, least: Duration) -> Duration {
        let writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        writes.get(&node).map_or(least, |write| least.max(*write * WRITES_AHEAD))
    }

    pub(super) fn reply(&self, to: NodeId, store: StoreId, id: u64, reply: Reply) {
        let (write_ms, body) = (self.write_ms, Body::Reply(reply));
        let envelope = Envelope { from: self.store, to: Some(store), id, write_ms, body };
        // Replies are short, so none is too long.
        if let Some(bytes) = envelope.to_bytes() {
            self.transport.send(to, bytes);
        }
    }

    /// A reply to no pending request, or from another node than the one that was asked, is dropped.
    pub(super) fn on_reply(&self, from: NodeId, store: StoreId, id: u64, reply: Reply) {
        let mut pending = self.pending();
        if pending.get(&id).is_some_and(|request| request.to == from)
            && let Some(request) = pending.remove(&id)
        {
            let _ = request.reply.send((store, reply));
        }
    }
}

struct ForgetOnDrop<'a> {
    rpc: &'a RpcClient,
    id: u64,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        self.rpc.pending().remove(&self.id);
    }
}

/// The network as openraft uses it.
pub(super) struct NetworkFactory(pub(super) Arc<RpcClient>);

/// The network to one node, with the store that the log knows it with.
pub(super) struct PeerNetwork {
    rpc: Arc<RpcClient>,
    to: NodeId,
    store: StoreId,
}

impl RaftNetworkFactory<Types> for NetworkFactory {
    type Network = PeerNetwork;

    async fn new_client(&mut self, target: u32, node: &Peer) -> PeerNetwork {
        PeerNetwork { rpc: Arc::clone(&self.0), to: NodeId(target), store: node.store }
    }
}

type Failed<E = openraft::error::Infallible> = RPCError<u32, Peer, RaftError<u32, E>>;

impl PeerNetwork {
    async fn request<E: std::error::Error>(
        &self,
        request: Request,
        option: RPCOption,
    ) -> Result<Reply, Failed<E>> {
        let timeout = self.rpc.timeout(self.to, option.hard_ttl());
        let reply = self.rpc.request(self.to, Some(self.store), request, timeout).await;
        let reason = match reply {
            Ok((store, reply)) if store == self.store => return Ok(reply),
            Ok(_) => NoReply::StoreMismatch,
            Err(reason) => reason,
        };
        Err(match reason {
            NoReply::TooLong => RPCError::PayloadTooLarge(PayloadTooLarge::new_entries_hint(1)),
            NoReply::TimedOut => RPCError::Network(NetworkError::new(&reason)),
            NoReply::StoreMismatch => RPCError::Unreachable(Unreachable::new(&reason)),
        })
    }
}

/// A reply of another kind than the request calls for, which only another version could send.
fn unexpected<E: std::error::Error>() -> Failed<E> {
    RPCError::Network(NetworkError::new(&NoReply::TimedOut))
}

impl RaftNetwork<Types> for PeerNetwork {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<u32>, Failed> {
        let Reply::Append(reply) = self.request(Request::Append(request), option).await? else {
            return Err(unexpected());
        };
        Ok(reply)
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u32>, Failed<openraft::error::InstallSnapshotError>> {
        let Reply::Snapshot(reply) = self.request(Request::Snapshot(request), option).await? else {
            return Err(unexpected());
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
        let Reply::Vote(reply) = self.request(Request::Vote(request), option).await? else {
            return Err(unexpected());
        };
        Ok(reply)
    }

    /// Used only for nodes with another store, which does not change soon.
    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_secs(1)))
    }
}
