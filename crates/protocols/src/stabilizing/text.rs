//! A state in the paper's notation, as in `T=Tok S=p3 P=p0 L=1`; `-` for none.
//!
//! T is C, B, F, Tok, R, or the number of a token at the root; g0, g1, .. between two tokens.

use core::fmt;

use kgate_core::NodeId;

use super::state::{Phase, State};

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phase {
            Phase::Clean => f.write_str("T=C")?,
            Phase::Sending(token) => write!(f, "T={token}")?,
            Phase::Between(token) => write!(f, "T=g{token}")?,
            Phase::Ready => f.write_str("T=R")?,
            Phase::Broadcast => f.write_str("T=B")?,
            Phase::Feedback => f.write_str("T=F")?,
            Phase::Token => f.write_str("T=Tok")?,
        }
        for (message, node) in [("S", self.sent), ("P", self.parent)] {
            match node {
                Some(node) => write!(f, " {message}={node}")?,
                None => write!(f, " {message}=-")?,
            }
        }
        write!(f, " L={}", self.level)
    }
}

/// Parses a state; whether it fits a process is not checked here.
pub(super) fn parse(text: &str) -> Option<State> {
    let mut words = text.split_whitespace();
    let mut value = |message: &str| words.next()?.strip_prefix(message)?.strip_prefix('=');
    let state = State {
        phase: phase(value("T")?)?,
        sent: node(value("S")?)?,
        parent: node(value("P")?)?,
        level: value("L")?.parse().ok()?,
    };
    words.next().is_none().then_some(state)
}

fn phase(word: &str) -> Option<Phase> {
    Some(match word {
        "C" => Phase::Clean,
        "R" => Phase::Ready,
        "B" => Phase::Broadcast,
        "F" => Phase::Feedback,
        "Tok" => Phase::Token,
        _ => match word.strip_prefix('g') {
            Some(token) => Phase::Between(token.parse().ok()?),
            None => Phase::Sending(word.parse().ok()?),
        },
    })
}

fn node(word: &str) -> Option<Option<NodeId>> {
    if word == "-" {
        return Some(None);
    }
    word.strip_prefix('p')?.parse().ok().map(|number| Some(NodeId(number)))
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// A printed state parses as the same; a text that is no state does not parse.
    #[test]
    fn states_in_messages() {
        for text in [
            "T=C S=p3 P=p0 L=0",
            "T=0 S=p1 P=p0 L=0",
            "T=g1 S=p1 P=p0 L=0",
            "T=R S=p1 P=p0 L=0",
            "T=B S=- P=p2 L=4",
            "T=F S=- P=- L=1",
            "T=Tok S=p9 P=p0 L=1",
        ] {
            assert_eq!(parse(text).map(|state| state.to_string()).as_deref(), Some(text));
        }
        for text in [
            "",
            "T=C",
            "T=X S=- P=- L=1",
            "S=- T=C P=- L=1",
            "T=C S=3 P=- L=1",
            "T=C S=- P=- L=1 x",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
