//! The display of a running demo: a table redrawn in place, or plain lines without a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use super::history::{ClientState, History, Phase};

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Starting,
    Up,
    Killed,
    /// It stopped by itself.
    Stopped,
}

impl Health {
    fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Starting => ("starting", "33"),
            Self::Up => ("up", "32"),
            Self::Killed => ("killed", "31"),
            Self::Stopped => ("STOPPED", "1;31"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Redrawn in place.
    Table { colour: bool },
    /// A line per second.
    Lines,
    /// No output: only the JSON report counts.
    Silent,
}

/// The display of a demo.
#[derive(Debug)]
pub(crate) struct Screen {
    kind: Kind,
    /// Number of table lines above the cursor.
    lines: usize,
    /// Grants at each node at the last redraw, and its time.
    before: (Vec<u64>, u64),
}

impl Screen {
    pub(crate) fn new(silent: bool, nodes: usize) -> Self {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let kind = match (silent, io::stdout().is_terminal()) {
            (true, _) => Kind::Silent,
            (false, true) => Kind::Table { colour },
            (false, false) => Kind::Lines,
        };
        Self { kind, lines: 0, before: (vec![0; nodes], 0) }
    }

    /// Interval of redraws, in milliseconds.
    pub(crate) fn pace_ms(&self) -> u64 {
        match self.kind {
            Kind::Table { .. } => 250,
            Kind::Lines | Kind::Silent => 1000,
        }
    }

    /// Prints a line.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        if self.kind == Kind::Silent {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if self.lines > 0 {
            // Replace the table, which is redrawn below.
            write!(out, "\x1b[{}A\x1b[J", self.lines)?;
            self.lines = 0;
        }
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// Redraws the state.
    pub(crate) fn draw(
        &mut self,
        history: &History,
        health: &[Health],
        title: &str,
    ) -> io::Result<()> {
        let (clients, grants) = history.snapshot();
        let now = history.now();
        let (earlier, then) = std::mem::replace(&mut self.before, (grants.clone(), now));
        let rates: Vec<u64> = grants
            .iter()
            .zip(&earlier)
            .map(|(now_, before)| per_second(now_ - before, now - then))
            .collect();
        let Kind::Table { colour } = self.kind else {
            if self.kind == Kind::Lines {
                let line = summary(&clients, &grants, rates.iter().sum());
                return self.print(&format!("{title}  {line}"));
            }
            return Ok(());
        };
        let mut lines = vec![title.to_owned()];
        for (node, health) in health.iter().enumerate() {
            lines.push(row(node, *health, &clients, rates[node], colour));
        }
        lines.push(summary(&clients, &grants, rates.iter().sum()));
        let mut text = String::new();
        if self.lines > 0 {
            let _ = write!(text, "\x1b[{}A", self.lines);
        }
        for line in &lines {
            // The terminal truncates long lines instead of wrapping them: the number of lines must
            // be right.
            let _ = write!(text, "\x1b[2K\x1b[?7l{line}\x1b[?7h\r\n");
        }
        self.lines = lines.len();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn row(node: usize, health: Health, clients: &[ClientState], rate: u64, colour: bool) -> String {
    let here: Vec<&ClientState> = clients.iter().filter(|client| client.node == node).collect();
    let waiting = here.iter().filter(|client| client.phase == Phase::Waiting).count();
    let held: Vec<String> = here.iter().filter_map(|client| holding(client)).collect();
    let (label, code) = health.label();
    let label = format!("{label:<9}");
    let label = if colour { format!("\x1b[{code}m{label}\x1b[0m") } else { label };
    let numbers = format!("{:>3} clients {waiting:>3} waiting {rate:>6} grants/s", here.len());
    format!("  node {node:<3} {label}{numbers}   {}", held.join("  "))
}

fn holding(state: &ClientState) -> Option<String> {
    let Phase::Holding(slots) = &state.phase else { return None };
    let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
    let client = state.client;
    Some(if slots.is_empty() {
        format!("client {client} holds")
    } else {
        format!("slot {}: client {client}", slots.join("+"))
    })
}

fn summary(clients: &[ClientState], grants: &[u64], rate: u64) -> String {
    let holding = clients.iter().filter(|client| matches!(client.phase, Phase::Holding(_))).count();
    let waiting = clients.iter().filter(|client| client.phase == Phase::Waiting).count();
    let all: u64 = grants.iter().sum();
    format!("holding {holding}  waiting {waiting}  grants {all}  ({rate}/s)")
}

fn per_second(count: u64, within_ns: u64) -> u64 {
    count.saturating_mul(1_000_000_000).checked_div(within_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row shows holders with their slots and the number of waiting clients, with colour and
    /// without.
    #[test]
    fn a_row_shows_holders() {
        let state = |client, node, holds| {
            let history = History::new(2);
            let process = history.register(client, node);
            assert!(history.request(process));
            if holds {
                assert!(history.granted(process, &[1], None));
            }
            history.snapshot().0.remove(0)
        };
        let clients = [state(4, 0, true), state(5, 0, false), state(6, 1, false)];
        let plain = row(0, Health::Up, &clients, 12, false);
        assert_eq!(
            plain,
            "  node 0   up         2 clients   1 waiting     12 grants/s   slot 1: client 4"
        );
        assert!(row(1, Health::Killed, &clients, 0, true).contains("\x1b[31mkilled"));
        assert_eq!(summary(&clients, &[7, 3], 12), "holding 1  waiting 2  grants 10  (12/s)");
    }

    /// Rates are per second of elapsed time.
    #[test]
    fn rates() {
        assert_eq!((per_second(5, 250_000_000), per_second(5, 0)), (20, 0));
    }
}
