//! `kgate bench`: throughput and cost of kgate on this machine.
//!
//! `kgate bench cluster` starts real nodes as `kgate demo` does, and clients that acquire as fast
//! as they are served. The history of every cell is checked too: a number without a verdict proves
//! nothing.

mod load;
mod table;
mod usage;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use kgate_protocols::registry;

use crate::demo::cluster::{Cluster, Plan};
use crate::{Failure, Outcome};

const HELP: &str = "\
Starts nodes as processes of this machine, and clients in this process, spread over the nodes. \
Each client acquires, holds, releases, waits for the confirmation, and starts again. Each pair of \
k and number of clients is a row: acquisitions per second; the time of an acquisition; the \
hand-over time from a release to the next grant of that slot, if the next client was waiting; \
fairness (minimum and maximum per client, and Jain's index: 1 is fair); CPU time; messages \
between nodes; the peak memory of a node (mean over nodes); and the number of violations.

Clients and nodes share the cores of the machine: run it on an idle one.

Exit codes: 0: success; 1: a violation; 2: usage error; 125: internal error.

Examples:
  The default grid, about a minute:
    kgate bench cluster
  One cell, as JSON:
    kgate bench cluster -k 3 --clients 64 --json
  Many nodes, gates and clients:
    kgate bench cluster --nodes 64 --gates 1000 --clients 1000 -k 2 --seconds 60";

/// Arguments of `kgate bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure nodes on this machine under clients that acquire without a pause
    #[command(after_long_help = HELP)]
    Cluster(ClusterArgs),
}

/// Arguments of `kgate bench cluster`.
#[derive(Debug, Args)]
struct ClusterArgs {
    /// Number of nodes
    #[arg(
        long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    nodes: u32,
    /// Number of slots of a gate; a list is measured in turn
    #[arg(
        short = 'k', long, value_name = "K,..", default_value = "1,3", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    k: Vec<u32>,
    /// Number of gates; each client uses them in turn
    #[arg(
        long, value_name = "G", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    gates: u32,
    /// Number of clients; a list is measured in turn
    #[arg(
        long, value_name = "C,..", default_value = "1,16,64", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    clients: Vec<u32>,
    /// Measured duration of each row in seconds, after one second of warm-up
    #[arg(
        long, value_name = "S", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    seconds: u64,
    /// Time that a permit is held, in microseconds; rounded up to milliseconds unless 0
    #[arg(
        long, value_name = "US", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(..=60_000_000)
    )]
    hold: u64,
    /// Protocol; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "slots")]
    protocol: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &BenchArgs) -> Outcome {
    match &args.command {
        BenchCommand::Cluster(args) => cluster(args),
    }
}

fn cluster(args: &ClusterArgs) -> Outcome {
    let entry =
        registry::entry(&args.protocol).map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting a runtime")?;
    let mut stdout = std::io::stdout().lock();
    if !args.json {
        writeln!(
            stdout,
            "{} nodes, {} of {}, hold {} us, {} s per row",
            args.nodes,
            if args.gates == 1 { "1 gate".to_owned() } else { format!("{} gates", args.gates) },
            entry.name,
            args.hold,
            args.seconds
        )?;
        writeln!(stdout, "{}", table::HEAD)?;
    }
    let mut rows = Vec::new();
    for &k in &args.k {
        let plan = Plan {
            nodes: args.nodes,
            gates: args.gates,
            k,
            protocol: entry.name,
            stores: entry.recovers,
        };
        let nodes = runtime.block_on(Cluster::start(&plan))?;
        for &clients in &args.clients {
            let load = load::Load {
                clients: clients as usize,
                hold: Duration::from_micros(args.hold),
                measured: Duration::from_secs(args.seconds),
            };
            let row = runtime.block_on(load.run(&nodes, &plan))?;
            if !args.json {
                writeln!(stdout, "{row}")?;
                stdout.flush()?;
            }
            rows.push(row);
        }
    }
    if args.json {
        let report = serde_json::json!({
            "nodes": args.nodes, "gates": args.gates, "protocol": entry.name,
            "hold_us": args.hold, "seconds": args.seconds, "rows": rows,
        });
        writeln!(stdout, "{}", serde_json::to_string_pretty(&report).context("printing JSON")?)?;
    }
    stdout.flush()?;
    let passed = rows.iter().all(|row| row.violations == 0);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
