//! The command line, from which help, checks and (later) completions are made.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::certs::CertsArgs;
use crate::check::options::{CheckArgs, HELP as CHECK_HELP};
use crate::demo::node::DemoNodeArgs;
use crate::demo::{DemoArgs, HELP as DEMO_HELP};
use crate::evict::EvictArgs;
use crate::lab::{HELP as LAB_HELP, LabArgs};
use crate::members::{MEMBERS_HELP, MembersArgs};
use crate::node::{NODE_HELP, NodeArgs};
use crate::permits::RenewArgs;
use crate::protocols::ProtocolsArgs;
use crate::run::options::{ACQUIRE_HELP, AcquireArgs, RUN_HELP, ReleaseArgs, RunArgs};
use crate::scenario::{HELP as SCENARIO_HELP, ScenarioArgs};
use crate::set::{SET_HELP, SetArgs};
use crate::sim::options::{HELP as SIM_HELP, SimArgs};
use crate::status::{ExplainArgs, LookArgs};
use crate::trace::{HELP as TRACE_HELP, TraceArgs};

/// The gate that lets at most k through, anywhere, with no gatekeeper.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a permit of a gate
    #[command(after_long_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// Take a permit of a gate for a script, held in the background or by the cluster
    #[command(after_long_help = ACQUIRE_HELP)]
    Acquire(Box<AcquireArgs>),
    /// Let a permit of kgate acquire --ttl live on
    Renew(RenewArgs),
    /// Give back what kgate acquire took
    Release(ReleaseArgs),
    /// Show who holds what and who waits, at all nodes
    Status(LookArgs),
    /// Say why somebody waits at a gate: for whom, since when, and what would unblock it
    Explain(ExplainArgs),
    /// Show who holds what again whenever it has changed
    Watch(LookArgs),
    /// Give a gate another k or policy, online
    #[command(after_long_help = SET_HELP)]
    Set(SetArgs),
    /// List, add, remove, promote and demote the nodes of a cluster
    #[command(after_long_help = MEMBERS_HELP)]
    Members(MembersArgs),
    /// Have what a node holds come back, as soon as its lease is surely over; or a permit that the
    /// log holds
    Evict(EvictArgs),
    /// Run a node of a cluster
    #[command(after_long_help = NODE_HELP)]
    Node(NodeArgs),
    /// Simulate a protocol: processes ask for units again and again, and the run is measured and
    /// checked
    #[command(after_long_help = SIM_HELP)]
    Sim(Box<SimArgs>),
    /// Explore every schedule of a few processes (of stabilizing, every configuration), and print
    /// one that goes wrong if there is any
    #[command(after_long_help = CHECK_HELP)]
    Check(Box<CheckArgs>),
    /// Play scenarios: stories in which every step is prescribed, compared with what they tell
    #[command(after_long_help = SCENARIO_HELP)]
    Scenario(ScenarioArgs),
    /// Run experiments: grids of runs with tables, plots and verdicts on what was published
    #[command(after_long_help = LAB_HELP)]
    Lab(LabArgs),
    /// Look at a run that was written down with `kgate sim --trace`: as text, as a cluster_state,
    /// in ShiViz or Perfetto; or checker it
    #[command(after_long_help = TRACE_HELP)]
    Trace(TraceArgs),
    /// List the protocols: what each costs, which crashes it tolerates, where it is published
    Protocols(ProtocolsArgs),
    /// Make certificates for the nodes and clients of a cluster
    Certs(CertsArgs),
    /// Start a cluster on this machine, let clients contend, kill nodes, and checker what happened
    #[command(after_long_help = DEMO_HELP)]
    Demo(DemoArgs),
    /// Measure what kgate costs on this machine
    Bench(BenchArgs),
    #[command(hide = true)]
    DemoNode(DemoNodeArgs),
}
