//! What `kgate run` tells people and CMD.

use std::time::Duration;

use super::exit;
use super::keeper::{Granted, Wait, Wish};

pub(crate) fn asking(wish: &Wish) -> String {
    let permits =
        if wish.permits == 1 { "a permit".to_owned() } else { format!("{} permits", wish.permits) };
    let how = match wish.wait {
        Wait::ForEver => String::new(),
        Wait::AtMost(span) => format!(", at most {span:?}"),
        Wait::No => ", without waiting".to_owned(),
    };
    format!("asking for {permits} of {}{how}", wish.gate)
}

pub(crate) fn granted(wish: &Wish, granted: &Granted, took: Duration, command: &str) -> String {
    let what = if granted.slots.len() == 1 { "slot" } else { "slots" };
    format!(
        "got {what} {} of {} (k = {}) from {} after {:.6} s, fence {:032x}; running {command}",
        listed(&granted.slots),
        wish.gate,
        granted.k,
        granted.node,
        took.as_secs_f64(),
        granted.fence
    )
}

pub(crate) fn wait_over(wish: &Wish) -> String {
    let span = match wish.wait {
        Wait::AtMost(span) => format!("{span:?}"),
        Wait::ForEver | Wait::No => "the time given".to_owned(),
    };
    format!(
        "no permit of {} within {span}; wait longer with --wait, or see who holds it with `kgate status`",
        wish.gate
    )
}

pub(crate) fn not_run(command: &str, errno: i32) -> (u8, String) {
    let error = std::io::Error::from_raw_os_error(errno);
    let code =
        if error.kind() == std::io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::NOT_RUN };
    (code, format!("cannot run {command}: {error}"))
}

/// The environment of CMD.
pub(crate) fn variables(wish: &Wish, granted: &Granted) -> Vec<(String, String)> {
    let lowest = granted.slots.first().map(u32::to_string).unwrap_or_default();
    let pairs = [
        ("KGATE_GATE", wish.gate.clone()),
        ("KGATE_SLOT", lowest),
        ("KGATE_SLOTS", listed(&granted.slots)),
        ("KGATE_K", granted.k.to_string()),
        ("KGATE_FENCE", format!("{:032x}", granted.fence)),
        ("KGATE_NODE", granted.node.clone()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn listed(slots: &[u32]) -> String {
    slots.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

pub(crate) fn left_behind(command: &str, count: usize) -> String {
    let what = if count == 1 { "a process".to_owned() } else { format!("{count} processes") };
    format!("{command} has ended and left {what} running; stopped now, since the permit ends here")
}
