//! One cell of the bench: so many clients, without a pause, for so long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use kgate_client::Client;
use tokio::task::JoinSet;

use super::table::Row;
use super::usage;
use crate::demo::cluster::{Cluster, GATE, Plan};
use crate::demo::history::History;

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
        let history = History::new(nodes);
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for number in 0..self.clients {
            let client = Client::connect(cluster.api(number % nodes)).await?;
            tasks.spawn(ask_on(client, history.clone(), number, number % nodes, self.hold, stop.clone()));
        }
        tokio::time::sleep(WARM).await;
        let before = used(cluster, nodes, &history).await?;
        tokio::time::sleep(self.measured).await;
        let after = used(cluster, nodes, &history).await?;
        stop.store(true, Ordering::Relaxed);
        let drained = async {
            while let Some(ended) = tasks.join_next().await {
                ended.context("a client")??;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(DRAIN, drained).await.context("clients still wait after a minute")??;
        let verdict = history.judge(plan.protocol, plan.permits)?;
        let used = super::table::Used {
            nodes_s: after.nodes - before.nodes,
            clients_s: after.ours - before.ours,
            messages: after.messages - before.messages,
        };
        Ok(Row::of(plan.permits, self.clients, &history.stays(), (before.at, after.at), &used, &verdict))
    }
}

/// A client until it is told to stop: whoever waits then is still served, and comes out.
async fn ask_on(
    client: Client,
    history: History,
    number: usize,
    node: usize,
    hold: Duration,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let process = history.enrol(number, node);
    while !stop.load(Ordering::Relaxed) {
        history.asks(process);
        let permit = client.gate(GATE).acquire().await?;
        history.is_in(process, permit.slots(), permit.fence());
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        history.is_out(process);
        permit.release().await;
    }
    Ok(())
}

async fn used(cluster: &Cluster, nodes: usize, history: &History) -> anyhow::Result<Used> {
    let mut used =
        Used { at: history.now(), nodes: 0.0, ours: usage::cpu_seconds(std::process::id())?, messages: 0 };
    for pid in cluster.pids() {
        used.nodes += usage::cpu_seconds(pid)?;
    }
    for node in 0..nodes {
        used.messages += usage::messages(cluster.api(node)).await?;
    }
    Ok(used)
}
