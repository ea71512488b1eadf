//! Requests of a process that runs under a permit of the same gate already: they would wait for
//! themselves.
//!
//! `kgate run` tells its command in `KGATE_PERMITS` which permits it runs under, each with a key.
//! The node confirms a permit: it is held, the key is right, and by the kernel's word the process
//! that asks descends from the holder (`kgate_node`'s `serve/reentry.rs`). Where the node cannot
//! see that, over TCP, this process looks for its ancestors itself.
//!
//! Then nothing new is acquired: CMD takes the place of this process. The holder stops all its
//! descendants before the permit ends, so CMD needs no guard of its own.

use std::process::ExitCode;

use kgate_client::{Client, ErrorKind, Reentry};
use kgate_control::state::Slots;
use rustix::process::getpid;
use serde::{Deserialize, Serialize};

use crate::run::holder::BoundProcess;
use crate::run::keeper::{AcquireRequest, Weight};
use crate::run::options::{Nested, RunArgs};
use crate::run::wanted::WantedSlots;
use crate::run::{EarlyGuard, become_command, exit, messages};
use crate::status::{block_on, say};
use crate::{Failure, Outcome};

/// The variable with the permits that a command runs under, as JSON, the innermost last.
const PERMITS: &str = "KGATE_PERMITS";

/// A permit that a command runs under.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct OuterPermit {
    gate: String,
    /// The address of the node.
    node: String,
    key: String,
    /// The process that holds it.
    holder: BoundProcess,
}

/// The permits in the environment. What cannot be read is no permit.
fn permits() -> Vec<OuterPermit> {
    let text = std::env::var(PERMITS).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The variable for a command that this process, its holder, runs under a permit.
pub(crate) fn variable(gate: &str, node: &str, key: Option<&str>) -> Option<(String, String)> {
    let (gate, node, key) = (gate.to_owned(), node.to_owned(), key?.to_owned());
    let mut permits = permits();
    permits.push(OuterPermit { gate, node, key, holder: BoundProcess::of(getpid())? });
    Some((PERMITS.to_owned(), serde_json::to_string(&permits).ok()?))
}

/// Runs the command under a permit of an ancestor, or refuses the request. None if the request is
/// to be sent, as any other. The guard that was started early is not needed under a permit.
pub(crate) fn run(
    args: &RunArgs,
    request: &AcquireRequest,
    node: &str,
    guard: &mut Option<EarlyGuard>,
) -> Result<Option<ExitCode>, Failure> {
    let all = permits();
    let of_gate = |permit: &&OuterPermit| permit.gate == args.acquire.name && permit.node == node;
    let mut confirmed = Vec::new();
    for permit in all.iter().rev().filter(of_gate) {
        if let Some(reentry) = block_on(confirm(args, permit))? {
            confirmed.push((permit, reentry));
        }
    }
    let Some((permit, reentry)) = confirmed.first() else {
        return Ok(all.iter().filter(of_gate).find_map(lost));
    };
    let RunArgs { nested, .. } = args;
    // The holder of `kgate acquire` must be a process of its own.
    let nested = if args.detached { Nested::Wait } else { *nested };
    let name = &args.acquire.name;
    match nested {
        // A key is used under a permit of the process itself.
        Nested::Reuse if args.once.is_some() => Err(Failure::Usage(format!(
            "this process runs inside of gate `{name}` already, and --once needs a permit of its \
             own: use another gate, or pass --nested wait"
        ))),
        Nested::Reuse => {
            let is_innermost = all.last() == Some(*permit);
            reuse(args, request, permit, reentry, is_innermost, guard).map(Some)
        }
        Nested::Fail => {
            say(&format!(
                "this process runs inside of gate `{name}` already, by a permit of process {}",
                permit.holder.pid
            ));
            Ok(Some(ExitCode::from(args.acquire.conflict_exit_code)))
        }
        Nested::Wait => {
            let held = confirmed.iter().map(|(_, reentry)| slots(reentry)).sum();
            let advice =
                if args.detached { "acquire it outside" } else { "leave out --nested wait" };
            check_wait(name, held, weight(request, reentry), reentry.k, advice)?;
            say(&format!(
                "warning: ancestors of this process hold {held} of the {} of gate `{name}`: \
                 commands that wait like this inside of each other may wait for ever",
                count(reentry.k)
            ));
            Ok(None)
        }
    }
}

/// A request that waits for its own ancestors is refused.
fn check_wait(gate: &str, held: u32, weight: u32, k: u32, advice: &str) -> Result<(), Failure> {
    if held.saturating_add(weight) <= k {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "this request would wait for itself: of the {} of gate `{gate}` its ancestors hold {held}, \
         and it requests {weight}: {advice}, or an operator raises k: `kgate set {gate} -k {}`",
        count(k),
        held.saturating_add(weight)
    )))
}

/// `1 slot`, `2 slots`.
fn count(slots: u32) -> String {
    kgate_api::count(usize::try_from(slots).unwrap_or(usize::MAX), "slot")
}

fn slots(reentry: &Reentry) -> u32 {
    u32::try_from(reentry.slots.len()).unwrap_or(u32::MAX).max(1)
}

/// The number of slots that a request wants.
fn weight(request: &AcquireRequest, reentry: &Reentry) -> u32 {
    match request.weight {
        Weight::Slots(weight) => weight,
        Weight::All => reentry.k,
    }
}

/// Asks the node. None if this process does not run under the permit.
async fn confirm(args: &RunArgs, permit: &OuterPermit) -> Result<Option<Reentry>, Failure> {
    let address = args.acquire.credentials.at(&permit.node)?;
    match Client::reenter(&address, &permit.gate, &permit.key).await {
        Ok(reentry) => {
            Ok(Some(reentry).filter(|reentry| reentry.descends || permit.holder.is_ancestor()))
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::PermitNotFound | ErrorKind::PermissionDenied | ErrorKind::BadRequest
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The node does not confirm a permit, and its holder is an ancestor of this process: the permit
/// was lost, or the node was started again meanwhile. To wait could be to wait for the ancestor.
fn lost(permit: &OuterPermit) -> Option<ExitCode> {
    permit.holder.is_ancestor().then(|| {
        say(&format!(
            "process {}, an ancestor of this one, acquired gate `{}`, and the node does not \
             confirm it: the permit is lost, or the node was started again. Nothing was run",
            permit.holder.pid, permit.gate
        ));
        ExitCode::from(exit::LOST)
    })
}

/// The wanted slots, if the gate of a permit has other ones. What an expression gives is known to
/// the node alone; nothing new is requested of it here.
fn other_slots(wanted: &WantedSlots, reentry: &Reentry) -> Option<Slots> {
    let slots = match wanted {
        WantedSlots::Any | WantedSlots::Expression(_) => return None,
        WantedSlots::Number(k) => Slots::from(*k),
        WantedSlots::Names(names) => Slots::named(names.clone()),
    };
    let has_names = slots.source.names_of(&reentry.slots) == reentry.slot_names;
    let is_number = matches!(wanted, WantedSlots::Number(_));
    let is_same = slots.k == reentry.k && (is_number || has_names);
    (!is_same).then_some(slots)
}

/// The fence that the command around this one was told.
fn outer_fence() -> Option<u128> {
    u128::from_str_radix(&std::env::var("KGATE_FENCE").ok()?, 16).ok()
}

/// Becomes the command.
fn reuse(
    args: &RunArgs,
    request: &AcquireRequest,
    permit: &OuterPermit,
    reentry: &Reentry,
    is_innermost: bool,
    guard: &mut Option<EarlyGuard>,
) -> Outcome {
    let name = &args.acquire.name;
    if let Some(wanted) = other_slots(&request.slots, reentry) {
        let outer = Slots { k: reentry.k, ..Slots::named(reentry.slot_names.clone()) };
        say(&format!(
            "gate `{name}` has k = {}, and you say {wanted}; leave out {}, or an operator changes \
             it: `kgate set {name} {}`",
            reentry.k,
            wanted.flag(),
            outer.change_to(&wanted)
        ));
        return Ok(ExitCode::from(exit::K_CONFLICT));
    }
    if weight(request, reentry) > slots(reentry) {
        return Err(Failure::Usage(format!(
            "this process runs inside of gate `{name}` already, with {}, and requests {}: \
             request them outside, or pass --nested wait",
            count(slots(reentry)),
            weight(request, reentry)
        )));
    }
    if args.acquire.verbose {
        say(&format!(
            "running under the permit of gate {name} that process {} holds",
            permit.holder.pid
        ));
    }
    // A node that was started again does not know it; the outer command was told, if its permit is
    // the innermost one.
    let told = if is_innermost { outer_fence() } else { None };
    let (fence, node) = (reentry.fence.or(told).unwrap_or(0), reentry.node.to_string());
    let all = if reentry.slots.is_empty() { vec![0] } else { reentry.slots.clone() };
    let variables =
        messages::permit_variables(name, (&all, &reentry.slot_names), reentry.k, fence, &node);
    // The descriptor of the environment shows the deadline of the innermost permit.
    let without: &[&str] = if is_innermost { &[] } else { &["KGATE_DEADLINE_FD"] };
    guard.take().into_iter().for_each(EarlyGuard::dismiss);
    Ok(become_command(&args.words(), &variables, without))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that its own ancestors keep waiting is refused, exactly then.
    #[test]
    fn no_request_waits_for_itself() {
        for (held, weight, k, fits) in
            [(1, 1, 1, false), (1, 1, 2, true), (2, 1, 2, false), (1, 2, 3, true), (1, 3, 3, false)]
        {
            let done = check_wait("gpu", held, weight, k, "do not");
            assert_eq!(done.is_ok(), fits, "{held} {weight} {k}");
        }
    }
}
