//! Durable permits: `kgate acquire --ttl`, `kgate acquire --policy hold`, `kgate renew` and
//! `kgate release`. The log holds them, and no process.
//!
//! Their token is `permit-ID-SECRET`. Its bearer can renew or release the permit at any node.
//!
//! A node that binds permits to processes has no log: there a process holds the permit
//! (`run/hold.rs`), also one with a time to live.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{ArgMatches, Args};
use kgate_client::{Address, Client, DurablePermit, DurableToken, Error, ErrorKind};
use serde_json::json;

use crate::run::keeper::{AcquireRequest, Wait, Weight};
use crate::run::options::{AcquireArgs, ForPid, ReleaseArgs, UsageError};
use crate::run::{exit, hold};
use crate::status::{TargetArgs, address, block_on, say};
use crate::{Failure, Outcome};

/// Arguments of `kgate renew`.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The token that `kgate acquire --ttl` printed
    #[arg(value_name = "TOKEN")]
    token: String,
    #[command(flatten)]
    target: TargetArgs,
}

/// `kgate acquire`.
pub(crate) fn acquire(args: &AcquireArgs, given: &ArgMatches) -> Outcome {
    if !args.is_durable() {
        return Ok(hold::acquire(args, given)?);
    }
    let request = args.acquire.request(given)?;
    let Weight::Slots(weight) = request.weight else {
        return Err(UsageError::ExclusiveDurable.into());
    };
    let address = request.credentials.at(&crate::find_node(request.node.as_deref())?)?;
    if block_on(acquire_by_log(&address, args, &request, weight))? {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(hold::acquire(args, given)?)
}

/// Has the log hold the permit. False if the node binds permits to processes, and one is to hold
/// it.
async fn acquire_by_log(
    address: &Address,
    args: &AcquireArgs,
    request: &AcquireRequest,
    weight: u32,
) -> Result<bool, Failure> {
    let client = Client::connect(address).await?;
    if client.lease().length.is_none() && !args.is_hold() {
        client.close().await;
        return Ok(false);
    }
    if let Some(ForPid::Pid(_)) = args.for_pid {
        let text = "--for-pid binds the permit to a process, and with --ttl or --policy hold the \
                    log of the cluster holds it: leave one of them out";
        return Err(Failure::Usage(text.into()));
    }
    if !request.note.is_empty() {
        let text = "a durable permit carries no --reason and no --meta: leave them out";
        return Err(Failure::Usage(text.into()));
    }
    let mut gate = request.slots.apply_durable(client.durable(&request.gate)).weight(weight);
    if args.is_hold() {
        gate = gate.hold();
    }
    if let Some(ttl) = args.ttl {
        gate = gate.ttl(ttl);
    }
    let acquired = match request.wait {
        Wait::ForEver => gate.acquire().await.map(Some),
        Wait::AtMost(span) => gate.timeout(span).acquire().await.map(Some),
        Wait::No => gate.try_acquire().await,
    };
    let busy = |text| Failure::Exit(args.acquire.conflict_exit_code, text);
    let permit = match acquired {
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::LimitExceeded) => {
            return Err(busy(error.to_string()));
        }
        acquired => {
            acquired?.ok_or_else(|| busy(format!("no free slots at gate `{}`", request.gate)))?
        }
    };
    print_permit(&permit, args.json)?;
    drop(permit);
    client.close().await;
    Ok(true)
}

fn print_permit(permit: &DurablePermit, as_json: bool) -> Result<(), Failure> {
    let token = permit.token();
    if !as_json {
        return Ok(writeln!(stdout(), "{token}")?);
    }
    let ttl_ms = permit.ttl().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let line = json!({
        "token": token.to_string(),
        "permit_id": token.permit_id,
        "gate": permit.gate(),
        "slots": permit.slots(),
        "slot_names": permit.slot_names(),
        "k": permit.k(),
        "fence": permit.fence_hex(),
        "ttl_ms": ttl_ms,
        "node": permit.node(),
    });
    Ok(writeln!(stdout(), "{line}")?)
}

/// `kgate renew`.
pub(crate) fn renew(args: &RenewArgs) -> Outcome {
    let Ok(token) = args.token.parse::<DurableToken>() else {
        return Ok(hold::renew(&args.token)?);
    };
    let address = args.target.address()?;
    let ttl = block_on(async {
        let client = Client::connect(&address).await?;
        let renewed = client.renew(token).await;
        client.close().await;
        renewed.map_err(lost)
    })?;
    let validity = ttl.map_or_else(
        || "it does not expire".to_owned(),
        |ttl| format!("it expires {ttl:?} after this request was sent"),
    );
    say(&format!("permit {} renewed: {validity}", token.permit_id));
    Ok(ExitCode::SUCCESS)
}

/// `kgate release`.
pub(crate) fn release(args: &ReleaseArgs) -> Outcome {
    let Ok(token) = args.token.parse::<DurableToken>() else {
        return Ok(hold::release(args)?);
    };
    let address = address(&args.node, &args.credentials)?;
    let was_held = block_on(async {
        let client = Client::connect(&address).await?;
        let released = client.release(token).await;
        client.close().await;
        released.map_err(lost)
    })?;
    if !was_held {
        say(&format!(
            "warning: permit {} was no longer held: it had expired, or was evicted or released \
             before",
            token.permit_id
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The failure of a command for a permit: exit code 121 if the permit is lost.
fn lost(error: Error) -> Failure {
    if error.kind() == ErrorKind::PermitNotFound {
        return Failure::Exit(exit::LOST, error.to_string());
    }
    error.into()
}
