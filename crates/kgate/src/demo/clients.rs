//! Clients that contend: each has its own session with a node, asks, holds for a moment, gives
//! back, and asks again.

use std::time::Duration;

use kgate_client::Client;
use kgate_sim::Rng;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::cluster::GATE;
use super::history::{History, Process};

/// How long a client holds a permit, in microseconds, from .. to.
const HOLD_US: (u64, u64) = (5_000, 25_000);
/// How long it thinks before it asks again.
const THINK_US: (u64, u64) = (0, 10_000);

/// What went wrong at a client, which must not.
#[derive(Debug)]
pub(crate) struct Trouble(pub(crate) String);

/// What all clients share.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) history: History,
    pub(crate) troubles: mpsc::UnboundedSender<Trouble>,
    /// The run is over: nobody asks any more.
    pub(crate) over: watch::Receiver<bool>,
    pub(crate) seed: u64,
}

impl World {
    /// A client begins at a node.
    pub(crate) fn begin(&self, client: usize, node: usize, api: &str) -> JoinHandle<()> {
        let process = self.history.enrol(client, node);
        let one = One { world: self.clone(), client, node, api: api.to_owned(), process };
        tokio::spawn(one.run())
    }
}

struct One {
    world: World,
    client: usize,
    node: usize,
    api: String,
    process: Process,
}

/// The node was killed, and this client with it: nothing of it happens any more.
struct Gone;

impl One {
    async fn run(self) {
        match self.contend().await {
            Ok(()) => {}
            // It keeps what it holds, as the dead do, until it is cleared away.
            Err(Gone) => std::future::pending().await,
        }
    }

    async fn contend(&self) -> Result<(), Gone> {
        let name = format!(
            "client {} of node {} (incarnation {:?})",
            self.client, self.node, self.process
        );
        let mut rng = Rng::fork(self.world.seed, &name);
        let mut over = self.world.over.clone();
        let client = match Client::connect(&self.api).await {
            Ok(client) => client,
            Err(error) => return self.trouble(&error.to_string()),
        };
        let mut drawn = |(from, to): (u64, u64)| Duration::from_micros(rng.within(from, to));
        let history = &self.world.history;
        loop {
            tokio::select! {
                () = tokio::time::sleep(drawn(THINK_US)) => {}
                _ = over.wait_for(|over| *over) => return Ok(()),
            }
            alive(history.asks(self.process))?;
            // Who has asked when the run is over still waits, and must be served.
            let permit = client.gate(GATE).acquire().await;
            let permit = match permit {
                Ok(permit) => permit,
                Err(error) => return self.trouble(&error.to_string()),
            };
            if !history.is_in(self.process, permit.slots(), permit.fence()) {
                return self.keep(permit).await;
            }
            let lost = tokio::select! {
                () = tokio::time::sleep(drawn(HOLD_US)) => None,
                why = permit.lost() => Some(why),
            };
            if !history.is_out(self.process) {
                return self.keep(permit).await;
            }
            if let Some(why) = lost {
                return self.trouble(&format!("its permit was lost: {why}"));
            }
            let _ = permit.release().await;
        }
    }

    /// Who was killed gives nothing back: others must find out by themselves.
    async fn keep(&self, permit: kgate_client::Permit) -> Result<(), Gone> {
        let never: Result<(), Gone> = std::future::pending().await;
        drop(permit);
        never
    }

    /// Trouble at a node that was killed is what must be; at any other the demo has failed.
    fn trouble(&self, text: &str) -> Result<(), Gone> {
        alive(!self.world.history.is_gone(self.process))?;
        let text = format!("client {} at node {}: {text}", self.client, self.node);
        // If nobody listens any more the run is over.
        let _ = self.world.troubles.send(Trouble(text));
        Ok(())
    }
}

fn alive(alive: bool) -> Result<(), Gone> {
    if alive { Ok(()) } else { Err(Gone) }
}
