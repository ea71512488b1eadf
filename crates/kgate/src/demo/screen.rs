//! The demo while it runs: a small table that is painted again in place, or plain lines where
//! nobody could see that.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use super::history::{History, Seat, Stand};

/// How a node fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Starting,
    Up,
    Killed,
    /// It has stopped, and nobody told it to.
    Stopped,
}

impl Health {
    fn word(self) -> (&'static str, &'static str) {
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
    /// Painted in place.
    Table { colour: bool },
    /// A line now and then.
    Lines,
    /// Nothing: the data alone counts.
    Silent,
}

/// Where a demo is shown.
#[derive(Debug)]
pub(crate) struct Screen {
    kind: Kind,
    /// How many lines of the table stand above the cursor.
    painted: usize,
    /// Grants at each node, as of the last look, and when that was.
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
        Self { kind, painted: 0, before: (vec![0; nodes], 0) }
    }

    /// How often it should be painted, in milliseconds.
    pub(crate) fn pace_ms(&self) -> u64 {
        match self.kind {
            Kind::Table { .. } => 250,
            Kind::Lines | Kind::Silent => 1000,
        }
    }

    /// Something has happened that everybody should read.
    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        if self.kind == Kind::Silent {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        if self.painted > 0 {
            // Over the table, which is painted anew below.
            write!(out, "\x1b[{}A\x1b[J", self.painted)?;
            self.painted = 0;
        }
        writeln!(out, "{text}")?;
        out.flush()
    }

    /// How it stands.
    pub(crate) fn paint(
        &mut self,
        history: &History,
        health: &[Health],
        title: &str,
    ) -> io::Result<()> {
        let (seats, grants) = history.look();
        let now = history.now();
        let (earlier, then) = std::mem::replace(&mut self.before, (grants.clone(), now));
        let rates: Vec<u64> = grants
            .iter()
            .zip(&earlier)
            .map(|(now_, before)| per_second(now_ - before, now - then))
            .collect();
        let Kind::Table { colour } = self.kind else {
            if self.kind == Kind::Lines {
                let line = summary(&seats, &grants, rates.iter().sum());
                return self.say(&format!("{title}  {line}"));
            }
            return Ok(());
        };
        let mut lines = vec![title.to_owned()];
        for (node, health) in health.iter().enumerate() {
            lines.push(row(node, *health, &seats, rates[node], colour));
        }
        lines.push(summary(&seats, &grants, rates.iter().sum()));
        let mut text = String::new();
        if self.painted > 0 {
            let _ = write!(text, "\x1b[{}A", self.painted);
        }
        for line in &lines {
            // Lines that are too long are cut by the terminal, not wrapped: the count of lines must
            // be right.
            let _ = write!(text, "\x1b[2K\x1b[?7l{line}\x1b[?7h\r\n");
        }
        self.painted = lines.len();
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn row(node: usize, health: Health, seats: &[Seat], rate: u64, colour: bool) -> String {
    let here: Vec<&Seat> = seats.iter().filter(|seat| seat.node == node).collect();
    let waiting = here.iter().filter(|seat| seat.stand == Stand::Waits).count();
    let inside: Vec<String> = here.iter().filter_map(|seat| holding(seat)).collect();
    let (word, code) = health.word();
    let word = format!("{word:<9}");
    let word = if colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word };
    let numbers = format!("{:>3} clients {waiting:>3} wait {rate:>6} grants/s", here.len());
    format!("  node {node:<3} {word}{numbers}   {}", inside.join("  "))
}

fn holding(seat: &Seat) -> Option<String> {
    let Stand::Inside(slots) = &seat.stand else { return None };
    let slots: Vec<String> = slots.iter().map(u32::to_string).collect();
    let client = seat.client;
    Some(if slots.is_empty() {
        format!("client {client} in")
    } else {
        format!("slot {}: client {client}", slots.join("+"))
    })
}

fn summary(seats: &[Seat], grants: &[u64], rate: u64) -> String {
    let inside = seats.iter().filter(|seat| matches!(seat.stand, Stand::Inside(_))).count();
    let waiting = seats.iter().filter(|seat| seat.stand == Stand::Waits).count();
    let all: u64 = grants.iter().sum();
    format!("inside {inside}  waiting {waiting}  grants {all}  ({rate}/s)")
}

fn per_second(count: u64, within_ns: u64) -> u64 {
    count.saturating_mul(1_000_000_000).checked_div(within_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row says who holds which slot and who waits, with colour and without.
    #[test]
    fn a_row_tells_who_holds_what() {
        let seat = |client, node, stand| {
            let history = History::new(2);
            let process = history.enrol(client, node);
            assert!(history.asks(process));
            if stand {
                assert!(history.is_in(process, &[1], None));
            }
            history.look().0.remove(0)
        };
        let seats = [seat(4, 0, true), seat(5, 0, false), seat(6, 1, false)];
        let plain = row(0, Health::Up, &seats, 12, false);
        assert_eq!(
            plain,
            "  node 0   up         2 clients   1 wait     12 grants/s   slot 1: client 4"
        );
        assert!(row(1, Health::Killed, &seats, 0, true).contains("\x1b[31mkilled"));
        assert_eq!(summary(&seats, &[7, 3], 12), "inside 1  waiting 2  grants 10  (12/s)");
    }

    /// Rates are of the time that really passed.
    #[test]
    fn rates() {
        assert_eq!((per_second(5, 250_000_000), per_second(5, 0)), (20, 0));
    }
}
