//! One token: of each token there is one, in the newest epoch.
//!
//! A token is where a process holds it, in use or not, or on its way. Each hand-over makes it
//! newer, so an old copy is known: a message that was sent again may come after the token has gone
//! on, and is refused. So the checker asks, of those that are in the newest epoch: one process at
//! most holds it; what is on its way is not newer than what is held, nor as new unless it is a copy
//! of just that, sent to the holder; and the newest that are on their way all go to the same
//! process.
//!
//! Source: Raymond 1989 (TOCS), section 3: "exactly one node holds the privilege"; tree-token-2019
//! section V. R1 and R7 make two.
//!
//! Not checked: that there is one at all (a lost token shows as a deadlock); tokens of older
//! epochs, whose holder was held for lost and is fenced off; protocols without numbered tokens.

use std::collections::BTreeMap;

use kgate_core::{NodeId, Time, Token};

use crate::Violation;

/// Keeps who holds which tokens, and the newest ones that were sent.
#[derive(Clone, Debug, Default)]
pub struct OneToken {
    held: BTreeMap<NodeId, Vec<Token>>,
    /// What was sent last, by id. A message that is lost stays here until the token is newer; until
    /// then it is the token.
    sent: BTreeMap<u32, (Token, NodeId)>,
}

impl OneToken {
    /// The property's name.
    pub const NAME: &'static str = "one token per id";

    /// What is wrong at one moment: the token's number, and whom it concerns. `flying` tells to
    /// whom each goes.
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
        // The same once more, and not to the same: two.
        let other = last.filter(|&(last, whom)| last == token && whom != to)?;
        Some(violation(token.id, vec![other.1, to], now))
    }

    /// `node` holds these now, in use or not.
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

    /// `node` has crashed; what it held is on its stable storage, or lost.
    pub fn crashed(&mut self, node: NodeId) {
        self.held.remove(&node);
    }
}

/// Whom it concerns that there is more than one of a token, given where there are some: the token,
/// whether it is held, and by whom or on its way to whom.
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
    let text =
        format!("there are two of token {id}: {nodes:?} hold it, or it is on its way to them");
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

    /// A hand-over with a copy sent again, a crash, and a token made anew in a later epoch, are
    /// right.
    #[test]
    fn a_right_course() {
        let mut checker = OneToken::default();
        assert_eq!(checker.holds(A, vec![token(0, 1)], Time(1)), None);
        assert_eq!(checker.holds(A, vec![], Time(2)), None);
        assert_eq!(checker.sent(B, token(0, 2), Time(2)), None);
        assert_eq!(checker.sent(B, token(0, 2), Time(3)), None, "the same again");
        assert_eq!(checker.holds(B, vec![token(0, 2)], Time(4)), None);
        checker.crashed(B);
        assert_eq!(checker.holds(C, vec![token(1, 0)], Time(5)), None, "made anew");
        assert_eq!(
            checker.holds(A, vec![token(0, 2)], Time(6)),
            None,
            "of an old epoch: fenced off"
        );
    }

    /// The planted bugs: two hold it; one holds what it has sent (R1); one holds an old copy while
    /// the token is on its way (R7); the same is sent to two.
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
