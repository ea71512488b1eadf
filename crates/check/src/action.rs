//! The actions: everything that can happen next.

use std::fmt;
use std::sync::Arc;

use kgate_core::{GrantId, Message, NodeId, Protocol};
use kgate_spec::{Fate, Step};

use crate::state::{Hashed, Sent, State};

/// An action of the model.
#[derive(Clone, PartialEq, Eq)]
pub enum Action<M, T> {
    /// A client asks for a grant of this weight.
    Acquire(NodeId, u8),
    /// A waiting client withdraws.
    Withdraw(NodeId),
    /// A client releases that grant.
    Release(NodeId, GrantId),
    /// The message at that index of the messages in flight arrives, is lost or is duplicated.
    Message(usize, Fate, (NodeId, NodeId, M)),
    /// A timer expires.
    Expire(NodeId, T),
    /// A process crashes permanently.
    Crash(NodeId),
    /// A process crashes and will restart.
    Down(NodeId),
    /// A process that was down restarts.
    Restart(NodeId),
    /// A process is notified of the crash of a process, in that incarnation.
    NotifyCrash(NodeId, NodeId, u8),
    /// A process is notified of the return of a process, possibly its own.
    NotifyReturn(NodeId, NodeId),
    /// A process is notified of a new k.
    Resize(NodeId, u32),
}

/// The actions of a protocol.
pub type ActionOf<P> = Action<Sent<P>, <P as Protocol>::Timer>;

impl<M: fmt::Debug, T: fmt::Debug> fmt::Debug for Action<Arc<Hashed<M>>, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire(node, 1) => write!(f, "{node} requests"),
            Self::Acquire(node, weight) => write!(f, "{node} requests {weight}"),
            Self::Withdraw(node) => write!(f, "{node} withdraws"),
            Self::Release(node, _) => write!(f, "{node} releases"),
            Self::Message(_, fate, (from, to, message)) => {
                write!(f, "{from} -> {to}: {:?}", message.value)?;
                f.write_str(match fate {
                    Fate::Arrives => "",
                    Fate::Lost => " lost",
                    Fate::Duplicated => " duplicated",
                })
            }
            Self::Expire(node, timer) => write!(f, "{node}: {timer:?} expires"),
            Self::Crash(node) | Self::Down(node) => write!(f, "{node} crashes"),
            Self::Restart(node) => write!(f, "{node} recovers"),
            Self::NotifyCrash(node, of, _) => write!(f, "{node} learns that {of} crashed"),
            Self::NotifyReturn(node, of) => write!(f, "{node} learns that {of} recovered"),
            Self::Resize(node, k) => write!(f, "{node} learns that k is {k}"),
        }
    }
}

/// An action as a step of a schedule. `before` is the state in which it happens, with messages in
/// the order of sending.
pub fn step<P: Protocol>(before: &State<P>, action: &ActionOf<P>) -> Step {
    match action {
        Action::Acquire(node, weight) => Step::Acquire { node: *node, weight: u32::from(*weight) },
        Action::Withdraw(node) => Step::Withdraw(*node),
        Action::Release(node, grant) => {
            let earlier = before.clients[node.index()]
                .inside
                .iter()
                .filter(|held| held.grant < *grant)
                .count();
            match earlier {
                0 => Step::Release(*node),
                _ => Step::ReleaseOne { node: *node, which: earlier + 1 },
            }
        }
        Action::Message(place, fate, (from, to, message)) => {
            let earlier =
                before.in_flight[..*place].iter().filter(|other| other.channel() == (*from, *to));
            let alike = earlier.filter(|other| other.message.value.kind() == message.value.kind());
            let kind = P::Message::kind_name(message.value.kind()).to_owned();
            Step::Message { from: *from, to: *to, kind, which: 1 + alike.count(), fate: *fate }
        }
        Action::Expire(node, timer) => Step::Expire { node: *node, timer: format!("{timer:?}") },
        Action::Crash(node) | Action::Down(node) => Step::Crash(*node),
        Action::Restart(node) => Step::Restart(*node),
        Action::NotifyCrash(node, of, _) => Step::NotifyCrash { node: *node, of: *of },
        Action::NotifyReturn(node, of) => Step::NotifyReturn { node: *node, of: *of },
        Action::Resize(node, k) => Step::Resize { node: *node, k: *k },
    }
}
