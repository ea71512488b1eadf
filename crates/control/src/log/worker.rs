//! The thread of a log: makes the runtime, starts openraft, and runs the engine until it ends.

use std::sync::{Arc, mpsc};

use kgate_core::NodeId;
use tokio::sync::watch;

use super::api::LogStatus;
use super::engine::{ClientRequest, Engine};
use super::error::LogError;
use super::wire::Envelope;

/// Whether the log has started.
pub(super) type Started = mpsc::Sender<Result<(), LogError>>;

/// What the engine of a log is asked, and where it reports.
pub(super) struct Queues {
    pub(super) requests: tokio::sync::mpsc::Receiver<ClientRequest>,
    pub(super) received: tokio::sync::mpsc::Receiver<(NodeId, Envelope)>,
    pub(super) status: watch::Sender<LogStatus>,
}

/// Runs until the log is stopped. Then every handle to the store is dropped.
pub(super) fn run<F: Future<Output = Result<Engine, LogError>>>(
    start: impl FnOnce() -> F,
    queues: Queues,
    started: &Started,
) {
    let work = async {
        let engine = Arc::new(start().await?);
        queues.status.send_replace(engine.status());
        let _ = started.send(Ok(()));
        engine.run(queues.requests, queues.received, queues.status).await;
        Ok(())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ended = runtime.map_err(LogError::Thread).and_then(|runtime| runtime.block_on(work));
    if let Err(error) = ended {
        let _ = started.send(Err(error));
    }
}
