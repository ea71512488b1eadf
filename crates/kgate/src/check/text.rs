//! The text output of a search.

use std::io::{self, Write};

use kgate_check::{Finding, Outcome, Stopped};

/// Prints a search over schedules.
pub(super) fn print(to: &mut impl Write, found: &Outcome) -> io::Result<()> {
    writeln!(
        to,
        "{}: {} distinct states of {} generated, schedules of up to {} steps, {:.1} s",
        exhaustive(found),
        found.unique,
        found.states,
        found.depth.saturating_sub(1),
        found.seconds
    )?;
    print_properties(to, found)
}

/// Prints a search over configurations.
pub(super) fn print_rules(to: &mut impl Write, found: &Outcome, k: u32) -> io::Result<()> {
    write!(
        to,
        "{}: {} configurations, {} steps of all daemons",
        exhaustive(found),
        found.unique,
        found.states
    )?;
    if found.depth > 0 {
        write!(to, ", normal after {} rounds at most", found.depth)?;
    }
    if let Some(most) = found.inside_max {
        write!(to, ", up to {most} slots in use at once (k = {k})")?;
    }
    writeln!(to, ", {:.1} s", found.seconds)?;
    print_properties(to, found)
}

fn exhaustive(found: &Outcome) -> &'static str {
    match found.stopped {
        None => "exhaustive",
        Some(Stopped::Found) => "stopped at the first violation",
        Some(Stopped::States) => "not exhaustive, stopped by --max-states",
        Some(Stopped::Time) => "not exhaustive, stopped by --max-seconds",
        Some(Stopped::Memory) => "not exhaustive, stopped by --max-memory",
    }
}

fn print_properties(to: &mut impl Write, found: &Outcome) -> io::Result<()> {
    for finding in &found.properties {
        let note = finding.note.as_ref().map_or(String::new(), |note| format!("; {note}"));
        writeln!(to, "{:<45} {}{note}", finding.name, word(found, finding))?;
        for state in finding.from.iter().flatten() {
            writeln!(to, "       {state}")?;
        }
        let steps = finding.counterexample.iter().flatten();
        for (number, found) in (1..).zip(steps) {
            if finding.cycle == Some(number - 1) {
                writeln!(to, "       from here on, repeated for ever:")?;
            }
            let step = found.step.to_string();
            match &found.message {
                Some(message) => writeln!(to, "  {number:>3}  {step:<28} {message}")?,
                None => writeln!(to, "  {number:>3}  {step}")?,
            }
        }
    }
    Ok(())
}

/// The verdict on a property. An incomplete search cannot show that a state is never reached.
fn word(found: &Outcome, finding: &Finding) -> &'static str {
    match (finding.holds, finding.counterexample.is_some() || found.complete) {
        (true, _) if found.complete => "holds",
        (true, _) => "holds so far",
        (false, true) => "DOES NOT HOLD",
        (false, false) => "not seen so far",
    }
}
