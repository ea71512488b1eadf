//! Contending clients: each has its own session with a node, acquires, holds for a moment,
//! releases, and starts again.

use std::time::Duration;

use kgate_client::Client;
use kgate_sim::Rng;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::cluster::GATE;
use super::history::{History, Process};

/// Range of the time that a client holds a permit, in microseconds.
const HOLD_US: (u64, u64) = (5_000, 25_000);
/// Range of the pause before the next request, in microseconds.
const THINK_US: (u64, u64) = (0, 10_000);

/// An error of a client that must not happen.
#[derive(Debug)]
pub(crate) struct ClientError(pub(crate) String);

/// What all clients share.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    pub(crate) history: History,
    pub(crate) errors: mpsc::UnboundedSender<ClientError>,
    /// The run is over: no new requests.
    pub(crate) over: watch::Receiver<bool>,
    pub(crate) seed: u64,
}

impl Clients {
    /// Starts a client at a node.
    pub(crate) fn start(&self, client: usize, node: usize, api: &str) -> JoinHandle<()> {
        let process = self.history.register(client, node);
        let task = ClientTask { shared: self.clone(), client, node, api: api.to_owned(), process };
        tokio::spawn(task.run())
    }
}

struct ClientTask {
    shared: Clients,
    client: usize,
    node: usize,
    api: String,
    process: Process,
}

/// The node was killed, and this client with it.
struct Killed;

impl ClientTask {
    async fn run(self) {
        match self.contend().await {
            Ok(()) => {}
            // Like a dead process it releases nothing, until the task is aborted.
            Err(Killed) => std::future::pending().await,
        }
    }

    async fn contend(&self) -> Result<(), Killed> {
        let name = format!(
            "client {} of node {} (incarnation {:?})",
            self.client, self.node, self.process
        );
        let mut rng = Rng::fork(self.shared.seed, &name);
        let mut over = self.shared.over.clone();
        let client = match Client::connect(&self.api).await {
            Ok(client) => client,
            Err(error) => return self.fail(&error.to_string()),
        };
        let mut drawn = |(from, to): (u64, u64)| Duration::from_micros(rng.within(from, to));
        let history = &self.shared.history;
        loop {
            tokio::select! {
                () = tokio::time::sleep(drawn(THINK_US)) => {}
                _ = over.wait_for(|over| *over) => return Ok(()),
            }
            check_alive(history.request(self.process))?;
            // A request that is pending at the end of the run must still be served.
            let permit = client.gate(GATE).acquire().await;
            let permit = match permit {
                Ok(permit) => permit,
                Err(error) => return self.fail(&error.to_string()),
            };
            if !history.granted(self.process, permit.slots(), permit.fence()) {
                return self.keep_for_ever(permit).await;
            }
            let lost = tokio::select! {
                () = tokio::time::sleep(drawn(HOLD_US)) => None,
                why = permit.lost() => Some(why),
            };
            if !history.released(self.process) {
                return self.keep_for_ever(permit).await;
            }
            if let Some(why) = lost {
                return self.fail(&format!("permit lost: {why}"));
            }
            let _ = permit.release().await;
        }
    }

    /// A killed client releases nothing: the cluster must detect its death.
    async fn keep_for_ever(&self, permit: kgate_client::Permit) -> Result<(), Killed> {
        let never: Result<(), Killed> = std::future::pending().await;
        drop(permit);
        never
    }

    /// Reports an error. Errors at a killed node are expected; at any other node the demo fails.
    fn fail(&self, text: &str) -> Result<(), Killed> {
        check_alive(!self.shared.history.is_killed(self.process))?;
        let text = format!("client {} at node {}: {text}", self.client, self.node);
        // An error means that the run is over.
        let _ = self.shared.errors.send(ClientError(text));
        Ok(())
    }
}

fn check_alive(alive: bool) -> Result<(), Killed> {
    if alive { Ok(()) } else { Err(Killed) }
}
