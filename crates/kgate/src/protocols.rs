//! `kgate protocols`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use kgate_protocols::registry::{ENTRIES, Entry, LOG};
use serde_json::json;

use crate::{Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct ProtocolsArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &ProtocolsArgs) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    if args.json {
        print_json(&mut stdout)?
    } else {
        print_text(&mut stdout)?
    }
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(to: &mut impl Write) -> Result<(), Failure> {
    let rows: Vec<_> = ENTRIES
        .iter()
        .map(|entry| {
            let defects: Vec<_> = entry
                .published_defects()
                .map(|defect| {
                    json!({ "id": defect.id, "place": defect.place, "effect": defect.description })
                })
                .collect();
            json!({
                "name": entry.name,
                "title": entry.title,
                "spread": entry.broadcast,
                "detector": entry.detector,
                "tolerates": entry.tolerates,
                "tolerates_delay": entry.tolerates_delay,
                "tolerates_loss": entry.tolerates_loss,
                "tolerates_duplicates": entry.tolerates_duplicates,
                "messages": entry.messages,
                "delays": entry.delays,
                "citation": entry.citation,
                "defects": defects,
            })
        })
        .collect();
    let object = json!({ "protocols": rows });
    writeln!(to, "{}", serde_json::to_string_pretty(&object).context("printing JSON")?)?;
    Ok(())
}

fn print_text(to: &mut impl Write) -> io::Result<()> {
    for entry in ENTRIES {
        writeln!(to, "{}", entry.name)?;
        writeln!(to, "  {}", entry.title)?;
        writeln!(to, "  messages per entry {}", entry.messages)?;
        writeln!(to, "  delays             {} without contention", entry.delays)?;
        writeln!(to, "  tolerates          {}", entry.tolerates)?;
        writeln!(to, "  network faults     {}", network(entry))?;
        writeln!(to, "  broadcast          {}", entry.broadcast)?;
        writeln!(to, "  detector           {}", entry.detector.unwrap_or("none"))?;
        writeln!(to, "  published          {}", entry.citation)?;
        for defect in entry.published_defects() {
            writeln!(
                to,
                "  --as-printed {}    {}: {}",
                defect.id, defect.place, defect.description
            )?;
        }
        writeln!(to)?;
    }
    writeln!(to, "Run one with: kgate sim --protocol NAME")
}

/// The network faults that the protocol tolerates.
fn network(entry: &Entry) -> String {
    let delays = match (entry.tolerates_delay, entry.detector.is_some_and(|name| name != LOG)) {
        (true, false) => "pauses and partitions",
        (true, true) => "pauses and partitions (with --detector oracle=T)",
        (false, _) => "no pauses, no partitions",
    };
    let loss = if entry.tolerates_loss { "loss" } else { "no loss" };
    let duplicates = if entry.tolerates_duplicates { "duplicates" } else { "no duplicates" };
    format!("{delays}, {loss}, {duplicates}")
}
