//! One cell of the bench: so many clients, without a pause, for so long.

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

/// What is not measured at first: connections are made, code is loaded.
const WARM: Duration = Duration::from_secs(1);
/// How long clients may take to come out at the end.
const DRAIN: Duration = Duration::from_secs(60);

/// What is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) clients: usize,
    pub(super) hold: Duration,
    pub(super) measured: Duration,
}

/// What was used up to a moment.
struct Used {
    at: u64,
    nodes: f64,
    ours: f64,
    messages: u64,
}

impl Load {
    pub(super) async fn run(self, cluster: &Cluster, plan: &Plan) -> anyhow::Result<Row> {
        let nodes = plan.nodes as usize;
        let first = History::new(nodes);
        let others = (1..plan.gates).map(|_| first.beside());
        let gates: Arc<[History]> = std::iter::once(first.clone()).chain(others).collect();
        let stop = Arc::new(AtomicBool::new(false));
        // All are connected before the first asks: nodes that are busy already would let the others
        // wait.
        let mut clients = Vec::new();
        for number in 0..self.clients {
            clients.push(Client::connect(cluster.api(number % nodes)).await?);
        }
        let mut tasks = JoinSet::new();
        for (number, client) in clients.into_iter().enumerate() {
            let asker = Asker { client, number, node: number % nodes, hold: self.hold };
            tasks.spawn(asker.ask_on(gates.clone(), stop.clone()));
        }
        tokio::time::sleep(WARM).await;
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
            .context("clients still wait after a minute")??;
        let checker = |gate: &History| Ok((gate.stays(), gate.check(plan.protocol, plan.permits)?));
        let checked = gates.iter().map(checker).collect::<Result<Vec<_>, TraceError>>()?;
        let mut memory = 0;
        for pid in cluster.pids() {
            memory += usage::peak_memory(pid)?;
        }
        let used = super::table::Used {
            nodes_s: after.nodes - before.nodes,
            clients_s: after.ours - before.ours,
            messages: after.messages - before.messages,
            memory,
            nodes,
        };
        Ok(Row::of(plan.permits, self.clients, &checked, (before.at, after.at), &used))
    }
}

/// A client of a node.
struct Asker {
    client: Client,
    number: usize,
    node: usize,
    hold: Duration,
}

impl Asker {
    /// Goes from gate to gate until it is told to stop: whoever waits then is still served, and
    /// comes out.
    async fn ask_on(self, gates: Arc<[History]>, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
        let names: Vec<String> = (0..gates.len()).map(gate_name).collect();
        let mut enrolled: Vec<Option<Process>> = vec![None; gates.len()];
        for turn in self.number.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let at = turn % gates.len();
            let history = &gates[at];
            let process =
                *enrolled[at].get_or_insert_with(|| history.enrol(self.number, self.node));
            history.asks(process);
            let permit = self.client.gate(&names[at]).acquire().await?;
            history.is_in(process, permit.slots(), permit.fence());
            if !self.hold.is_zero() {
                tokio::time::sleep(self.hold).await;
            }
            history.is_out(process);
            permit.release().await?;
        }
        Ok(())
    }
}

async fn used(cluster: &Cluster, nodes: usize, history: &History) -> anyhow::Result<Used> {
    let mut used = Used {
        at: history.now(),
        nodes: 0.0,
        ours: usage::cpu_seconds(std::process::id())?,
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
