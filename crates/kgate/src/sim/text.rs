//! A run told to a person.

use std::io::{self, Write};

use kgate_protocols::registry::Entry;
use kgate_sim::Report;
use kgate_sim::report::Distribution;

use super::options::{Asking, SimArgs};

/// A page for one run, a line for one of several.
pub(crate) fn print(
    to: &mut impl Write,
    args: &SimArgs,
    entry: &Entry,
    report: &Report,
    command: &str,
) -> io::Result<()> {
    if args.runs > 1 {
        print_line(to, report)
    } else {
        print_page(to, args, entry, report, command)
    }
}

fn print_line(to: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(
        to,
        "seed {:<6} {:>7} grants  max inside {}  {:>8} messages  {}  {}",
        report.seed,
        report.grants,
        report.max_in_use,
        report.messages.total,
        report.hash,
        verdict(report)
    )
}

fn print_page(
    to: &mut impl Write,
    args: &SimArgs,
    entry: &Entry,
    report: &Report,
    command: &str,
) -> io::Result<()> {
    let who = match &args.load {
        Asking::High => "all of them ask".to_owned(),
        Asking::Low => asking(args.k),
        Asking::First(count) => asking(*count),
        Asking::Only(nodes) => {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("only {} ask", names.join(", "))
        }
    };
    let often = match args.entries {
        None => "again and again".to_owned(),
        Some(1) => "once each".to_owned(),
        Some(times) => format!("{times} times each"),
    };
    writeln!(
        to,
        "{} processes share {} units; {who}, {often}, for {} t.u., and hold a unit for {} t.u. each time",
        report.n, report.k, report.duration, args.hold
    )?;
    if let Some(warmup) = report.warmup {
        writeln!(to, "warm-up     what happens up to {warmup} is checked but not measured")?;
    }
    writeln!(to, "protocol    {}: {}", entry.name, entry.title)?;
    if let Some(id) = &report.as_printed {
        writeln!(to, "as printed  {id}: this published defect is switched on")?;
    }
    if report.crashes > 0 {
        writeln!(
            to,
            "crashes     {} ({} tolerates {})",
            report.crashes, entry.name, entry.tolerates
        )?;
        writeln!(to, "detection   {}", detection(report))?;
    }
    if report.recoveries > 0 {
        writeln!(to, "recoveries  {} times a process crashed and came back", report.recoveries)?;
    }
    if let Some(disturbed) = disturbed(report) {
        writeln!(to, "disturbed   {disturbed}")?;
    }
    if let Some(at) = report.stabilized_at {
        writeln!(
            to,
            "stabilized  at {at:.3} t.u.; since then at most {} inside",
            report.max_in_use
        )?;
    }
    writeln!(
        to,
        "granted     {} of {} requests{}",
        report.grants,
        report.requests,
        ended_otherwise(report)
    )?;
    writeln!(
        to,
        "inside      at most {} at once, {:.2} on average, while {:.2} waited; {:.3} grants a t.u.",
        report.max_in_use_overall,
        report.slots_in_use.mean,
        report.waiting_queue.mean,
        report.cs_bandwidth
    )?;
    writeln!(to, "obtaining   {}", times(&report.obtaining))?;
    writeln!(
        to,
        "            {} from the start of the broadcast",
        times(&report.obtaining_from_broadcast)
    )?;
    let per_grant =
        report.messages_per_grant.map(|per| format!(", {per:.1} a grant")).unwrap_or_default();
    writeln!(to, "messages    {}{per_grant}", report.messages.total)?;
    let kinds: Vec<String> =
        report.messages.by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    writeln!(to, "by kind     {} (detector messages are not in the sum above)", kinds.join(", "))?;
    writeln!(to, "verdict     {}", verdict(report))?;
    writeln!(
        to,
        "simulated   {} events in {:.3} s, {:.1} million a second; hash {}",
        report.events,
        report.wall_seconds,
        report.events_per_second / 1e6,
        report.hash
    )?;
    writeln!(to, "replay      {command}")
}

/// Requests that ended before they were granted.
fn ended_otherwise(report: &Report) -> String {
    let counts = [(report.withdrawals, "given up"), (report.refused, "too large after a resize")];
    let words = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!(", {count} {what}"));
    words.collect()
}

/// What befell processes and messages beside crashes, if anything did.
fn disturbed(report: &Report) -> Option<String> {
    let counts = [
        (u64::from(report.pauses), "pauses"),
        (u64::from(report.partitions), "partitions"),
        (report.delayed, "messages held up by them"),
        (report.lost, "messages lost"),
        (report.duplicated, "messages doubled"),
    ];
    let words: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn asking(count: u32) -> String {
    if count == 1 { "p0 asks".into() } else { format!("p0 .. p{} ask", count - 1) }
}

/// How long it took until every live process knew of a crash.
fn detection(report: &Report) -> String {
    let known = match (report.detection.mean, report.detection.max) {
        (Some(mean), Some(max)) => {
            let open = match report.undetected {
                0 => String::new(),
                open => format!("; {open} of them never"),
            };
            format!("known to all the living after mean {mean:.3}  max {max:.3} t.u.{open}")
        }
        _ => "no crash became known to all the living".into(),
    };
    let wrong = match report.false_suspicions {
        0 => String::new(),
        wrong => format!("; {wrong} suspicions were wrong"),
    };
    known + &wrong
}

fn times(of: &Distribution) -> String {
    match (of.mean, of.p50, of.p99, of.max) {
        (Some(mean), Some(p50), Some(p99), Some(max)) => {
            format!("mean {mean:.3}  p50 {p50:.3}  p99 {p99:.3}  max {max:.3} t.u.")
        }
        _ => "no request was granted".into(),
    }
}

fn verdict(report: &Report) -> String {
    if !report.violations.is_empty() {
        let properties: Vec<&str> =
            report.violations.iter().map(|violation| violation.property).collect();
        return format!("VIOLATED: {}", properties[0]);
    }
    if report.requests == 0 {
        return "nothing was asked, so nothing was shown".into();
    }
    match report.unanswered {
        0 => {
            let since =
                if report.stabilized_at.is_some() { " since it had stabilized" } else { "" };
            let inside = match report.resizes {
                0 => format!("never more than {} inside", report.k),
                _ => "never more units in use than there were".into(),
            };
            format!("correct: {inside}{since}, every request of a live process answered")
        }
        waiting => format!(
            "never more than {} inside; {waiting} of the living wait for ever, since more crashed than this protocol tolerates",
            report.k
        ),
    }
}
