//! One cell of the bench: a number of clients without a pause, for a duration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use kgate_client::Client;
use kgate_spec::history::TraceError;
use tokio::task::JoinSet;

use super::table::Row;
use super::usage;
use crate::demo::cluster::{Cluster, Plan, gate_name};
use crate::demo::history::{History, Process};

/// Warm-up before the measurement.
const WARM_UP: Duration = Duration::from_secs(1);
/// Maximum time for clients to finish at the end.
const DRAIN: Duration = Duration::from_secs(60);

/// The load of one cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) clients: usize,
    pub(super) hold: Duration,
    pub(super) measured: Duration,
}

/// Resources used up to a moment.
struct Used {
    at: u64,
    nodes: f64,
    clients: f64,
    messages: u64,
}

impl Load {
    pub(super) async fn run(self, cluster: &Cluster, plan: &Plan) -> anyhow::Result<Row> {
        let nodes = plan.nodes as usize;
        let first = History::new(nodes);
        let others = (1..plan.gates).map(|_| first.beside());
        let gates: Arc<[History]> = std::iter::once(first.clone()).chain(others).collect();
        let stop = Arc::new(AtomicBool::new(false));
        // All clients connect before the first request: busy nodes would delay the connections.
        let mut clients = Vec::new();
        for number in 0..self.clients {
            clients.push(Client::connect(cluster.api(number % nodes)).await?);
        }
        let mut tasks = JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            let task = ClientTask { client, number, node: number % nodes, hold: self.hold };
            tasks.spawn(task.run(gates.clone(), stop.clone()));
        }
        tokio::time::sleep(WARM_UP).await;
        let before = used(cluster, nodes, &first).await?;
        tokio::time::sleep(self.measured).await;
        let after = used(cluster, nodes, &first).await?;
        stop.store(true, Ordering::Relaxed);
        let drained = async {
            while let Some(ended) = tasks.join_next().await {
                ended.context("a client")??;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(DRAIN, drained)
            .await
            .context("clients still wait a minute after the end")??;
        let check = |gate: &History| Ok((gate.holds(), gate.check(plan.protocol, plan.k)?));
        let checked = gates.iter().map(check).collect::<Result<Vec<_>, TraceError>>()?;
        let mut memory = 0;
        for pid in cluster.pids() {
            memory += usage::peak_memory(pid)?;
        }
        let used = super::table::Used {
            nodes_s: after.nodes - before.nodes,
            clients_s: after.clients - before.clients,
            messages: after.messages - before.messages,
            memory,
            nodes,
        };
        Ok(Row::of(plan.k, self.clients, &checked, (before.at, after.at), &used))
    }
}

/// A client of a node.
struct ClientTask {
    client: Client,
    number: usize,
    node: usize,
    hold: Duration,
}

impl ClientTask {
    /// Uses the gates in turn until `stop` is set; a pending request is still served and released.
    async fn run(self, gates: Arc<[History]>, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
        let names: Vec<String> = (0..gates.len()).map(gate_name).collect();
        let mut registered: Vec<Option<Process>> = vec![None; gates.len()];
        for turn in self.number.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let at = turn % gates.len();
            let history = &gates[at];
            let process =
                *registered[at].get_or_insert_with(|| history.register(self.number, self.node));
            history.request(process);
            let permit = self.client.gate(&names[at]).acquire().await?;
            history.granted(process, permit.slots(), permit.fence());
            if !self.hold.is_zero() {
                tokio::time::sleep(self.hold).await;
            }
            history.released(process);
            permit.release().await?;
        }
        Ok(())
    }
}

async fn used(cluster: &Cluster, nodes: usize, history: &History) -> anyhow::Result<Used> {
    let mut used = Used {
        at: history.now(),
        nodes: 0.0,
        clients: usage::cpu_seconds(std::process::id())?,
        messages: 0,
    };
    for pid in cluster.pids() {
        used.nodes += usage::cpu_seconds(pid)?;
    }
    for node in 0..nodes {
        used.messages += usage::messages(cluster.api(node)).await?;
    }
    Ok(used)
}
