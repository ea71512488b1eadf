//! Messages of `kgate run` to people, and the environment of CMD.

use std::time::Duration;

use super::exit;
use super::keeper::{AcquireRequest, Granted, ThirdKiller, Wait, Weight};

pub(crate) fn requesting(request: &AcquireRequest) -> String {
    let slots = match request.weight {
        Weight::Slots(1) => "1 slot".to_owned(),
        Weight::Slots(weight) => format!("{weight} slots"),
        Weight::All => "all slots".to_owned(),
    };
    let how = match request.wait {
        Wait::ForEver => String::new(),
        Wait::AtMost(span) => format!(", waiting at most {span:?}"),
        Wait::No => ", without waiting".to_owned(),
    };
    format!("requesting {slots} of gate {}{how}", request.gate)
}

pub(crate) fn granted(
    request: &AcquireRequest,
    granted: &Granted,
    took: Duration,
    command: &str,
) -> String {
    let what = if granted.slots.len() == 1 { "slot" } else { "slots" };
    format!(
        "acquired {what} {} of gate {} (k = {}) from node {} after {:.6} s, fence {:032x}; running \
         {command}",
        listed(&granted.slots),
        request.gate,
        granted.k,
        granted.node,
        took.as_secs_f64(),
        granted.fence
    )
}

/// Whether CMD is protected if front and guard are frozen together.
pub(crate) fn third_killer(third: &ThirdKiller) -> Option<String> {
    match third {
        ThirdKiller::Node => {
            Some("the node also ends the command at the deadline, if kgate run is frozen".into())
        }
        ThirdKiller::Absent(reason) => Some(format!(
            "the node cannot end the command, so nothing does while both processes of kgate run \
             are frozen: {reason}"
        )),
        ThirdKiller::NotNeeded => None,
    }
}

pub(crate) fn timed_out(request: &AcquireRequest) -> String {
    let span = match request.wait {
        Wait::AtMost(span) => format!("{span:?}"),
        Wait::ForEver | Wait::No => "the time limit".to_owned(),
    };
    format!(
        "timed out: no free slots at gate {} within {span}; wait longer with --wait, or see the \
         holders with `kgate status`",
        request.gate
    )
}

pub(crate) fn not_run(command: &str, errno: i32) -> (u8, String) {
    let error = std::io::Error::from_raw_os_error(errno);
    let code =
        if error.kind() == std::io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_RUN };
    (code, format!("cannot run {command}: {error}"))
}

/// The environment of CMD.
pub(crate) fn variables(request: &AcquireRequest, granted: &Granted) -> Vec<(String, String)> {
    let Granted { slots, slot_names, fence, k, node, .. } = granted;
    let mut variables = permit_variables(&request.gate, (slots, slot_names), *k, *fence, node);
    variables.extend(granted.variables.iter().cloned());
    variables
}

/// What CMD's environment says of its permit.
pub(crate) fn permit_variables(
    gate: &str,
    (slots, names): (&[u32], &[String]),
    k: u32,
    fence: u128,
    node: &str,
) -> Vec<(String, String)> {
    let lowest = slots.first().map(u32::to_string).unwrap_or_default();
    let pairs = [
        ("KGATE_GATE", gate.to_owned()),
        ("KGATE_SLOT", lowest),
        ("KGATE_SLOTS", listed(slots)),
        // Empty without names: those of a command around this one must not be seen.
        ("KGATE_SLOT_NAME", names.first().cloned().unwrap_or_default()),
        ("KGATE_SLOT_NAMES", names.join(",")),
        ("KGATE_K", k.to_string()),
        ("KGATE_FENCE", format!("{fence:032x}")),
        ("KGATE_NODE", node.to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn listed(slots: &[u32]) -> String {
    slots.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

pub(crate) fn leftovers(command: &str, count: usize) -> String {
    let what = if count == 1 { "a process".to_owned() } else { format!("{count} processes") };
    format!("{command} has ended and left {what} running: stopping, because the permit ends")
}
