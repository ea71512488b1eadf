//! `kgate status`, `kgate explain`, `kgate watch`: who holds what, who waits, and why.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::{Address, Admin, ClientStatus, Error, ErrorKind, Status};
use tokio_stream::StreamExt;

use crate::credentials::CredentialArgs;
use crate::run::exit::{K_CONFLICT, NO_QUORUM, OCCUPIED};
use crate::{Failure, Outcome, local};

/// No node, as for `kgate run`.
pub(crate) const NO_NODE: u8 = 122;

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// One gate; all of them, if none
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    asked: AskedNode,
    /// Print JSON
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    json: bool,
}

/// Which gate to explain.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The gate
    #[arg(value_name = "NAME", required_unless_present = "timing")]
    name: Option<String>,
    /// The numbers of the node's leases instead, and what they leave room for
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_TIMING", conflicts_with = "name")]
    timing: bool,
    #[command(flatten)]
    asked: AskedNode,
}

/// Which node is asked, and how one shows there who one is.
#[derive(Debug, Args)]
pub(crate) struct AskedNode {
    /// The node to ask: HOST:PORT, https://HOST:PORT or unix:PATH [default: the node of this
    /// machine or of this user]
    #[arg(long, value_name = "ADDR", env = "KGATE_OPT_NODE")]
    node: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl AskedNode {
    pub(crate) fn address(&self) -> Result<Address, ExitCode> {
        address(self.node.clone(), &self.credentials)
    }
}

/// The node that was named, or that of this machine or user.
pub(crate) fn address(
    node: Option<String>,
    credentials: &CredentialArgs,
) -> Result<Address, ExitCode> {
    let address = node.or_else(local::running).ok_or_else(|| {
        say(
            "no node runs on this machine for this user: name one with --node, or start something with kgate run",
        );
        ExitCode::from(NO_NODE)
    })?;
    credentials.at(&address).map_err(|error| said_no(&error))
}

pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "kgate: {text}");
}

/// Tells why it did not work, and which exit code that is.
pub(crate) fn said_no(error: &Error) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(match error.kind() {
        ErrorKind::Busy | ErrorKind::LimitExceeded | ErrorKind::TimedOut => OCCUPIED,
        ErrorKind::NoQuorum => NO_QUORUM,
        ErrorKind::Conflict => K_CONFLICT,
        ErrorKind::GateNotFound | ErrorKind::NodeNotFound | ErrorKind::PermitNotFound => 1,
        ErrorKind::InvalidAddress | ErrorKind::BadRequest | ErrorKind::TooLarge => 2,
        ErrorKind::Unreachable | ErrorKind::NodeGone => NO_NODE,
        _ => 125,
    })
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

pub(crate) fn status(args: &LookArgs) -> Outcome {
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    match block_on(Status::fetch(&address, args.name.as_deref()))? {
        Ok(reply) if args.name.is_some() && reply.gates().next().is_none() => {
            Ok(no_gate(args.name.as_deref()))
        }
        Ok(reply) => show(&reply, args).map(|()| ExitCode::SUCCESS),
        Err(error) => Ok(said_no(&error)),
    }
}

fn no_gate(name: Option<&str>) -> ExitCode {
    say(&format!("there is no gate `{}`: `kgate status` lists all", name.unwrap_or_default()));
    ExitCode::from(1)
}

pub(crate) fn explain(args: &ExplainArgs) -> Outcome {
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    if args.timing {
        let timing = block_on(async { Admin::connect(&address).await?.timing().await })?;
        return match timing {
            Ok(table) => {
                writeln!(stdout().lock(), "{}", table.trim_end())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Ok(said_no(&error)),
        };
    }
    match block_on(Status::fetch(&address, args.name.as_deref()))? {
        Ok(reply) => match reply.gates().next() {
            Some(gate) => {
                write!(stdout().lock(), "{}", gate.explain())?;
                Ok(ExitCode::SUCCESS)
            }
            None => Ok(no_gate(args.name.as_deref())),
        },
        Err(error) => Ok(said_no(&error)),
    }
}

pub(crate) fn watch(args: &LookArgs) -> Outcome {
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let replies = match Status::watch(&address, args.name.as_deref()).await {
            Ok(replies) => replies,
            Err(error) => return Ok(said_no(&error)),
        };
        let mut replies = std::pin::pin!(replies);
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(reply) => show(&reply, args)?,
                Err(error) => return Ok(said_no(&error)),
            }
        }
        Ok(ExitCode::SUCCESS)
    })?
}

fn show(reply: &Status, args: &LookArgs) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", reply.to_json())?;
        return Ok(out.flush()?);
    }
    for gate in reply.gates() {
        let (taken, waiting) = (gate.slots_in_use(), gate.waiting().len());
        let (name, k, protocol) = (gate.name(), gate.k(), gate.protocol());
        let closed = if k == 0 { " (closed)" } else { "" };
        let least = if reply.incomplete_nodes().is_empty() { "" } else { "at least " };
        writeln!(
            out,
            "{name}  k {k}{closed}  {least}{taken} taken  {least}{waiting} waiting  ({protocol})"
        )?;
        for holder in gate.holders() {
            let slots: Vec<String> = holder.slots().iter().map(u32::to_string).collect();
            let place =
                if slots.is_empty() { "holds".into() } else { format!("slot {}", slots.join(",")) };
            let fence = holder.fence_hex().unwrap_or("-");
            let cut = if holder.is_disconnected() { "  (connection cut)" } else { "" };
            writeln!(out, "  {place:<8} {}  fence {fence}{cut}", client(&holder))?;
        }
        for held in gate.durable_permits() {
            let slots: Vec<String> = held.slots().iter().map(u32::to_string).collect();
            let end = held
                .ttl_left()
                .map_or_else(|| "no end".to_owned(), |left| format!("{} s left", left.as_secs()));
            let place = format!("slot {}", slots.join(","));
            let (permit, holder, since, fence) =
                (held.permit_id(), held.holder(), held.age().as_secs(), held.fence_hex());
            writeln!(
                out,
                "  {place:<8} held by the log as permit {permit} for {holder}, {since} s, {end}  fence {fence}"
            )?;
        }
        for (place, waiter) in gate.waiting().enumerate() {
            writeln!(out, "  {:<8} {}", format!("queue {}", place + 1), client(&waiter))?;
        }
    }
    if reply.gates().next().is_none() {
        // Who watches one may be there before it.
        match &args.name {
            Some(name) => writeln!(out, "no gate {name} yet: `kgate status` lists all")?,
            None => writeln!(out, "no gates yet: kgate run NAME -k K -- CMD makes one")?,
        }
    }
    for (what, nodes) in
        [("not heard", reply.unreachable()), ("held for crashed", reply.declared_dead())]
    {
        if !nodes.is_empty() {
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            writeln!(out, "{what}: node {}", nodes.join(", "))?;
        }
    }
    for lease in reply.leases() {
        if let Some(reason) = lease.missing_reason() {
            writeln!(out, "node {} grants nothing now: {reason}", lease.node())?;
        }
    }
    Ok(out.flush()?)
}

fn client(client: &ClientStatus) -> String {
    let process = client.process();
    let since = kgate_api::ago(u64::try_from(client.age().as_nanos()).unwrap_or(u64::MAX));
    let who = match process.pid {
        0 => "an unknown process".to_owned(),
        pid => format!("pid {pid} {}@{}", process.user, process.host),
    };
    format!("node {}  {who}  {since}  {}", client.node(), process.command)
}
