//! Prints a scenario in its canonical form: defaults are not written.

use std::fmt;

use super::options;
use super::{Channels, Down, Expect, Model, Scenario, Then};

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        comments(f, &self.description)?;
        self.header(f)?;
        writeln!(f)?;
        if !self.start.is_empty() {
            writeln!(f, "start")?;
            indented(f, &self.start)?;
        }
        for entry in &self.steps {
            comments(f, &entry.notes)?;
            writeln!(f, "{}", entry.act)?;
            indented(f, &entry.effects)?;
        }
        comments(f, &self.end_notes)?;
        writeln!(f, "end")?;
        indented(f, &self.end)
    }
}

impl Scenario {
    fn header(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "protocol {}", self.protocol)?;
        writeln!(f, "processes {}", self.processes)?;
        writeln!(f, "k {}", self.k)?;
        if self.model == Model::State {
            writeln!(f, "model state")?;
        }
        if let Some(graph) = &self.graph {
            writeln!(f, "graph {graph}")?;
        }
        if let Some(root) = self.root {
            writeln!(f, "root {root}")?;
        }
        if self.channels == Channels::Unordered {
            writeln!(f, "channels unordered")?;
        }
        if self.down == Down::Kept {
            writeln!(f, "down kept")?;
        }
        if let Some(tolerate) = self.tolerate {
            writeln!(f, "tolerate {tolerate}")?;
        }
        if self.refresh {
            writeln!(f, "refresh")?;
        }
        let options = options::words(&self.options);
        if !options.is_empty() {
            writeln!(f, "options {}", options.join(" "))?;
        }
        if let Some(id) = &self.as_printed {
            writeln!(f, "as-printed {id}")?;
        }
        for (node, state) in &self.states {
            writeln!(f, "state {node} {state}")?;
        }
        if self.then == Then::Stop {
            writeln!(f, "then stop")?;
        }
        match &self.expect {
            Expect::Correct => writeln!(f, "expect correct")?,
            Expect::Violated(property) => writeln!(f, "expect \"{property}\"")?,
        }
        if self.as_printed.is_some() && !self.repaired {
            writeln!(f, "repaired none")?;
        }
        Ok(())
    }
}

fn comments(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    for line in lines {
        if line.is_empty() { writeln!(f, "#")? } else { writeln!(f, "# {line}")? }
    }
    Ok(())
}

fn indented(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    lines.iter().try_for_each(|line| writeln!(f, "    {line}"))
}
