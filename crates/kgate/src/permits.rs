//! `kgate acquire --ttl`, `kgate acquire --policy hold`, `kgate renew`, `kgate release`: permits
//! that the log holds, without any process that keeps them.
//!
//! Their token is `permit-ID-SECRET`: whoever has it renews the permit or gives it back, at any
//! node.

use std::io::{Write, stdout};
use std::process::ExitCode;

use clap::{ArgMatches, Args};
use kgate_client::{Kept, KeptWish, api, this_process};
use serde_json::json;

use crate::run::hold::new_token;
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

/// A permit by its token; none if it is a token of another kind.
pub(crate) fn read(token: &str) -> Option<(u64, u128)> {
    let (id, secret) = token.strip_prefix("permit-")?.split_once('-')?;
    let digits = secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((id.parse().ok()?, u128::from_str_radix(secret, 16).ok().filter(|_| digits)?))
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
    let secret = u128::from_str_radix(&new_token()?, 16).expect("32 hexadecimal digits");
    let kept = KeptWish {
        gate: wish.gate.clone(),
        permits: wish.permits,
        k: wish.k,
        hold: args.is_hold(),
        ttl: args.ttl,
        no_wait: wish.wait == Wait::No,
        process: this_process(),
        secret,
    };
    block_on(async {
        let asked = Kept::acquire(&address, &kept);
        let got = match wish.wait {
            Wait::AtMost(span) => match tokio::time::timeout(span, asked).await {
                Ok(got) => got,
                Err(_) => {
                    say(&format!("no permit of gate {} came free within {span:?}", wish.gate));
                    return Ok(ExitCode::from(args.ask.conflict_exit_code));
                }
            },
            Wait::ForEver | Wait::No => asked.await,
        };
        let Kept { permit, slots, fence, k, ttl, node } = match got {
            Ok(kept) => kept,
            Err(kgate_client::Error::Refused(refusal))
                if matches!(refusal.code, api::ErrorCode::Busy | api::ErrorCode::LimitExceeded) =>
            {
                say(&refusal.message);
                return Ok(ExitCode::from(args.ask.conflict_exit_code));
            }
            Err(error) => return Ok(said_no(&error)),
        };
        let token = format!("permit-{permit}-{secret:032x}");
        if args.json {
            let fence = format!("{fence:032x}");
            let (gate, ttl) =
                (&wish.gate, ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)));
            let line = json!({ "token": token, "permit_id": permit, "gate": gate, "slots": slots, "k": k, "fence": fence, "ttl_ms": ttl, "node": node });
            writeln!(stdout(), "{line}")?;
        } else {
            writeln!(stdout(), "{token}")?;
        }
        Ok(ExitCode::SUCCESS)
    })?
}

/// `kgate renew`.
pub(crate) fn renew(args: &RenewArgs) -> Outcome {
    let Some((permit, secret)) = read(&args.token) else {
        return Err(Failure::Usage(
            "that is no token of `kgate acquire --ttl`: others are renewed by themselves".into(),
        ));
    };
    let address = match args.asked.address() {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    match block_on(Kept::renew(&address, permit, secret))? {
        Ok(ttl) => {
            let incarnations = ttl.map_or_else(
                || "it has no end of its own".to_owned(),
                |ttl| format!("it is alive for {ttl:?} from when this was sent"),
            );
            say(&format!("permit {permit} is renewed: {incarnations}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(lost_or(&error)),
    }
}

/// `kgate release` of a permit that the log holds.
pub(crate) fn release((permit, secret): (u64, u128), args: &ReleaseArgs) -> Outcome {
    let address = match address(args.node.clone(), &args.credentials) {
        Ok(address) => address,
        Err(code) => return Ok(code),
    };
    match block_on(Kept::release(&address, permit, secret))? {
        Ok(was_held) => {
            if !was_held {
                say(&format!(
                    "warning: permit {permit} was not held any more: it had expired, been evicted or been given back before"
                ));
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(lost_or(&error)),
    }
}

/// 121, as for every permit that is lost.
fn lost_or(error: &kgate_client::Error) -> ExitCode {
    match error {
        kgate_client::Error::Refused(refusal)
            if matches!(
                refusal.code,
                api::ErrorCode::PermitNotFound | api::ErrorCode::SessionNotFound
            ) =>
        {
            say(&refusal.message);
            ExitCode::from(crate::run::exit::LOST)
        }
        kgate_client::Error::Refused(_)
        | kgate_client::Error::NoNode { .. }
        | kgate_client::Error::Address(_)
        | kgate_client::Error::TimedOut(_)
        | kgate_client::Error::Credentials(_) => said_no(error),
    }
}
