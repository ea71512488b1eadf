//! The same algorithm after a permutation of the names.
//!
//! With one token, no process compares names: it uses the neighbours, the order of requests and the
//! side on which the token is. So a permutation that leaves the tree and its root unchanged turns a
//! run into another one. With several tokens, a process that may request in several directions
//! takes the smallest name; and the process that regenerates a lost token is chosen by name. Then a
//! permutation is refused.

use kgate_core::{Explorable, NodeId};

use super::message::TreeTokenMessage;
use super::{Durable, Place, TreeToken};

fn places(places: &[Place], names: &[NodeId]) -> Option<alloc::boxed::Box<[Place]>> {
    let renamed = |place: &Place| Place { towards: names[place.towards.index()], ..*place };
    (places.len() == 1).then(|| places.iter().map(renamed).collect())
}

impl Explorable for TreeToken {
    fn renamed(&self, names: &[NodeId]) -> Option<Self> {
        if !self.lost.is_empty() || !self.questions.is_empty() || self.as_printed.is_some() {
            return None;
        }
        let mut renamed = Self {
            me: names[self.me.index()],
            places: places(&self.places, names)?,
            queue: self.queue.iter().map(|node| names[node.index()]).collect(),
            ..self.clone()
        };
        for link in &mut renamed.links {
            link.node = names[link.node.index()];
        }
        renamed.links.sort_by_key(|link| link.node);
        Some(renamed)
    }

    fn stored_renamed(stored: &Durable, names: &[NodeId]) -> Option<Durable> {
        let places = places(&stored.places, names)?;
        stored.lost.is_empty().then(|| Durable { places, ..stored.clone() })
    }

    /// Messages name no process except the lost ones.
    fn message_renamed(message: &TreeTokenMessage, _names: &[NodeId]) -> Option<TreeTokenMessage> {
        use TreeTokenMessage::{Advise, Initialize, Request, Restart, Token};
        let lost = match message {
            Token { lost, .. } => Some(lost),
            Restart { statement, .. } | Advise { statement, .. } => Some(&statement.lost),
            Initialize | Request { .. } => None,
        };
        lost.is_none_or(|lost| lost.is_empty()).then(|| message.clone())
    }
}
