//! The text output of a run.

use std::io::{self, Write};

use kgate_protocols::registry::Entry;
use kgate_sim::Report;
use kgate_sim::report::Distribution;

use super::options::{Requesters, SimArgs};

/// A page for a single run, a line for one of several runs.
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
        "seed {:<6} {:>7} grants  max in use {}  {:>8} messages  {}  {}",
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
    print_setting(to, args, entry, report)?;
    print_measurements(to, report)?;
    writeln!(to, "replay      {command}")
}

/// What was run, and what happened to its processes.
fn print_setting(
    to: &mut impl Write,
    args: &SimArgs,
    entry: &Entry,
    report: &Report,
) -> io::Result<()> {
    let who = match &args.load {
        Requesters::High => "all of them request".to_owned(),
        Requesters::Low => requesting(args.k),
        Requesters::First(count) => requesting(*count),
        Requesters::Only(nodes) => {
            let names: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("only {} request", names.join(", "))
        }
    };
    let often = match args.entries {
        None => "repeatedly".to_owned(),
        Some(1) => "once each".to_owned(),
        Some(times) => format!("{times} times each"),
    };
    writeln!(
        to,
        "{} processes share {} slots; {who}, {often}, for {} t.u.; each grant is held for {} t.u.",
        report.n, report.k, report.duration, args.hold
    )?;
    if let Some(warmup) = report.warmup {
        writeln!(to, "warm-up     checked but not measured until {warmup} t.u.")?;
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
        writeln!(to, "recoveries  {} crashes with recovery", report.recoveries)?;
    }
    if let Some(disturbed) = disturbed(report) {
        writeln!(to, "disturbed   {disturbed}")?;
    }
    if let Some(at) = report.stabilized_at {
        writeln!(
            to,
            "stabilized  at {at:.3} t.u.; since then at most {} slots in use",
            report.max_in_use
        )?;
    }
    Ok(())
}

fn print_measurements(to: &mut impl Write, report: &Report) -> io::Result<()> {
    writeln!(
        to,
        "granted     {} of {} requests{}",
        report.grants,
        report.requests,
        ended_otherwise(report)
    )?;
    writeln!(
        to,
        "in use      at most {} slots at once, {:.2} on average; {:.2} requests waiting on \
         average; {:.3} grants per t.u.",
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
        report.messages_per_grant.map(|per| format!(", {per:.1} per grant")).unwrap_or_default();
    writeln!(to, "messages    {}{per_grant}", report.messages.total)?;
    let kinds: Vec<String> =
        report.messages.by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    writeln!(to, "by kind     {} (the total excludes detector messages)", kinds.join(", "))?;
    let traffic = &report.traffic;
    writeln!(
        to,
        "traffic     a process sent {:.1} and received {:.1} messages on average; process {} most, \
         {} in all",
        traffic.sent_mean, traffic.received_mean, traffic.busiest, traffic.busiest_total
    )?;
    writeln!(to, "verdict     {}", verdict(report))?;
    writeln!(
        to,
        "simulated   {} events in {:.3} s, {:.1} million per second; hash {}",
        report.events,
        report.wall_seconds,
        report.events_per_second / 1e6,
        report.hash
    )
}

/// Requests that ended without a grant.
fn ended_otherwise(report: &Report) -> String {
    let counts = [(report.withdrawals, "withdrawn"), (report.refused, "too large after a resize")];
    let words = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!(", {count} {what}"));
    words.collect()
}

/// Pauses, partitions and message faults, if there were any.
fn disturbed(report: &Report) -> Option<String> {
    let counts = [
        (u64::from(report.pauses), "pauses"),
        (u64::from(report.partitions), "partitions"),
        (report.delayed, "messages delayed by partitions"),
        (report.lost, "messages lost"),
        (report.duplicated, "messages duplicated"),
    ];
    let words: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn requesting(count: u32) -> String {
    if count == 1 { "p0 requests".into() } else { format!("p0 .. p{} request", count - 1) }
}

/// The time from a crash until every live process knew of it.
fn detection(report: &Report) -> String {
    let known = match (report.detection.mean, report.detection.max) {
        (Some(mean), Some(max)) => {
            let open = match report.undetected {
                0 => String::new(),
                open => format!("; {open} crashes never"),
            };
            format!("known to all live processes after mean {mean:.3}  max {max:.3} t.u.{open}")
        }
        _ => "no crash became known to all live processes".into(),
    };
    let wrong = match report.false_suspicions {
        0 => String::new(),
        wrong => format!("; {wrong} wrong suspicions"),
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
        return format!("FAIL: violated: {}", properties[0]);
    }
    if report.requests == 0 {
        return "NOTHING SHOWN: no process requested a slot".into();
    }
    match report.unanswered {
        0 => {
            let since = if report.stabilized_at.is_some() { " after stabilization" } else { "" };
            let in_use = match report.resizes {
                0 => format!("never more than {} slots in use", report.k),
                _ => "never more slots in use than k at that time".into(),
            };
            format!("PASS: {in_use}{since}, every request of a live process served")
        }
        waiting => format!(
            "PASS: never more than {} slots in use; {waiting} live processes wait for ever, \
             because more processes crashed than this protocol tolerates",
            report.k
        ),
    }
}
