//! `kgate bench`: what kgate costs on this machine.
//!
//! `kgate bench cluster` starts real nodes as `kgate demo` does and lets clients ask as fast as
//! they are served. Numbers without a verdict are worth nothing, so every cell is checked by the
//! oracle too.

mod load;
mod table;
mod usage;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use clap::{Args, Subcommand};
use kgate_protocols::registry;

use crate::demo::cluster::{Cluster, Plan};
use crate::{Failure, Outcome};

const HELP: &str = "\
Starts nodes as processes of this machine, and clients in this process that are spread over them: each asks, holds, gives back, waits until its node has heard of that, and asks \
again. Each number of permits with each number of clients is a row: acquisitions a second; how long one took; how long it took from giving back to the next grant of that permit, \
where the next one waited already; how evenly clients were served (least and most, and Jain's index: 1 is even); what it cost in processor time and in messages \
between nodes; how much memory a node had in use at most (on average over nodes); and the verdict. Exit code 1 means that more than k were inside.

Nothing is gained from a machine that does something else meanwhile, and clients and nodes share its cores.

Examples:
  The usual grid, about a minute:
    kgate bench cluster
  One cell, as JSON:
    kgate bench cluster -k 3 --clients 64 --json
  Many of everything:
    kgate bench cluster --nodes 64 --gates 1000 --clients 1000 -k 2 --seconds 60";

/// What `kgate bench` is told.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure nodes on this machine under clients that ask without a pause
    #[command(after_long_help = HELP)]
    Cluster(ClusterArgs),
}

/// What `kgate bench cluster` is told.
#[derive(Debug, Args)]
struct ClusterArgs {
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64), env = "KGATE_OPT_NODES")]
    nodes: u32,
    /// How many permits the gate has; several numbers: one after the other
    #[arg(
        short = 'k', long = "k", value_name = "K,..", default_value = "1,3", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1000), env = "KGATE_OPT_K"
    )]
    permits: Vec<u32>,
    /// How many gates; each client goes from one to the next
    #[arg(long, value_name = "G", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), env = "KGATE_OPT_GATES")]
    gates: u32,
    /// How many clients ask; several numbers: one after the other
    #[arg(
        long, value_name = "C,..", default_value = "1,16,64", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=10_000), env = "KGATE_OPT_CLIENTS"
    )]
    clients: Vec<u32>,
    /// For how long each is measured, after a second that is not
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600), env = "KGATE_OPT_SECONDS")]
    seconds: u64,
    /// How long a permit is held, in microseconds; beyond 0 it is rounded up to milliseconds
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=60_000_000), env = "KGATE_OPT_HOLD")]
    hold: u64,
    /// Which protocol; `kgate protocols` lists them
    #[arg(long, value_name = "NAME", default_value = "slots", env = "KGATE_OPT_PROTOCOL")]
    protocol: String,
    /// Print one JSON object
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
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
            "{} nodes, {} of {}, hold {} us, {} s a row",
            args.nodes,
            if args.gates == 1 { "a gate".to_owned() } else { format!("{} gates", args.gates) },
            entry.name,
            args.hold,
            args.seconds
        )?;
        writeln!(stdout, "{}", table::HEAD)?;
    }
    let mut rows = Vec::new();
    for &permits in &args.permits {
        let plan = Plan {
            nodes: args.nodes,
            gates: args.gates,
            permits,
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
            "nodes": args.nodes, "gates": args.gates, "protocol": entry.name, "hold_us": args.hold, "seconds": args.seconds, "rows": rows,
        });
        writeln!(stdout, "{}", serde_json::to_string_pretty(&report).context("printing JSON")?)?;
    }
    stdout.flush()?;
    let right = rows.iter().all(|row| row.violations == 0);
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
