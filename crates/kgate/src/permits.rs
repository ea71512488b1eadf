//! `kgate acquire --ttl`, `kgate acquire --policy hold`, `kgate renew`, `kgate release`: permits
//! that the log holds, without any process that keeps them.
//!
//! Their token is `permit-ID-SECRET`: whoever has it renews the permit or gives it back, at any
//! node.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{ArgMatches, Args};
use kgate_client::{Client, DurableToken, Error, ErrorKind};
use serde_json::json;

use crate::run::exit::LOST;
use crate::run::keeper::Wait;
use crate::run::options::{AcquireArgs, ReleaseArgs};
use crate::status::{AskedNode, address, block_on, said_no, say};
use crate::{Failure, Outcome, local};

/// `kgate renew TOKEN`.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    /// What `kgate acquire --ttl` printed
    #[arg(value_name = "TOKEN")]
    token: String,
    #[command(flatten)]
    asked: AskedNode,
}

/// `kgate acquire` of a permit that the log is to hold.
pub(crate) fn acquire(args: &AcquireArgs, given: &ArgMatches) -> Outcome {
    let wish = args.ask.wish(given).map_err(Failure::Usage)?;
    let node = match wish.node.clone().map_or_else(local::node, Ok) {
        Ok(node) => node,
        Err(text) => {
            say(&text);
            return Ok(ExitCode::from(crate::status::NO_NODE));
        }
    };
    let address = match wish.credentials.at(&node) {
        Ok(address) => address,
        Err(error) => return Ok(said_no(&error)),
    };
    block_on(async {
        let acquired = async {
            let client = Client::connect(&address).await?;
            let mut gate = client.durable(&wish.gate).weight(wish.permits);
            if let Some(k) = wish.k {
                gate = gate.k(k);
            }
            if args.is_hold() {
                gate = gate.hold();
            }
            if let Some(ttl) = args.ttl {
                gate = gate.ttl(ttl);
            }
            let acquired = match wish.wait {
                Wait::ForEver => gate.acquire().await.map(Some),
                Wait::AtMost(span) => gate.timeout(span).acquire().await.map(Some),
                Wait::No => gate.try_acquire().await,
            };
            Ok::<_, Error>((client, acquired?))
        };
        let (client, permit) = match acquired.await {
            Ok((client, Some(permit))) => (client, permit),
            Ok((_, None)) => {
                say(&format!("no permit of gate {} is free", wish.gate));
                return Ok(ExitCode::from(args.ask.conflict_exit_code));
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::LimitExceeded) =>
            {
                say(&error.to_string());
                return Ok(ExitCode::from(args.ask.conflict_exit_code));
            }
            Err(error) => return Ok(said_no(&error)),
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
        return Err(Failure::Usage(
            "that is no token of `kgate acquire --ttl`: others are renewed by themselves".into(),
        ));
    };
    let address = match args.asked.address() {
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
        Err(error) => Ok(lost_or(&error)),
    }
}

/// `kgate release` of a permit that the log holds.
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
                    "warning: permit {} was not held any more: it had expired, been evicted or been released before",
                    token.permit_id
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(lost_or(&error)),
    }
}

/// 121, as for every permit that is lost.
fn lost_or(error: &Error) -> ExitCode {
    let code = said_no(error);
    if error.kind() == ErrorKind::PermitNotFound { ExitCode::from(LOST) } else { code }
}
