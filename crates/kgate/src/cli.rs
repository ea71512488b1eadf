//! The subcommands. The arguments of each are in the file named after it.

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::certs::CertsArgs;
use crate::check::options::{CheckArgs, HELP as CHECK_HELP};
use crate::completions::{CompletionsArgs, HELP as COMPLETIONS_HELP};
use crate::demo::node::DemoNodeArgs;
use crate::demo::{DemoArgs, HELP as DEMO_HELP};
use crate::evict::EvictArgs;
use crate::lab::{HELP as LAB_HELP, LabArgs};
use crate::man::{HELP as MAN_HELP, ManArgs};
use crate::members::{MEMBERS_HELP, MembersArgs};
use crate::node::{NODE_HELP, NodeArgs};
use crate::permits::RenewArgs;
use crate::protocols::ProtocolsArgs;
use crate::run::options::{ACQUIRE_HELP, AcquireArgs, RUN_HELP, ReleaseArgs, RunArgs};
use crate::scenario::{HELP as SCENARIO_HELP, ScenarioArgs};
use crate::set::{SET_HELP, SetArgs};
use crate::setup::{SETUP_HELP, SetupArgs};
use crate::sim::options::{HELP as SIM_HELP, SimArgs};
use crate::status::{ExplainArgs, StatusArgs, StatusOnceArgs};
use crate::trace::{HELP as TRACE_HELP, TraceArgs};

/// The gate that lets at most k through, anywhere, with no gatekeeper.
#[derive(Debug, Parser)]
#[command(bin_name = "kgate", version, max_term_width = 110)]
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
    /// Renew a permit of kgate acquire --ttl for another time to live
    Renew(RenewArgs),
    /// Release a permit of kgate acquire
    Release(ReleaseArgs),
    /// Show the holders and waiting clients of gates, at all nodes
    Status(StatusOnceArgs),
    /// Explain why clients wait at a gate: for which holders, since when, and what would unblock it
    Explain(ExplainArgs),
    /// Show the status again whenever it changes
    Watch(StatusArgs),
    /// Change k or the policy of a gate, online
    #[command(after_long_help = SET_HELP)]
    Set(SetArgs),
    /// List, add, remove, promote and demote the nodes of a cluster
    #[command(after_long_help = MEMBERS_HELP)]
    Members(MembersArgs),
    /// Evict a single holder, whose slots are free when it has stopped; a durable permit; or a
    /// node, whose permits are free when its lease has certainly expired
    Evict(EvictArgs),
    /// Run a node: of this machine, or of a cluster
    #[command(after_long_help = NODE_HELP)]
    Node(NodeArgs),
    /// Set up the node of this machine, for all its users, as a service
    #[command(after_long_help = SETUP_HELP)]
    Setup(SetupArgs),
    /// Simulate a protocol under load, measure it and check every property
    #[command(after_long_help = SIM_HELP)]
    Sim(Box<SimArgs>),
    /// Check every schedule of a few processes (of stabilizing, every configuration), and print a
    /// counterexample if there is one
    #[command(after_long_help = CHECK_HELP)]
    Check(Box<CheckArgs>),
    /// Play scenarios, which prescribe every step, and compare the effects with the expected ones
    #[command(after_long_help = SCENARIO_HELP)]
    Scenario(ScenarioArgs),
    /// Run experiments: grids of runs with tables, plots and verdicts on published results
    #[command(after_long_help = LAB_HELP)]
    Lab(LabArgs),
    /// Show a trace of `kgate sim --trace` as text, as a diagram, in ShiViz or Perfetto; or check
    /// it
    #[command(after_long_help = TRACE_HELP)]
    Trace(TraceArgs),
    /// List the protocols with their costs, tolerated faults and publications
    Protocols(ProtocolsArgs),
    /// Make certificates for the nodes and clients of a cluster, for development
    Certs(CertsArgs),
    /// Start a cluster on this machine, let clients contend, kill nodes, and check the history
    #[command(after_long_help = DEMO_HELP)]
    Demo(DemoArgs),
    /// Measure the throughput and cost of kgate on this machine
    Bench(BenchArgs),
    /// Print the completions of a shell
    #[command(after_long_help = COMPLETIONS_HELP)]
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(after_long_help = MAN_HELP)]
    Man(ManArgs),
    /// Print the version
    Version,
    #[command(hide = true)]
    DemoNode(DemoNodeArgs),
}

/// The same definitions, whose help does not show the values of this process's environment.
pub(crate) fn without_environment(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(without_environment)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::variables;

    /// Every command's arguments fit together: no id twice, no conflict with an unknown argument.
    #[test]
    fn the_definitions_are_consistent() {
        variables::read(Cli::command()).debug_assert();
    }
}
