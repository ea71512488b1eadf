//! The agreed log: openraft for consensus, redb for storage, and a [`Transport`] for messages.
//!
//! A [`Log`] is a handle. Behind it two threads work for this log alone, so that a busy node does
//! not miss a heartbeat: one runs openraft and everything that waits, the other writes the store,
//! one write after the other, each on disk before it is answered.
//!
//! - *Sending and receiving*: [`Transport::send`] may lose messages; [`Log::receive`] takes them.
//!   Requests have numbers and timeouts, and all queues are bounded.
//! - *Proposals* may be made at any node. They go to the leader, again and again, until the outcome
//!   is known or the time is over. Commands are compare-and-set, so a repetition does no harm.
//! - *Applied entries* come in the order of the log without a gap, each only after it is stored
//!   (rule N3), and begin after the state that [`Log::open`] returns.
//! - *Voters*: the newest in this node's log, committed or not, can be read at any instant (rule
//!   N4).
//! - *Stores*: each has a random id, and the log knows each voter with the id of its store. A
//!   message for or from another store than the known one is refused, so a node that has lost its
//!   store cannot vote with an empty log under its old number (rule R4).
//! - *Elections*: a voter stands only if a quorum would vote for it, and the timeouts adapt to slow
//!   disks.
//!
//! Learners follow the directory: the leader adds the nodes that are in it, and removes those that
//! are not.

mod api;
mod bootstrap;
mod election;
mod engine;
mod error;
mod in_flight;
mod proposals;
mod raft;
mod reconfiguration;
mod rpc;
mod runtime;
mod shared;
mod state_machine;
mod store;
#[cfg(test)]
mod tests;
mod timing;
mod wire;
mod worker;

pub use api::{AppliedEntry, Bootstrap, LogStatus, Opened, StopReason, Transport};
pub use error::{LogError, MalformedMessage, NoReply, ProposeError, StoreError, Unavailable};
pub use reconfiguration::VoterWarning;
pub use timing::LogTiming;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kgate_core::{NodeId, Span};
use openraft::{EntryPayload, SnapshotPolicy};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use self::election::LeaderContact;
use self::engine::{ClientRequest, Engine, RECEIVED_MAX, WRITES_MAX, stop_reason};
use self::in_flight::InFlight;
use self::raft::Raft;
use self::rpc::{NetworkFactory, RpcClient};
use self::shared::Shared;
use self::state_machine::{StateMachine, StoredState};
use self::store::OpenStore;
use self::wire::{Envelope, LeaderReply, LeaderRequest};
use self::worker::Queues;
use crate::state::{Applied, ClusterId, ClusterState, Command};
use crate::voters::Voters;

/// Capacity of the queue of requests from handles.
const REQUESTS_MAX: usize = 1024;

/// A handle to the log of this node. Cheap to clone; the log ends with the last of them, or by
/// [`Log::stop`].
#[derive(Clone)]
pub struct Log {
    requests: mpsc::Sender<ClientRequest>,
    received: mpsc::Sender<(NodeId, Envelope)>,
    status: watch::Receiver<LogStatus>,
    closed: watch::Receiver<bool>,
    shared: Arc<Shared>,
    timing: LogTiming,
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

/// How many entries of the log are kept.
#[derive(Clone, Copy, Debug)]
struct Retention {
    /// A snapshot is made after so many entries.
    snapshot_every: u64,
    /// The entries before the snapshot that are kept, for nodes that lack a few.
    entries: u64,
}

const RETENTION: Retention = Retention { snapshot_every: 1000, entries: 1000 };

impl Log {
    /// Opens the log in that folder, or makes an empty one. Blocks until the store is read, so call
    /// it at the start. Needs no runtime.
    pub fn open(
        folder: &Path,
        me: NodeId,
        transport: Arc<dyn Transport>,
        timing: LogTiming,
    ) -> Result<Opened, LogError> {
        Self::open_with(folder, me, transport, timing, RETENTION)
    }

    fn open_with(
        folder: &Path,
        me: NodeId,
        transport: Arc<dyn Transport>,
        timing: LogTiming,
        retention: Retention,
    ) -> Result<Opened, LogError> {
        let failed = |source| LogError::Store { path: store::path(folder), source };
        let OpenStore { mut store, id, thread: writer, write_time } =
            store::open(folder, me).map_err(failed)?;
        let timing = timing.with_disk(write_time);
        let config = config(timing, retention)?;
        let state = StoredState::load(&store).map_err(failed)?;
        let cluster_state = state.state.cluster_state().clone();
        let shared = Arc::new(Shared::new(cluster_state.clone(), state.roster()));
        let unapplied = state.applied.map_or(0, |applied| applied.index + 1);
        for entry in store.entries(unapplied.., usize::MAX).map_err(failed)? {
            if let EntryPayload::Membership(membership) = &entry.payload {
                shared.appended(entry.log_id.index, membership);
            }
        }
        store.share(Arc::clone(&shared));

        let (applied, entries) = mpsc::unbounded_channel();
        let (requests, requested) = mpsc::channel(REQUESTS_MAX);
        let (received, arriving) = mpsc::channel(RECEIVED_MAX);
        let (status, statuses) = watch::channel(LogStatus::default());
        let (close, closed) = watch::channel(false);
        let (started, starting) = std::sync::mpsc::channel();
        let machine = StateMachine::new(store.clone(), Arc::clone(&shared), applied, state);
        let rpc = Arc::new(RpcClient::new(id, write_time, transport));
        let log = Self {
            requests,
            received,
            status: statuses,
            closed,
            shared: Arc::clone(&shared),
            timing,
        };
        let start = move || async move {
            let network = NetworkFactory(Arc::clone(&rpc));
            let raft = Raft::new(me.0, Arc::new(config), network, store.clone(), machine).await;
            let raft = raft.map_err(|fatal| LogError::Start(stop_reason(fatal)))?;
            Ok(Engine {
                me,
                store: id,
                timing,
                raft,
                memory: store,
                rpc,
                shared,
                reconfiguring: tokio::sync::Mutex::default(),
                writing: Semaphore::new(WRITES_MAX),
                writing_for_clients: Semaphore::new(WRITES_MAX),
                in_flight: InFlight::default(),
                leader_contact: LeaderContact::new(),
            })
        };
        let queues = Queues { requests: requested, received: arriving, status };
        let work = move || {
            worker::run(start, queues, &started);
            let _ = writer.join();
            close.send_replace(true);
        };
        let thread = std::thread::Builder::new().name("kgate-log".to_owned()).spawn(work);
        thread.map_err(LogError::Thread)?;
        match starting.recv() {
            Ok(Ok(())) => Ok(Opened { log, store: id, cluster_state, entries }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(LogError::Start(StopReason::Panicked)),
        }
    }

    /// Bootstraps the cluster, together with its other first nodes, which all call this with the
    /// same nodes and voters. The first time all the voters must run, because each must learn the
    /// others' stores (rule R4). A node that does not vote waits until the leader adds it. May be
    /// called again after [`ProposeError::NoQuorum`], and after a restart. Rejected if the store
    /// belongs to another cluster, or the cluster knows this node with another store.
    pub async fn bootstrap(&self, bootstrap: Bootstrap) -> Result<ClusterId, ProposeError> {
        let (sender, answer) = oneshot::channel();
        let request = ClientRequest::Bootstrap(bootstrap, sender);
        self.requests.send(request).await.map_err(|_| ProposeError::Stopped)?;
        answer.await.unwrap_or(Err(ProposeError::Stopped))
    }

    /// Proposes a command, from any node, and returns what it did. After
    /// [`ProposeError::NoQuorum`] it may still be applied.
    pub async fn propose(&self, command: Command) -> Result<Applied, ProposeError> {
        self.propose_within(command, self.timing.propose_timeout).await
    }

    /// Proposes a command, with a timeout of its own.
    pub async fn propose_within(
        &self,
        command: Command,
        timeout: Span,
    ) -> Result<Applied, ProposeError> {
        let reply = self.request(LeaderRequest::Propose(command), timeout).await?;
        if let LeaderReply::Applied(applied) = reply { Ok(applied) } else { Err(unexpected(reply)) }
    }

    /// A linearizable read: the state is not older than anything that was applied anywhere before
    /// this call.
    pub async fn read(&self) -> Result<ClusterState, ProposeError> {
        self.read_index().await.map(|_| self.cluster_state().as_ref().clone())
    }

    /// An entry that is not before anything that was committed before this call. It is applied here
    /// when this returns, and may be on its way to the node still. A quorum has confirmed the
    /// leader that named it; nothing is written.
    pub async fn read_index(&self) -> Result<u64, ProposeError> {
        let reply = self.request(LeaderRequest::ReadIndex, self.timing.propose_timeout).await?;
        if let LeaderReply::ReadAt(index) = reply { Ok(index) } else { Err(unexpected(reply)) }
    }

    /// The state as this node has applied it, which may be behind the others.
    pub fn cluster_state(&self) -> Arc<ClusterState> {
        self.shared.cluster_state()
    }

    /// The state of the log at this node.
    pub fn status(&self) -> watch::Receiver<LogStatus> {
        self.status.clone()
    }

    /// The newest voters in this node's log, committed or not (rule N4).
    pub fn voters_appended(&self) -> Voters {
        self.shared.voters_appended()
    }

    /// Waits until the leader has added a node of the directory as a learner: it then receives the
    /// log, without a vote.
    pub async fn add_learner(&self, node: NodeId) -> Result<(), ProposeError> {
        self.reconfigure(LeaderRequest::AddLearner(node)).await.map(drop)
    }

    /// Removes a learner: it does not receive the log any more. Take it out of the directory first,
    /// or the leader adds it again.
    pub async fn remove_learner(&self, node: NodeId) -> Result<(), ProposeError> {
        self.reconfigure(LeaderRequest::RemoveLearner(node)).await.map(drop)
    }

    /// Gives a vote to a learner that has caught up with the log.
    pub async fn promote(&self, node: NodeId) -> Result<Option<VoterWarning>, ProposeError> {
        self.reconfigure(LeaderRequest::Promote(node)).await
    }

    /// Takes the vote from a node, which becomes a learner.
    pub async fn demote(&self, node: NodeId) -> Result<Option<VoterWarning>, ProposeError> {
        self.reconfigure(LeaderRequest::Demote(node)).await
    }

    /// Makes exactly these nodes the voters.
    pub async fn set_voters(
        &self,
        voters: BTreeSet<NodeId>,
    ) -> Result<Option<VoterWarning>, ProposeError> {
        self.reconfigure(LeaderRequest::SetVoters(voters)).await
    }

    /// Takes a message from another node's log, as that node's transport was given it. When the
    /// queue is full, the message is lost.
    pub fn receive(&self, from: NodeId, bytes: &[u8]) -> Result<(), MalformedMessage> {
        let envelope = Envelope::from_bytes(bytes)?;
        let _ = self.received.try_send((from, envelope));
        Ok(())
    }

    /// Stops the log at this node and waits until its store is closed. Other handles get
    /// [`ProposeError::Stopped`] from now on.
    pub async fn stop(&self) {
        let _ = self.requests.send(ClientRequest::Stop).await;
        let mut closed = self.closed.clone();
        // An error: the thread is gone, so the store is closed too.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    async fn request(
        &self,
        request: LeaderRequest,
        timeout: Span,
    ) -> Result<LeaderReply, ProposeError> {
        let (sender, answer) = oneshot::channel();
        let request = ClientRequest::Leader(request, Duration::from_nanos(timeout.0), sender);
        self.requests.send(request).await.map_err(|_| ProposeError::Stopped)?;
        answer.await.unwrap_or(Err(ProposeError::Stopped))
    }

    async fn reconfigure(
        &self,
        request: LeaderRequest,
    ) -> Result<Option<VoterWarning>, ProposeError> {
        let reply = self.request(request, self.timing.propose_timeout).await?;
        let LeaderReply::Changed(warning) = reply else { return Err(unexpected(reply)) };
        if let Some(warning) = &warning {
            tracing::warn!("{warning}");
        }
        Ok(warning)
    }
}

/// The error of a reply that is not the expected one. A reply to another kind of request could come
/// only from another version.
fn unexpected(reply: LeaderReply) -> ProposeError {
    match reply {
        LeaderReply::Rejected(rejected) => ProposeError::Rejected(rejected),
        LeaderReply::Unavailable(why) => ProposeError::NoQuorum(why),
        LeaderReply::Applied(_) | LeaderReply::ReadAt(_) | LeaderReply::Changed(_) => {
            ProposeError::NoQuorum(Unavailable::UnexpectedReply)
        }
    }
}

fn config(timing: LogTiming, retention: Retention) -> Result<openraft::Config, LogError> {
    let milliseconds = |span: Span| span.0 / 1_000_000;
    let config = openraft::Config {
        cluster_name: "kgate".to_owned(),
        heartbeat_interval: milliseconds(timing.heartbeat),
        // Elections are started by `election`. For openraft the first time is the least for which
        // it waits for votes, the second how long it refuses to vote after it has heard a leader.
        enable_elect: false,
        election_timeout_min: milliseconds(timing.election_min).saturating_sub(1),
        election_timeout_max: milliseconds(timing.election_min),
        install_snapshot_timeout: 2 * milliseconds(timing.election_max),
        max_payload_entries: 128,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(retention.snapshot_every),
        max_in_snapshot_log_to_keep: retention.entries,
        // A snapshot must remove the lag that it is sent for.
        replication_lag_threshold: 2 * retention.snapshot_every + retention.entries,
        snapshot_max_chunk_size: wire::CHUNK,
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| LogError::Timing(error.to_string()))
}

/// A random number from the operating system.
fn random() -> u64 {
    getrandom::u64().expect("the operating system has random numbers")
}
