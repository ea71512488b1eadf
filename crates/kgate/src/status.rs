//! `kgate status`, `kgate explain`, `kgate watch`: the holders and waiting clients of gates.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::Args;
use clap::builder::BoolishValueParser;
use kgate_client::{Address, Admin, ClientStatus, Error, ErrorKind, Status};
use tokio_stream::StreamExt;

use crate::credentials::CredentialArgs;
use crate::run::exit::{BUSY, FAILED, K_CONFLICT, NO_SUCH_OBJECT, UNAVAILABLE, USAGE};
use crate::{Failure, Outcome, local};

/// Arguments of `kgate status` and `kgate watch`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The gate [default: all gates]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    /// Print JSON
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    json: bool,
}

/// Arguments of `kgate explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The gate
    #[arg(value_name = "NAME", required_unless_present = "timing")]
    name: Option<String>,
    /// Print the timing of the node's leases and its margins instead
    #[arg(
        long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_TIMING",
        conflicts_with = "name"
    )]
    timing: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// The node to contact, and the credentials for it.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The node to contact: HOST:PORT, https://HOST:PORT or unix:PATH [default: the node of this
    /// machine or of this user]
    #[arg(long, value_name = "ADDR", env = "KGATE_OPT_NODE")]
    node: Option<String>,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl TargetArgs {
    pub(crate) fn address(&self) -> Result<Address, ExitCode> {
        address(self.node.clone(), &self.credentials)
    }
}

/// The named node, or the one of this machine or user. Otherwise prints the error.
pub(crate) fn address(
    node: Option<String>,
    credentials: &CredentialArgs,
) -> Result<Address, ExitCode> {
    let address = node.or_else(local::running).ok_or_else(|| {
        say("no node runs on this machine for this user: name one with --node, or start one with \
         kgate run");
        ExitCode::from(UNAVAILABLE)
    })?;
    credentials.at(&address).map_err(|error| report_error(&error))
}

pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "kgate: {text}");
}

/// Prints the error, and returns its exit code.
pub(crate) fn report_error(error: &Error) -> ExitCode {
    say(&error.to_string());
    ExitCode::from(match error.kind() {
        ErrorKind::Busy | ErrorKind::LimitExceeded | ErrorKind::TimedOut => BUSY,
        ErrorKind::NoQuorum => UNAVAILABLE,
        ErrorKind::Conflict => K_CONFLICT,
        ErrorKind::GateNotFound | ErrorKind::NodeNotFound | ErrorKind::PermitNotFound => {
            NO_SUCH_OBJECT
        }
        ErrorKind::InvalidAddress | ErrorKind::BadRequest | ErrorKind::TooLarge => USAGE,
        ErrorKind::Unreachable | ErrorKind::NodeGone => UNAVAILABLE,
        ErrorKind::Credentials
        | ErrorKind::SessionNotFound
        | ErrorKind::Unauthenticated
        | ErrorKind::PermissionDenied
        | ErrorKind::Protocol
        | _ => FAILED,
    })
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(future))
}

pub(crate) fn status(args: &StatusArgs) -> Outcome {
    let address = match args.target.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    match block_on(Status::fetch(&address, args.name.as_deref()))? {
        Ok(reply) if args.name.is_some() && reply.gates().next().is_none() => {
            Ok(no_gate(args.name.as_deref()))
        }
        Ok(reply) => show(&reply, args).map(|()| ExitCode::SUCCESS),
        Err(error) => Ok(report_error(&error)),
    }
}

fn no_gate(name: Option<&str>) -> ExitCode {
    say(&format!("there is no gate `{}`: `kgate status` lists all", name.unwrap_or_default()));
    ExitCode::from(NO_SUCH_OBJECT)
}

pub(crate) fn explain(args: &ExplainArgs) -> Outcome {
    let address = match args.target.address() {
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
            Err(error) => Ok(report_error(&error)),
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
        Err(error) => Ok(report_error(&error)),
    }
}

pub(crate) fn watch(args: &StatusArgs) -> Outcome {
    let address = match args.target.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    block_on(async {
        let replies = match Status::watch(&address, args.name.as_deref()).await {
            Ok(replies) => replies,
            Err(error) => return Ok(report_error(&error)),
        };
        let mut replies = std::pin::pin!(replies);
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(reply) => show(&reply, args)?,
                Err(error) => return Ok(report_error(&error)),
            }
        }
        Ok(ExitCode::SUCCESS)
    })?
}

fn show(reply: &Status, args: &StatusArgs) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", reply.to_json())?;
        return Ok(out.flush()?);
    }
    for gate in reply.gates() {
        let (taken, waiting) = (gate.slots_in_use(), gate.waiting().len());
        let (name, k, protocol) = (gate.name(), gate.k(), gate.protocol());
        let closed = if k == 0 { " (closed)" } else { "" };
        let at_least = if reply.incomplete_nodes().is_empty() { "" } else { "at least " };
        writeln!(
            out,
            "{name}  k = {k}{closed}  {at_least}{taken} in use  {at_least}{waiting} waiting  \
             ({protocol})"
        )?;
        for holder in gate.holders() {
            let slots: Vec<String> = holder.slots().iter().map(u32::to_string).collect();
            let place =
                if slots.is_empty() { "holds".into() } else { format!("slot {}", slots.join(",")) };
            let fence = holder.fence_hex().unwrap_or("-");
            let cut = if holder.is_disconnected() { "  (disconnected)" } else { "" };
            writeln!(out, "  {place:<8} {}  fence {fence}{cut}", client(&holder))?;
        }
        for held in gate.durable_permits() {
            let slots: Vec<String> = held.slots().iter().map(u32::to_string).collect();
            let end = held
                .ttl_left()
                .map_or_else(|| "no ttl".to_owned(), |left| format!("ttl {} s", left.as_secs()));
            let place = format!("slot {}", slots.join(","));
            let (permit, holder, since, fence) =
                (held.permit_id(), held.holder(), held.age().as_secs(), held.fence_hex());
            writeln!(
                out,
                "  {place:<8} durable permit {permit} of {holder}  {since} s  {end}  fence {fence}"
            )?;
        }
        for (place, waiter) in gate.waiting().enumerate() {
            writeln!(out, "  {:<8} {}", format!("queue {}", place + 1), client(&waiter))?;
        }
    }
    if reply.gates().next().is_none() {
        // A watch may start before its gate exists.
        match &args.name {
            Some(name) => writeln!(out, "no gate `{name}` yet: `kgate status` lists all")?,
            None => writeln!(out, "no gates yet: `kgate run NAME -k K -- CMD` creates one")?,
        }
    }
    for (state, nodes) in
        [("unreachable", reply.unreachable()), ("declared dead", reply.declared_dead())]
    {
        if !nodes.is_empty() {
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            writeln!(out, "{state}: node {}", nodes.join(", "))?;
        }
    }
    for lease in reply.leases() {
        if let Some(reason) = lease.missing_reason() {
            writeln!(out, "node {} cannot grant: {reason}", lease.node())?;
        }
    }
    Ok(out.flush()?)
}

fn client(client: &ClientStatus) -> String {
    let process = client.process();
    let since = kgate_api::ago(u64::try_from(client.age().as_nanos()).unwrap_or(u64::MAX));
    let description = match process.pid {
        0 => "an unknown process".to_owned(),
        pid => format!("pid {pid} {}@{}", process.user, process.host),
    };
    format!("node {}  {description}  {since}  {}", client.node(), process.command)
}
