//! Durable permits: `kgate acquire --ttl`, `kgate acquire --policy hold`, `kgate renew` and
//! `kgate release`. The log holds them, and no process.
//!
//! Their token is `permit-ID-SECRET`. Its bearer can renew or release the permit at any node.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{ArgMatches, Args};
use kgate_client::{Client, DurableToken, Error, ErrorKind};
use serde_json::json;

use crate::run::exit;
use crate::run::keeper::Wait;
use crate::run::options::{AcquireArgs, ReleaseArgs};
use crate::status::{TargetArgs, address, block_on, report_error, say};
use crate::{Failure, Outcome, local};

/// Arguments of `kgate renew`.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// The token that `kgate acquire --ttl` printed
    #[arg(value_name = "TOKEN")]
    token: String,
    #[command(flatten)]
    target: TargetArgs,
}

/// `kgate acquire` of a durable permit.
pub(crate) fn acquire(args: &AcquireArgs, given: &ArgMatches) -> Outcome {
    let request = args.acquire.request(given)?;
    let node = match request.node.clone().map_or_else(local::node, Ok) {
        Ok(node) => node,
        Err(error) => {
            say(&format!("{error:#}"));
            return Ok(ExitCode::from(exit::UNAVAILABLE));
        }
    };
    let address = match request.credentials.at(&node) {
        Ok(address) => address,
        Err(error) => return Ok(report_error(&error)),
    };
    block_on(async {
        let acquired = async {
            let client = Client::connect(&address).await?;
            let mut gate = client.durable(&request.gate).weight(request.weight);
            if let Some(k) = request.k {
                gate = gate.k(k);
            }
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
            Ok::<_, Error>((client, acquired?))
        };
        let (client, permit) = match acquired.await {
            Ok((client, Some(permit))) => (client, permit),
            Ok((_, None)) => {
                say(&format!("no free slots at gate `{}`", request.gate));
                return Ok(ExitCode::from(args.acquire.conflict_exit_code));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::LimitExceeded) =>
            {
                say(&error.to_string());
                return Ok(ExitCode::from(args.acquire.conflict_exit_code));
            }
            Err(error) => return Ok(report_error(&error)),
        };
        let token = permit.token();
        if args.json {
            let ttl_ms = permit.ttl().map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
            let line = json!({
                "token": token.to_string(),
                "permit_id": token.permit_id,
                "gate": permit.gate(),
                "slots": permit.slots(),
                "k": permit.k(),
                "fence": permit.fence_hex(),
                "ttl_ms": ttl_ms,
                "node": permit.node(),
            });
            writeln!(stdout(), "{line}")?;
        } else {
            writeln!(stdout(), "{token}")?;
        }
        drop(permit);
        client.close().await;
        Ok(ExitCode::SUCCESS)
    })?
}

/// `kgate renew`.
pub(crate) fn renew(args: &RenewArgs) -> Outcome {
    let Ok(token) = args.token.parse::<DurableToken>() else {
        let text = "not a token of `kgate acquire --ttl`: other permits are renewed automatically";
        return Err(Failure::Usage(text.into()));
    };
    let address = match args.target.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    let renewed = block_on(async {
        let client = Client::connect(&address).await?;
        let renewed = client.renew(token).await;
        client.close().await;
        renewed
    })?;
    match renewed {
        Ok(ttl) => {
            let validity = ttl.map_or_else(
                || "it does not expire".to_owned(),
                |ttl| format!("it expires {ttl:?} after this request was sent"),
            );
            say(&format!("permit {} renewed: {validity}", token.permit_id));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(report_lost(&error)),
    }
}

/// `kgate release` of a durable permit.
pub(crate) fn release(token: DurableToken, args: &ReleaseArgs) -> Outcome {
    let address = match address(args.node.clone(), &args.credentials) {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    let released = block_on(async {
        let client = Client::connect(&address).await?;
        let released = client.release(token).await;
        client.close().await;
        released
    })?;
    match released {
        Ok(was_held) => {
            if !was_held {
                say(&format!(
                    "warning: permit {} was no longer held: it had expired, or was evicted or \
                     released before",
                    token.permit_id
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(report_lost(&error)),
    }
}

/// Prints the error, and returns its exit code: 121 for a lost permit.
fn report_lost(error: &Error) -> ExitCode {
    let code = report_error(error);
    if error.kind() == ErrorKind::PermitNotFound { ExitCode::from(exit::LOST) } else { code }
}
