//! A run told to a person.

use kgate_protocols::registry::Entry;
use kgate_sim::Report;
use kgate_sim::report::Distribution;

use super::replay;
use crate::cli::{Asking, SimArgs};

/// A page for one run, a line for one of several.
pub(crate) fn print(args: &SimArgs, entry: &Entry, report: &Report, one_of_several: bool) {
    if one_of_several {
        print_line(report);
    } else {
        print_page(args, entry, report);
    }
}

fn print_line(report: &Report) {
    println!(
        "seed {:<6} {:>7} grants  max inside {}  {:>8} messages  {}  {}",
        report.seed,
        report.grants,
        report.max_inside,
        report.messages.total,
        report.hash,
        verdict(report)
    );
}

fn print_page(args: &SimArgs, entry: &Entry, report: &Report) {
    let who = match args.load {
        Asking::High => "all of them ask".to_owned(),
        Asking::Low => asking(args.slots),
        Asking::First(count) => asking(count),
    };
    println!(
        "{} processes share {} units; {who}, again and again, for {} t.u.",
        report.n, report.k, report.duration
    );
    println!("protocol    {}: {}", entry.name, entry.title);
    if let Some(id) = &report.as_printed {
        println!("as printed  {id}: this published defect is switched on");
    }
    if report.crashes > 0 {
        println!("crashes     {} ({} bears {})", report.crashes, entry.name, entry.tolerates);
    }
    println!("granted     {} of {} requests", report.grants, report.requests);
    println!("inside      at most {} at once", report.max_inside);
    println!("obtaining   {}", times(&report.obtaining));
    println!("            {} from the start of the broadcast", times(&report.obtaining_from_broadcast));
    let per_grant = report.messages_per_grant.map(|per| format!(", {per:.1} a grant")).unwrap_or_default();
    println!("messages    {}{per_grant}", report.messages.total);
    let kinds: Vec<String> =
        report.messages.by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!("by kind     {} (detector messages are not in the sum above)", kinds.join(", "));
    println!("verdict     {}", verdict(report));
    println!(
        "simulated   {} events in {:.3} s, {:.1} million a second; hash {}",
        report.events,
        report.wall_seconds,
        report.events_per_second / 1e6,
        report.hash
    );
    println!("replay      {}", replay::command(args, report.seed));
}

fn asking(count: u32) -> String {
    if count == 1 { "p0 asks".into() } else { format!("p0 .. p{} ask", count - 1) }
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
        let properties: Vec<&str> = report.violations.iter().map(|violation| violation.property).collect();
        return format!("VIOLATED: {}", properties[0]);
    }
    match report.unanswered {
        0 => {
            format!("correct: never more than {} inside, every request of a live process answered", report.k)
        }
        waiting => format!(
            "never more than {} inside; {waiting} processes wait for ever, since more crashed than this protocol bears",
            report.k
        ),
    }
}
