//! One token per id: of each token there is one, in the newest epoch.
//!
//! A token is at the process that holds it, in use or not, or in transit. Each hand-over increases
//! its version, so old copies are recognised: a retransmitted message may arrive after the token
//! has moved on, and is rejected. For the newest epoch the checker requires: at most one process
//! holds the token; a token in transit is not newer than the held one, and has the same version
//! only if it is a copy sent to the holder; and the newest tokens in transit all go to the same
//! process.
//!
//! Source: Raymond 1989 (TOCS), section 3: "exactly one node holds the privilege"; tree-token-2019
//! section V. R1 and R7 make two.
//!
//! Not checked: that a token exists (a lost token shows as a deadlock); tokens of older epochs,
//! whose holder was declared dead and is fenced off; protocols without numbered tokens.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time, Token};

use crate::Violation;

/// Keeps the holders of tokens, and the newest tokens that were sent.
#[derive(Clone, Debug, Default)]
pub struct OneToken {
    held: BTreeMap<NodeId, Vec<Token>>,
    /// The newest token sent, by id. A lost message stays here until a newer token appears; until
    /// then it is the token.
    sent: BTreeMap<u32, (Token, NodeId)>,
}

impl OneToken {
    /// The property's name.
    pub const NAME: &'static str = "one token per id";

    /// The violation in one state: the id of the token and the processes concerned. `flying` gives
    /// the receiver of each token in transit.
    pub fn doubled(
        held: impl Iterator<Item = (NodeId, Token)>,
        flying: impl Iterator<Item = (NodeId, Token)>,
    ) -> Option<(u32, Vec<NodeId>)> {
        let mut tokens: BTreeMap<u32, Vec<(Token, bool, NodeId)>> = BTreeMap::new();
        for (node, token) in held {
            tokens.entry(token.id).or_default().push((token, true, node));
        }
        for (node, token) in flying {
            tokens.entry(token.id).or_default().push((token, false, node));
        }
        tokens.into_iter().find_map(|(id, places)| concerned(places).map(|nodes| (id, nodes)))
    }

    /// A token is sent to `to`.
    pub fn sent(&mut self, to: NodeId, token: Token, now: Time) -> Option<Violation> {
        let last = self.sent.get(&token.id).copied();
        if last.is_none_or(|(last, _)| last < token) {
            self.sent.insert(token.id, (token, to));
        }
        // The same version sent to another process: there are two tokens.
        let other = last.filter(|&(last, whom)| last == token && whom != to)?;
        Some(violation(token.id, vec![other.1, to], now))
    }

    /// `node` holds these tokens now, in use or not.
    pub fn holds(&mut self, node: NodeId, tokens: Vec<Token>, now: Time) -> Option<Violation> {
        if self.held.get(&node).map_or(tokens.is_empty(), |before| *before == tokens) {
            return None;
        }
        self.held.insert(node, tokens);
        let held = self
            .held
            .iter()
            .flat_map(|(&node, tokens)| tokens.iter().map(move |&token| (node, token)));
        let flying = self.sent.values().map(|&(token, to)| (to, token));
        Self::doubled(held, flying).map(|(id, nodes)| violation(id, nodes, now))
    }

    /// `node` crashed; its tokens are on its stable storage, or lost.
    pub fn crashed(&mut self, node: NodeId) {
        self.held.remove(&node);
    }
}

/// The processes concerned if there is more than one token of an id. Each place is a token, whether
/// it is held, and its holder or receiver.
fn concerned(mut places: Vec<(Token, bool, NodeId)>) -> Option<Vec<NodeId>> {
    let epoch = places.iter().map(|place| place.0.epoch).max()?;
    places.retain(|place| place.0.epoch == epoch);
    let holders: Vec<(Token, NodeId)> =
        places.iter().filter(|place| place.1).map(|place| (place.0, place.2)).collect();
    let newest = places.iter().filter(|place| !place.1).map(|place| place.0).max();
    let flying: Vec<NodeId> = places
        .iter()
        .filter(|place| !place.1 && Some(place.0) == newest)
        .map(|place| place.2)
        .collect();
    let wrong = match (holders.as_slice(), newest) {
        ([] | [_], None) => false,
        ([], Some(_)) => flying.iter().any(|to| *to != flying[0]),
        ([(held, holder)], Some(newest)) => {
            newest > *held || newest == *held && flying.iter().any(|to| to != holder)
        }
        ([_, _, ..], _) => true,
    };
    wrong.then(|| holders.into_iter().map(|holder| holder.1).chain(flying).collect())
}

fn violation(id: u32, nodes: Vec<NodeId>, now: Time) -> Violation {
    let text = format!("token {id} exists twice: {nodes:?} hold it, or it is in transit to them");
    Violation { property: OneToken::NAME, at_ns: now, nodes, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(epoch: u32, version: u64) -> Token {
        Token { id: 3, epoch, version }
    }

    const A: NodeId = NodeId(0);
    const B: NodeId = NodeId(1);
    const C: NodeId = NodeId(2);

    /// A hand-over with a retransmitted copy, a crash, and a token regenerated in a later epoch
    /// violate nothing.
    #[test]
    fn a_correct_run() {
        let mut checker = OneToken::default();
        assert_eq!(checker.holds(A, vec![token(0, 1)], Time(1)), None);
        assert_eq!(checker.holds(A, vec![], Time(2)), None);
        assert_eq!(checker.sent(B, token(0, 2), Time(2)), None);
        assert_eq!(checker.sent(B, token(0, 2), Time(3)), None, "retransmitted");
        assert_eq!(checker.holds(B, vec![token(0, 2)], Time(4)), None);
        checker.crashed(B);
        assert_eq!(checker.holds(C, vec![token(1, 0)], Time(5)), None, "regenerated");
        assert_eq!(checker.holds(A, vec![token(0, 2)], Time(6)), None, "old epoch: fenced off");
    }

    /// Planted bugs: two holders; a process keeps a token that it has sent (R1); a process holds an
    /// old copy while the token is in transit (R7); the same version is sent to two processes.
    #[test]
    fn catches_a_second_token() {
        let mut two = OneToken::default();
        two.holds(A, vec![token(0, 4)], Time(1));
        assert_eq!(two.holds(B, vec![token(0, 6)], Time(2)).expect("two").nodes, [A, B]);
        let mut kept = OneToken::default();
        kept.sent(B, token(0, 5), Time(1));
        assert!(kept.holds(A, vec![token(0, 5)], Time(1)).is_some());
        let mut old = OneToken::default();
        old.sent(B, token(0, 5), Time(1));
        assert!(old.holds(C, vec![token(0, 4)], Time(1)).is_some());
        let mut split = OneToken::default();
        split.sent(B, token(0, 5), Time(1));
        assert!(split.sent(C, token(0, 5), Time(1)).is_some());
    }
}
