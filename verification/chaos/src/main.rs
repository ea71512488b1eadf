//! The chaos suite, `cargo xtask chaos`: real nodes and clients in network namespaces of their own,
//! faults drawn from a seed, and checkers that do not trust any node.
//!
//! ```text
//! schedule (pure) --plan--> driver --cuts, signals--> network, nodes, workers
//!                                   --records--> oracle (pure) --verdict--> results
//! ```
//!
//! A seed determines the plan: the number of nodes, the gates, the faults and their times. The
//! processes run freely, so the same plan gives the same faults but not the same run. After the
//! last fault everything is healed, and every request must end. docs/internals/chaos.md is the
//! guide for users.

mod clock;
mod config;
mod driver;
mod job;
mod network;
mod nodes;
mod options;
mod oracle;
mod planted;
mod probe;
mod proxy;
mod reach;
mod record;
mod report;
mod resource;
mod results;
mod schedule;
mod tries;
mod witness;
mod worker;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use config::Mode;
use driver::{Driver, INTERRUPTED};
use job::Job;
use network::Network;
use nodes::{Clients, Nodes};
use options::Options;
use oracle::{Terms, Verdict};
use planted::Planted;
use proxy::Proxies;
use record::Writer;
use schedule::{Frame, Plan};
use witness::Witness;

/// Maximum time for an answer after the last fault.
const ANSWER: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kgate-chaos: `{}` failed: {error:#}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// The suite, the partition tries, or one of the processes that they start.
fn run(words: &[&str]) -> Result<()> {
    match words {
        ["suite", rest @ ..] => chaos(rest),
        ["partition-tries", rest @ ..] => tries::run(rest),
        ["worker", rest @ ..] => worker::main(rest),
        ["probe", rest @ ..] => probe::main(rest),
        ["proxy", rest @ ..] => proxy::main(rest),
        _ => bail!("start it as `cargo xtask chaos` or `cargo xtask partition-tries`"),
    }
}

/// `cargo xtask chaos`.
fn chaos(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let root = root()?;
    let kgate = build(&root)?;
    handle_signals()?;
    if !options.planted.is_empty() {
        return options
            .planted
            .iter()
            .try_for_each(|planted| run_planted(&options, &kgate, *planted));
    }
    suite(&root, &options, &kgate)
}

/// Runs the seeds that have no result yet.
fn suite(root: &Path, options: &Options, kgate: &Path) -> Result<()> {
    let pressure = results::cpu_pressure();
    if pressure > 40 {
        println!(
            "this machine is busy: processes waited for a processor for {pressure} % of the last \
             minute, so late answers mean little"
        );
    }
    let commit = results::commit(root)?;
    let mut wrong = Vec::new();
    for seed in options.seed..options.seed + options.seeds {
        if !options.again && results::is_done(&results::read(root)?, options, seed) {
            println!("seed {seed}: done before");
            continue;
        }
        let plan = Plan::draw(&frame(options, seed));
        report::announce(seed, &plan);
        let (folder, verdict) = one(options, kgate, seed, &plan, None)?;
        results::append(root, &results::Line::new(options, seed, &plan, &verdict, &commit))?;
        report::print_verdict(&verdict);
        if verdict.violations.is_empty() {
            folder.end(options.keep_logs);
        } else {
            report::print_violations(&folder.path, &verdict, &options.replay(seed))?;
            folder.end(true);
            wrong.push(seed);
        }
    }
    ensure!(
        wrong.is_empty(),
        "violations (at most k, fences, answers; see above) in the runs of the seeds {wrong:?}"
    );
    Ok(())
}

/// Runs with a planted bug; its checkers must catch it.
fn run_planted(options: &Options, kgate: &Path, planted: Planted) -> Result<()> {
    let mode = planted.mode(options.mode);
    let timing = if mode == Mode::CrashStop { config::Timing::CRASH_STOP } else { options.timing };
    let seconds = 3 + 7 * timing.lease_ms / 1000;
    let options = Options { mode, timing, seconds, ..options.clone() };
    println!("planted: {}", planted.name());
    let (folder, verdict) = one(&options, kgate, 1, &planted.plan(timing.lease_ms), Some(planted))?;
    report::print_verdict(&verdict);
    let caught: BTreeSet<&str> =
        verdict.violations.iter().map(|violation| violation.checker).collect();
    let missed: Vec<_> =
        planted.checkers().iter().filter(|checker| !caught.contains(**checker)).collect();
    folder.end(options.keep_logs || !missed.is_empty());
    ensure!(
        missed.is_empty(),
        "planted {}: not caught by {missed:?}, only by {caught:?}",
        planted.name()
    );
    println!("  caught by {}", caught.into_iter().collect::<Vec<_>>().join(", "));
    Ok(())
}

fn frame(options: &Options, seed: u64) -> Frame {
    let harmless = options.mode == Mode::CrashStop && options.faults.is_none();
    Frame {
        seed,
        seconds: options.seconds,
        kinds: options.kinds(),
        nodes: options.nodes,
        lease_ms: options.timing.lease_ms,
        silence_max_ms: harmless.then_some(config::CRASH_STOP_SILENCE_MS),
        clock_error_ppm: options.timing.clock_error_ppm,
    }
}

/// One run: start everything, disturb it, heal it, end it, check the records.
fn one(
    options: &Options,
    kgate: &Path,
    seed: u64,
    plan: &Plan,
    planted: Option<Planted>,
) -> Result<(Folder, Verdict)> {
    let folder = Folder::new(&format!("{seed}"))?;
    let run = &folder.path;
    let Options { timing, mode, .. } = options;
    let gates = plan.gates.clone();
    let (kgate, lease_ms, grace_ms) = (kgate.to_owned(), timing.lease_ms, timing.grace_ms);
    Job { seed, kgate: kgate.clone(), gates, lease_ms, grace_ms, planted }.write(run)?;
    resource::serve(run)?;
    let witness = Witness::start(run)?;
    // Dropped in reverse order: clients, nodes, and last the namespaces with the processes that
    // are left in them.
    let network = Network::new(plan.nodes)?;
    let proxies = Proxies::start(&network, plan, seed)?;
    let nodes = Nodes::start(run, &kgate, &network, plan, *mode, timing)?;
    let clients = Clients::start(run, &network, plan)?;
    let answer = if planted.is_some_and(Planted::leaves_unanswered) { ANSWER / 6 } else { ANSWER };
    let mut driver = Driver {
        run,
        plan,
        seconds: options.seconds,
        answer,
        // A client with a planted bug may block all others.
        first: if planted.is_some() { 1 } else { plan.nodes as usize },
        network: &network,
        proxies,
        nodes,
        clients,
        writer: Writer::open(run, "driver", 0)?,
        active: BTreeSet::new(),
        minority: Vec::new(),
        killed: BTreeSet::new(),
        stopped: Vec::new(),
    };
    let driven = driver.drive();
    drop(driver);
    drop(network);
    drop(witness);
    driven.with_context(|| format!("the run ended early; its records are in {}", run.display()))?;
    let leases = *mode == Mode::Lease || planted == Some(Planted::MinorityGrants);
    let terms = Terms {
        nodes: plan.nodes,
        gates: plan.gates.iter().cloned().collect(),
        minority_ns: leases.then(|| timing.lease_at_most_ns()),
        answer_ns: clock::nanoseconds(answer),
    };
    let verdict = oracle::check(&terms, &record::read_all(run)?)?;
    Ok((folder, verdict))
}

/// The folder of a run. A run that ends with a panic or an error leaves it behind.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("kgate-chaos-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path })
    }

    fn end(self, keep: bool) {
        if keep {
            println!("  logs and records: {}", self.path.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("chaos: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Makes Ctrl-C and SIGTERM end the run in order, so that the namespaces are removed. Child
/// processes do not inherit this.
fn handle_signals() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (Ok(mut int), Ok(mut term)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} }
            INTERRUPTED.store(true, Ordering::Relaxed);
        });
    });
    Ok(())
}

/// The program under test, beside which `kgate-full` is: `KGATE_CHAOS_BINARY` if it is set,
/// otherwise a build with the profile `chaos`.
fn build(root: &Path) -> Result<PathBuf> {
    match std::env::var_os("KGATE_CHAOS_BINARY") {
        Some(path) => Ok(path.into()),
        None => build_kgate(root),
    }
}

fn build_kgate(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--locked", "--package", "kgate", "--profile", "chaos"];
    println!("$ cargo {}", arguments.join(" "));
    let status = Command::new(cargo).current_dir(root).args(arguments).status();
    let status = status.context("cannot start cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    // This program is TARGET/debug/kgate-chaos, and the profile has a folder beside `debug`.
    let exe = std::env::current_exe()?;
    let target = exe.parent().and_then(Path::parent).context("no target directory")?;
    let kgate = target.join("chaos/kgate");
    ensure!(kgate.is_file(), "cargo built no {}", kgate.display());
    Ok(kgate)
}

/// The root of the workspace. Cargo names the package at run time, so that a moved checkout does
/// not use its old place.
fn root() -> Result<PathBuf> {
    let package =
        std::env::var_os("CARGO_MANIFEST_DIR").context("start it as `cargo xtask chaos`")?;
    let root = Path::new(&package).ancestors().nth(2);
    Ok(root.context("the package is not in verification/chaos")?.to_owned())
}
