//! The agreed log: openraft for the agreement, redb for the memory, and whatever carries bytes
//! between nodes.
//!
//! A [`Log`] is a handle. Behind it two threads work for it alone, so that a busy node does not
//! miss a heartbeat: one runs openraft and all that waits, the other writes the store, one write
//! after the other, each on disk before it is answered.
//!
//! - *Out*: [`Transport::send`], which may lose what it is given. *In*: [`Log::receive`]. Questions
//!   have numbers and time-outs, all queues have bounds.
//! - *Proposals* may be made at any node. They go to the leader, again and again until somebody
//!   knows what came of them or the patience is over; commands are compare-and-set, so twice does
//!   no harm.
//! - *AppliedEntry* come in the order of the log without a gap, each only after it is stored (rule
//!   N3), beginning after the cluster_state that [`Log::open`] returns.
//! - *Voters*: the newest that this node's log has, agreed or not, can be read at any instant (rule
//!   N4).
//! - *Stores*: each has a random id, and who votes is known with it. A message for or from another
//!   store than the known one is refused, so a node that has lost its store cannot vote with an
//!   empty memory under its old number (rule R4).
//! - *Elections* are begun by a voter that a quorum would have lead, not by whoever misses a
//!   heartbeat; times heed how slow the disks are.
//!
//! Who listens to the log without a vote follows the directory: the leader takes up whoever is on
//! it and drops whoever is not any more.

mod api;
mod bootstrap;
mod elect;
mod engine;
mod machine;
mod membership;
mod orders;
mod raft;
mod rpc;
mod runtime;
mod shared;
mod store;
#[cfg(test)]
mod tests;
mod timing;
mod under_way;
mod wire;

pub use api::{
    AppliedEntry, Bootstrap, LogError, LogStatus, MalformedMessage, Opened, ProposeError, Transport,
};
pub use timing::LogTiming;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kgate_core::{NodeId, Span};
use openraft::{EntryPayload, SnapshotPolicy};
use tokio::sync::{mpsc, oneshot, watch};

use self::elect::Heard;
use self::engine::{ARRIVALS, Ask, Engine, WRITING};
use self::machine::{Machine, Recalled};
use self::raft::Raft;
use self::rpc::{NetworkFactory, RpcClient};
use self::shared::Shared;
use self::under_way::UnderWay;
use self::wire::{Envelope, Order, Ruling};
use crate::state::{Applied, ClusterId, ClusterState, Command};
use crate::voters::Voters;

/// So many questions of handles wait to be taken up.
const ASKS: usize = 1024;

/// A handle to the log of this node. Cheap to clone; the log ends with the last of them, or by
/// [`Log::stop`].
#[derive(Clone)]
pub struct Log {
    asks: mpsc::Sender<Ask>,
    arrivals: mpsc::Sender<(NodeId, Envelope)>,
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

/// How much of the log is kept.
#[derive(Clone, Copy, Debug)]
struct Keeping {
    /// After so many entries the state is stored whole.
    snapshot_every: u64,
    /// So many entries before that are kept, for those who lack a few.
    entries: u64,
}

const KEEPING: Keeping = Keeping { snapshot_every: 1000, entries: 1000 };

impl Log {
    /// Opens the log in that folder, or makes an empty one. Blocks until the store is read: call it
    /// at the start. Needs no runtime.
    pub fn open(
        folder: &Path,
        me: NodeId,
        transport: Arc<dyn Transport>,
        timing: LogTiming,
    ) -> Result<Opened, LogError> {
        Self::open_keeping(folder, me, transport, timing, KEEPING)
    }

    fn open_keeping(
        folder: &Path,
        me: NodeId,
        transport: Arc<dyn Transport>,
        timing: LogTiming,
        keeping: Keeping,
    ) -> Result<Opened, LogError> {
        let path = folder.join("control.redb");
        let failed = |why: String| LogError { path: path.clone(), why };
        let store::Found { mut store, id, thread: writer, sync } = store::open(folder, me)?;
        let timing = timing.with_disk(sync);
        let config = config(timing, keeping).map_err(failed)?;
        let recalled = Recalled::from(&store).map_err(failed)?;
        let cluster_state = recalled.state.cluster_state().clone();
        let shared = Arc::new(Shared::new(cluster_state.clone(), recalled.roster()));
        let ahead = recalled.applied.map_or(0, |applied| applied.index + 1);
        for entry in store.entries(ahead.., usize::MAX).map_err(failed)? {
            if let EntryPayload::Membership(membership) = &entry.payload {
                shared.appended(entry.log_id.index, membership);
            }
        }
        store.share(Arc::clone(&shared));

        let (tell, news) = mpsc::unbounded_channel();
        let (asks, asked) = mpsc::channel(ASKS);
        let (arrivals, arrived) = mpsc::channel(ARRIVALS);
        let (status, statuses) = watch::channel(LogStatus::default());
        let (close, closed) = watch::channel(false);
        let (begun, beginning) = std::sync::mpsc::channel();
        let machine = Machine::new(store.clone(), Arc::clone(&shared), tell, recalled);
        let post = Arc::new(RpcClient::new(id, sync, transport));
        let log =
            Self { asks, arrivals, status: statuses, closed, shared: Arc::clone(&shared), timing };

        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => return drop(begun.send(Err(error.to_string()))),
            };
            runtime.block_on(async {
                let lines = NetworkFactory(Arc::clone(&post));
                match Raft::new(me.0, Arc::new(config), lines, store.clone(), machine).await {
                    Ok(raft) => {
                        let changing = tokio::sync::Mutex::default();
                        let heard = Heard::new();
                        let [writing, writing_for_clients] =
                            [(); 2].map(|()| tokio::sync::Semaphore::new(WRITING));
                        let engine = Engine {
                            me,
                            store: id,
                            timing,
                            raft,
                            memory: store,
                            post,
                            shared,
                            changing,
                            writing,
                            writing_for_clients,
                            under_way: UnderWay::default(),
                            heard,
                        };
                        let engine = Arc::new(engine);
                        status.send_replace(engine.status());
                        let _ = begun.send(Ok(()));
                        engine.run(asked, arrived, status).await;
                    }
                    Err(error) => drop(begun.send(Err(error.to_string()))),
                }
            });
            // Everything that has the store goes with the runtime; then its file is closed.
            drop(runtime);
            let _ = writer.join();
            close.send_replace(true);
        };
        let thread = std::thread::Builder::new().name("kgate-log".to_owned()).spawn(work);
        thread.map_err(|error| failed(error.to_string()))?;
        match beginning.recv() {
            Ok(Ok(())) => Ok(Opened { log, store: id, cluster_state, news }),
            Ok(Err(why)) => Err(failed(why)),
            Err(_) => Err(failed("its thread ended before it began".to_owned())),
        }
    }

    /// Founds the cluster, together with its other first nodes, which all call this with the same
    /// nodes and voters. The first time all the voters must be there: each must learn the others'
    /// stores (rule R4). A node that does not vote waits to be taken up. May be called again after
    /// [`ProposeError::NoQuorum`], and after a restart; void if the store belongs to another
    /// cluster, or the cluster knows this node with another store.
    pub async fn bootstrap(&self, founding: Bootstrap) -> Result<ClusterId, ProposeError> {
        let (answer, heard) = oneshot::channel();
        self.asks
            .send(Ask::Bootstrap(founding, answer))
            .await
            .map_err(|_| ProposeError::Stopped)?;
        heard.await.unwrap_or(Err(ProposeError::Stopped))
    }

    /// Puts a command into the log and says what came of it, from any node. After
    /// [`ProposeError::NoQuorum`] it may still come to be done.
    pub async fn propose(&self, command: Command) -> Result<Applied, ProposeError> {
        self.propose_within(command, self.timing.patience).await
    }

    /// The same, with a patience of its own.
    pub async fn propose_within(
        &self,
        command: Command,
        patience: Span,
    ) -> Result<Applied, ProposeError> {
        let ruling = self.order(Order::Propose(command), patience).await?;
        if let Ruling::Applied(done) = ruling { Ok(done) } else { Err(unexpected(ruling)) }
    }

    /// What the log says now: not older than anything that was done anywhere before this call.
    pub async fn read(&self) -> Result<ClusterState, ProposeError> {
        let ruling = self.order(Order::Read, self.timing.patience).await?;
        if let Ruling::ReadAt(_) = ruling {
            Ok(self.cluster_state().as_ref().clone())
        } else {
            Err(unexpected(ruling))
        }
    }

    /// What this node has applied, which may be behind the others.
    pub fn cluster_state(&self) -> Arc<ClusterState> {
        self.shared.cluster_state()
    }

    /// How the log is.
    pub fn status(&self) -> watch::Receiver<LogStatus> {
        self.status.clone()
    }

    /// The newest voters in this node's log, agreed or not (rule N4).
    pub fn voters_appended(&self) -> Voters {
        self.shared.voters_appended()
    }

    /// A node of the directory hears the log from now on, without a vote. The leader does so by
    /// itself; this waits until it is done.
    pub async fn add_learner(&self, node: NodeId) -> Result<(), ProposeError> {
        self.change(Order::AddLearner(node)).await.map(drop)
    }

    /// It does not hear the log any more. Only after it is off the directory, or the leader takes
    /// it up again.
    pub async fn remove_learner(&self, node: NodeId) -> Result<(), ProposeError> {
        self.change(Order::RemoveLearner(node)).await.map(drop)
    }

    /// Gives a vote to a node that hears the log and has caught up. The text is a warning for the
    /// operator.
    pub async fn promote(&self, node: NodeId) -> Result<Option<String>, ProposeError> {
        self.change(Order::Promote(node)).await
    }

    /// Takes the vote from a node; it goes on hearing the log.
    pub async fn demote(&self, node: NodeId) -> Result<Option<String>, ProposeError> {
        self.change(Order::Demote(node)).await
    }

    /// Exactly these vote from now on.
    pub async fn set_voters(
        &self,
        voters: BTreeSet<NodeId>,
    ) -> Result<Option<String>, ProposeError> {
        self.change(Order::SetVoters(voters)).await
    }

    /// Bytes from another node's log, as its transport was given them. What cannot be read is junk;
    /// what comes when the queue is full is lost.
    pub fn receive(&self, from: NodeId, bytes: &[u8]) -> Result<(), MalformedMessage> {
        let envelope = Envelope::from_bytes(bytes)?;
        let _ = self.arrivals.try_send((from, envelope));
        Ok(())
    }

    /// Ends the log at this node and waits until its store is closed. Other handles get
    /// [`ProposeError::Stopped`] from now on.
    pub async fn stop(&self) {
        let _ = self.asks.send(Ask::Stop).await;
        let mut closed = self.closed.clone();
        // An error: the thread is gone, which is as good.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    async fn order(&self, order: Order, patience: Span) -> Result<Ruling, ProposeError> {
        let (answer, heard) = oneshot::channel();
        let ask = Ask::Order(order, Duration::from_nanos(patience.0), answer);
        self.asks.send(ask).await.map_err(|_| ProposeError::Stopped)?;
        heard.await.unwrap_or(Err(ProposeError::Stopped))
    }

    async fn change(&self, order: Order) -> Result<Option<String>, ProposeError> {
        let ruling = self.order(order, self.timing.patience).await?;
        let Ruling::Changed(warning) = ruling else { return Err(unexpected(ruling)) };
        if let Some(warning) = &warning {
            tracing::warn!("{warning}");
        }
        Ok(warning)
    }
}

/// Rejected, or an answer to another order, which only another version could give.
fn unexpected(ruling: Ruling) -> ProposeError {
    match ruling {
        Ruling::Rejected(void) => ProposeError::Rejected(void),
        Ruling::NotNow(why) => ProposeError::NoQuorum(why),
        Ruling::Applied(_) | Ruling::ReadAt(_) | Ruling::Changed(_) => ProposeError::NoQuorum(
            "the leader answered something else: is it of another version?".to_owned(),
        ),
    }
}

fn config(timing: LogTiming, keeping: Keeping) -> Result<openraft::Config, String> {
    let milliseconds = |span: Span| span.0 / 1_000_000;
    let config = openraft::Config {
        cluster_name: "kgate".to_owned(),
        heartbeat_interval: milliseconds(timing.heartbeat),
        // Elections are begun by `elect`. For openraft the first is how long votes are awaited at
        // least, the second how long it refuses to vote after it has heard a leader.
        enable_elect: false,
        election_timeout_min: milliseconds(timing.election_min).saturating_sub(1),
        election_timeout_max: milliseconds(timing.election_min),
        install_snapshot_timeout: 2 * milliseconds(timing.election_max),
        max_payload_entries: 128,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(keeping.snapshot_every),
        max_in_snapshot_log_to_keep: keeping.entries,
        // A snapshot must mend the lag that it is sent for.
        replication_lag_threshold: 2 * keeping.snapshot_every + keeping.entries,
        snapshot_max_chunk_size: wire::CHUNK,
        ..openraft::Config::default()
    };
    config.validate().map_err(|error| format!("its timing cannot be: {error}"))
}

/// A random number, from the system.
fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
