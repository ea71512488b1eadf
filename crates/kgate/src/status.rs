//! `kgate status` and `kgate explain`: the holders and waiting clients of gates.

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kgate_api::printable;
use kgate_client::{Address, Admin, ClientStatus, GateStatus, Status};

use crate::advice::advised;
use crate::credentials::CredentialArgs;
use crate::node_arg::NodeArg;
use crate::run::exit::{NO_SUCH_OBJECT, UNAVAILABLE};
use crate::run::wanted::gate_name;
use crate::runtime::runtime;
use crate::{Failure, Outcome, local};

/// Arguments of `kgate watch`, and of `kgate status` among others.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The gate [default: all gates]
    #[arg(value_name = "NAME", value_parser = gate_name)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `kgate status`.
#[derive(Debug, Args)]
pub(crate) struct StatusOnceArgs {
    #[command(flatten)]
    shown: StatusArgs,
    /// Print the names of the gates only, one per line
    #[arg(long, conflicts_with = "json")]
    names: bool,
}

/// Arguments of `kgate explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The gate
    #[arg(value_name = "NAME", required_unless_present = "timing", value_parser = gate_name)]
    name: Option<String>,
    /// Print the timing of the node's leases and its margins instead
    #[arg(long, conflicts_with = "name")]
    timing: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// The node to contact, and the credentials for it.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    node: NodeArg,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl TargetArgs {
    pub(crate) fn address(&self) -> Result<Address, Failure> {
        address(&self.node, &self.credentials)
    }

    /// The same; a node of this user is started if none runs.
    pub(crate) fn address_or_start(&self) -> Result<Address, Failure> {
        Ok(self.credentials.at(&crate::find_node(self.node.named())?)?)
    }
}

/// The named node, or the one of this machine or user.
pub(crate) fn address(node: &NodeArg, credentials: &CredentialArgs) -> Result<Address, Failure> {
    let address = local::running(node.named())
        .map_err(|error| Failure::Exit(UNAVAILABLE, format!("{error:#}")))?;
    Ok(credentials.at(&address)?)
}

/// Prints a message. What other parties have put into it reaches no terminal as it is.
pub(crate) fn say(text: &str) {
    let text = advised(text);
    let _ = writeln!(std::io::stderr(), "kgate: {}", kgate_api::printable_lines(&text));
}

pub(crate) fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime()?.block_on(future)
}

pub(crate) fn status(StatusOnceArgs { shown: args, names }: &StatusOnceArgs) -> Outcome {
    let reply = fetch(&args.target, args.name.as_deref())?;
    if let Some(name) = args.name.as_deref().filter(|_| reply.gates().next().is_none()) {
        return Err(no_gate(name));
    }
    if *names {
        let mut out = stdout().lock();
        for gate in reply.gates() {
            writeln!(out, "{}", printable(gate.name()))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    show(&reply, args)?;
    Ok(ExitCode::SUCCESS)
}

fn fetch(target: &TargetArgs, gate: Option<&str>) -> Result<Status, Failure> {
    let address = target.address()?;
    block_on(async { Ok(Status::fetch(&address, gate).await?) })
}

fn no_gate(name: &str) -> Failure {
    Failure::Exit(NO_SUCH_OBJECT, format!("there is no gate `{name}`: `kgate status` lists all"))
}

pub(crate) fn explain(args: &ExplainArgs) -> Outcome {
    if args.timing {
        let address = args.target.address()?;
        let table = block_on(async { Ok(Admin::connect(&address).await?.timing().await?) })?;
        writeln!(stdout().lock(), "{}", table.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.name.as_deref().expect("clap requires it without --timing");
    let reply = fetch(&args.target, Some(name))?;
    let gate = reply.gates().next().ok_or_else(|| no_gate(name))?;
    write!(stdout().lock(), "{}", gate.explain())?;
    Ok(ExitCode::SUCCESS)
}

fn show(reply: &Status, args: &StatusArgs) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", reply.to_json())?;
        return Ok(out.flush()?);
    }
    for line in lines(reply, args.name.as_deref(), Duration::ZERO) {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// The status as lines for people, `elapsed` after it was read. The lines are printable.
pub(crate) fn lines(reply: &Status, name: Option<&str>, elapsed: Duration) -> Vec<String> {
    let reply = reply.printable();
    let mut lines = Vec::new();
    for gate in reply.gates() {
        let at_least = if reply.incomplete_nodes().is_empty() { "" } else { "at least " };
        gate_lines(gate, at_least, elapsed, &mut lines);
    }
    if reply.gates().next().is_none() {
        // A watch may start before its gate exists.
        lines.push(match name {
            Some(name) => format!("no gate `{name}` yet: `kgate status` lists all"),
            None => "no gates yet: `kgate run NAME -k K CMD` creates one".to_owned(),
        });
    }
    if reply.omitted_gates() > 0 {
        lines.push(format!(
            "not listed, because the status would be too large: {} more gates (`kgate status \
             NAME`)",
            reply.omitted_gates()
        ));
    }
    for (state, nodes) in
        [("unreachable", reply.unreachable()), ("declared dead", reply.declared_dead())]
    {
        if !nodes.is_empty() {
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            lines.push(format!("{state}: node {}", nodes.join(", ")));
        }
    }
    for lease in reply.leases() {
        if let Some(reason) = lease.missing_reason() {
            lines.push(format!("node {} cannot grant: {reason}", lease.node()));
        }
    }
    lines
}

fn gate_lines(gate: GateStatus<'_>, at_least: &str, elapsed: Duration, lines: &mut Vec<String>) {
    let (taken, waiting) = (gate.slots_in_use(), gate.waiting_count());
    let (name, k, protocol) = (gate.name(), gate.k(), gate.protocol());
    let closed = if k == 0 { " (closed)" } else { "" };
    let origin = gate.k_origin();
    lines.push(format!(
        "{name}  k = {k}{origin}{closed}  {at_least}{taken} in use  {at_least}{waiting} waiting  \
         ({protocol})"
    ));
    for holder in gate.holders() {
        let slots: Vec<String> = holder.slots().iter().map(|slot| gate.slot_text(*slot)).collect();
        let place =
            if slots.is_empty() { "holds".into() } else { format!("slot {}", slots.join(",")) };
        let fence = holder.fence_hex().unwrap_or("-");
        let cut = if holder.is_disconnected() { "  (disconnected)" } else { "" };
        let guarded = if holder.is_guarded() { "  (guarded by its node)" } else { "" };
        let client = client(&holder, elapsed);
        lines.push(format!("  {place:<8} {client}  fence {fence}{guarded}{cut}"));
    }
    for held in gate.durable_permits() {
        let slots: Vec<String> = held.slots().iter().map(|slot| gate.slot_text(*slot)).collect();
        let left = |ttl: Duration| format!("ttl {} s", ttl.saturating_sub(elapsed).as_secs());
        let end = held.ttl_left().map_or_else(|| "no ttl".to_owned(), left);
        let place = format!("slot {}", slots.join(","));
        let age = (held.age() + elapsed).as_secs();
        let (permit, holder, fence) = (held.permit_id(), held.holder(), held.fence_hex());
        lines.push(format!(
            "  {place:<8} durable permit {permit} of {holder}  {age} s  {end}  fence {fence}"
        ));
    }
    for (place, waiter) in gate.waiting().enumerate() {
        let place = format!("queue {}", place + 1);
        lines.push(format!("  {place:<8} {}", client(&waiter, elapsed)));
    }
    if let Some(omitted) = gate.omitted() {
        lines.push(format!("  not listed, because the status would be too large: {omitted}"));
    }
}

fn client(client: &ClientStatus, elapsed: Duration) -> String {
    let process = client.process();
    let age = client.age() + elapsed;
    let age = kgate_api::ago(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    let description = match process.pid {
        0 => "an unknown process".to_owned(),
        pid => format!("pid {pid} {}@{}", process.user, process.host),
    };
    let command = process.command;
    let (node, session) = (client.node(), client.session_id());
    let note = client.note();
    let note = if note.is_empty() { note } else { format!("  says: {note}") };
    format!("node {node}  {description}  {age}  session {node}:{session}  {command}{note}")
}
