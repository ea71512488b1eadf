//! `kgate protocols`.

use std::process::ExitCode;

use anyhow::Context;
use kgate_protocols::registry::ENTRIES;

use crate::Outcome;
use crate::cli::ProtocolsArgs;

pub(crate) fn run(args: &ProtocolsArgs) -> Outcome {
    if args.json {
        print_json()?;
    } else {
        print_text();
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json() -> anyhow::Result<()> {
    let rows: Vec<_> = ENTRIES
        .iter()
        .map(|entry| {
            let defects: Vec<_> = entry
                .published_defects()
                .map(|d| serde_json::json!({ "id": d.id, "place": d.place, "story": d.story }))
                .collect();
            serde_json::json!({
                "name": entry.name, "title": entry.title, "spread": entry.spread, "detector": entry.detector,
                "tolerates": entry.tolerates, "messages": entry.messages, "delays": entry.delays,
                "citation": entry.citation, "defects": defects,
            })
        })
        .collect();
    let object = serde_json::json!({ "protocols": rows });
    println!("{}", serde_json::to_string_pretty(&object).context("printing JSON")?);
    Ok(())
}

fn print_text() {
    for entry in ENTRIES {
        println!("{}", entry.name);
        println!("  {}", entry.title);
        println!(
            "  messages an entry  {}, and {} delays when nobody else asks",
            entry.messages, entry.delays
        );
        println!("  bears              {}", entry.tolerates);
        println!("  broadcast          {}", entry.spread);
        println!("  detector           {}", entry.detector.unwrap_or("none"));
        println!("  published          {}", entry.citation);
        for defect in entry.published_defects() {
            println!("  --as-printed {}    {}: {}", defect.id, defect.place, defect.story);
        }
        println!();
    }
    println!("Run one with: kgate sim --protocol NAME");
}
