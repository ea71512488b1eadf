//! What judges must remember of a schedule and no process keeps: ghost state.
//!
//! Of an algorithm that excludes by permissions: which permissions have arrived for the request that is out at each process. Repaired
//! protocols keep the same set themselves, so this adds no states; one as printed may have lost count, and then the ghost tells its
//! states apart. What a grant has broken is remembered too, since it shows at the grant only. Algorithms of other means have an empty ghost.
//!
//! The order of entry needs no memory here: when one is granted, nobody alive may wait with an earlier stamp.

use kgate_core::{Cargo, Input, InputOf, Means, Message, NodeId, Protocol, Setup, Stamp, Time};
use kgate_spec::{EntryOrder, Permissions};

/// The ghost state of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    permissions: Option<Permissions>,
    broken: Vec<&'static str>,
}

impl Ghost {
    /// At the start.
    pub fn new<P: Protocol>(setup: &Setup) -> Self {
        let judged = P::MEANS == Means::Permissions;
        Self { permissions: judged.then(|| Permissions::new(setup.nodes, setup.permits)), broken: Vec::new() }
    }

    /// Whether a grant has broken that property.
    pub fn has_broken(&self, property: &str) -> bool {
        self.broken.contains(&property)
    }

    /// Whether an input is anything to take note of.
    pub fn minds<P: Protocol>(input: &InputOf<P>) -> bool {
        P::MEANS == Means::Permissions
            && match input {
                Input::Deliver { message, .. } => message.cargo().is_some(),
                Input::Crashed(..) | Input::Withdraw => true,
                // A grant has ended the request.
                Input::Release { .. }
                | Input::Acquire { .. }
                | Input::Resize(_)
                | Input::Lease(_)
                | Input::Expire(_)
                | Input::Joined(..) => false,
            }
    }

    /// An input is about to be handed to `node`.
    pub fn input<P: Protocol>(&mut self, node: NodeId, input: &InputOf<P>) {
        match input {
            Input::Deliver { from, message } => self.delivered(*from, node, message.cargo()),
            Input::Crashed(of, _) => self.told(node, *of),
            Input::Withdraw => self.released(node),
            Input::Release { .. }
            | Input::Acquire { .. }
            | Input::Resize(_)
            | Input::Lease(_)
            | Input::Expire(_)
            | Input::Joined(..) => {}
        }
    }

    /// The request of that stamp leaves its process.
    pub fn asked(&mut self, stamp: Option<Stamp>) {
        if let (Some(permissions), Some(stamp)) = (&mut self.permissions, stamp) {
            permissions.asked(stamp);
        }
    }

    /// A message arrives.
    pub fn delivered(&mut self, from: NodeId, to: NodeId, cargo: Option<Cargo>) {
        if let (Some(permissions), Some(Cargo::Permission { clock })) = (&mut self.permissions, cargo) {
            permissions.delivered(from, to, clock);
        }
    }

    /// `node` learns of a crash, or holds `of` for crashed by itself.
    pub fn told(&mut self, node: NodeId, of: NodeId) {
        if let Some(permissions) = &mut self.permissions {
            permissions.told(node, of);
        }
    }

    /// `node` goes in with the request of that stamp, while others that live wait with these.
    pub fn granted(
        &mut self,
        node: NodeId,
        stamp: Option<Stamp>,
        waiting: impl Iterator<Item = Stamp>,
        permits: u32,
    ) {
        let Some(permissions) = &mut self.permissions else { return };
        let stamp = stamp.unwrap_or(Stamp { clock: 0, node });
        let counted = permissions.granted(stamp, Time::ZERO).is_none();
        let in_turn = permits > 1 || EntryOrder::overtaken(stamp, waiting).is_none();
        for (holds, property) in [(counted, Permissions::NAME), (in_turn, EntryOrder::NAME)] {
            if !holds && !self.has_broken(property) {
                self.broken.push(property);
            }
        }
    }

    /// `node` gives up.
    pub fn released(&mut self, node: NodeId) {
        if let Some(permissions) = &mut self.permissions {
            permissions.ended(node);
        }
    }

    /// `node` has crashed.
    pub fn crashed(&mut self, node: NodeId) {
        if let Some(permissions) = &mut self.permissions {
            permissions.crashed(node);
        }
    }
}
