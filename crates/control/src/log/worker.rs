//! The thread of a log: makes the runtime, starts openraft, and runs the engine until it ends.

use std::sync::{Arc, mpsc};

use kgate_core::NodeId;
use openraft::Config;
use tokio::sync::{Semaphore, watch};

use super::api::LogStatus;
use super::election::LeaderContact;
use super::engine::{ClientRequest, Engine, WRITES_MAX, stop_reason};
use super::error::LogError;
use super::in_flight::InFlight;
use super::raft::Raft;
use super::rpc::{NetworkFactory, RpcClient};
use super::shared::Shared;
use super::state_machine::StateMachine;
use super::store::Store;
use super::timing::LogTiming;
use super::wire::Envelope;
use crate::membership::StoreId;

/// What the thread of a log works with.
pub(super) struct Worker {
    pub(super) me: NodeId,
    pub(super) store_id: StoreId,
    pub(super) timing: LogTiming,
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) machine: StateMachine,
    pub(super) rpc: Arc<RpcClient>,
    pub(super) shared: Arc<Shared>,
    pub(super) requests: tokio::sync::mpsc::Receiver<ClientRequest>,
    pub(super) received: tokio::sync::mpsc::Receiver<(NodeId, Envelope)>,
    pub(super) status: watch::Sender<LogStatus>,
}

/// Whether the log has started.
pub(super) type Started = mpsc::Sender<Result<(), LogError>>;

impl Worker {
    /// Runs until the log is stopped. Then every handle to the store is dropped.
    pub(super) fn run(self, started: &Started) {
        match tokio::runtime::Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime.block_on(self.serve(started)),
            Err(error) => drop(started.send(Err(LogError::Thread(error)))),
        }
    }

    async fn serve(self, started: &Started) {
        let network = NetworkFactory(Arc::clone(&self.rpc));
        let config = Arc::new(self.config);
        let raft = Raft::new(self.me.0, config, network, self.store.clone(), self.machine).await;
        let raft = match raft {
            Ok(raft) => raft,
            Err(fatal) => return drop(started.send(Err(LogError::Start(stop_reason(fatal))))),
        };
        let engine = Arc::new(Engine {
            me: self.me,
            store: self.store_id,
            timing: self.timing,
            raft,
            memory: self.store,
            rpc: self.rpc,
            shared: self.shared,
            reconfiguring: tokio::sync::Mutex::default(),
            writing: Semaphore::new(WRITES_MAX),
            writing_for_clients: Semaphore::new(WRITES_MAX),
            in_flight: InFlight::default(),
            leader_contact: LeaderContact::new(),
        });
        self.status.send_replace(engine.status());
        let _ = started.send(Ok(()));
        engine.run(self.requests, self.received, self.status).await;
    }
}
