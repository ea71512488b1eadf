//! Ghost state: what the property checkers must remember of a schedule and no process keeps.
//!
//! For an algorithm that excludes by permissions: the permissions that have arrived for the open
//! request of each process. Repaired protocols keep the same set themselves, so this adds no
//! states; a protocol as printed may have lost count, and then the ghost state distinguishes its
//! states. What a grant violates is remembered too, since it shows only at the grant. Algorithms of
//! other mechanisms have an empty ghost state.
//!
//! For an algorithm with numbered slots: the greatest fence of each slot. The holders of slots are
//! part of the clients' and processes' states.
//!
//! The order of entry needs no memory: at a grant, no live process may wait with an earlier stamp.

use kgate_core::{Carried, Fence, Input, Mechanism, Message, NodeId, Protocol, Setup, Stamp, Time};
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{EntryOrder, Permissions, SlotFences, StrictOrder, WithinK};

use crate::client;
use crate::model::SharedInput;

/// The ghost state of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    permissions: Option<Permissions>,
    /// The greatest fence of each slot, over all time.
    fences: Vec<Option<Fence>>,
    broken: Vec<&'static str>,
}

/// A grant of numbered slots, and the situation in which it happens.
#[derive(Clone, Copy, Debug)]
pub struct SlotGrant<'a> {
    /// The slots granted.
    pub slots: &'a [u32],
    /// The fence of the grant.
    pub fence: Option<Fence>,
    /// The weight of the request that it grants; none if there is no request.
    pub asked: Option<u32>,
    /// The slots in use by other live processes, one bit each.
    pub held: u32,
    /// The k of the granting process's last notification.
    pub known: u32,
    /// The stamps of other live processes that wait.
    pub waiting: &'a [Stamp],
}

/// A change of the ghost state by an input.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Delivered { from: NodeId, to: NodeId, carried: Carried },
    CrashNotified { node: NodeId, of: NodeId },
    Withdrawn(NodeId),
}

impl Ghost {
    /// The initial ghost state.
    pub fn new<P: Protocol>(setup: &Setup) -> Self {
        let checked = P::MECHANISM == Mechanism::Permissions;
        let permissions = checked.then(|| Permissions::new(setup.nodes, setup.k));
        Self { permissions, ..Self::default() }
    }

    /// Whether a grant has violated that property.
    pub fn has_broken(&self, property: &str) -> bool {
        self.broken.contains(&property)
    }

    /// What an input of `node` changes in the ghost state, if anything.
    pub(crate) fn change_by<P: Protocol>(node: NodeId, input: &SharedInput<P>) -> Option<Change> {
        if P::MECHANISM != Mechanism::Permissions {
            return None;
        }
        match input {
            Input::Deliver { from, message } => message
                .value
                .carried()
                .map(|carried| Change::Delivered { from: *from, to: node, carried }),
            Input::Crashed { node: of, .. } => Some(Change::CrashNotified { node, of: *of }),
            Input::Withdraw => Some(Change::Withdrawn(node)),
            // A grant has ended the request.
            Input::Release { .. }
            | Input::Acquire { .. }
            | Input::Resize(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Lease(_)
            | Input::Expire(_)
            | Input::Joined { .. } => None,
        }
    }

    /// An input is about to be handled.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Delivered { from, to, carried } => self.delivered(from, to, carried),
            Change::CrashNotified { node, of } => self.crash_notified(node, of),
            Change::Withdrawn(node) => self.withdrawn(node),
        }
    }

    /// A request with that stamp is broadcast.
    pub fn asked(&mut self, stamp: Option<Stamp>) {
        if let (Some(permissions), Some(stamp)) = (&mut self.permissions, stamp) {
            permissions.asked(stamp);
        }
    }

    /// A message arrives.
    pub fn delivered(&mut self, from: NodeId, to: NodeId, carried: Carried) {
        if let (Some(permissions), Carried::Permission { clock }) = (&mut self.permissions, carried)
        {
            permissions.delivered(from, to, clock);
        }
    }

    /// `node` is notified of a crash, or suspects `of` itself.
    pub fn crash_notified(&mut self, node: NodeId, of: NodeId) {
        if let Some(permissions) = &mut self.permissions {
            permissions.crash_notified(node, of);
        }
    }

    /// `node` is granted the request of that stamp, while other live processes wait with these.
    pub fn granted(
        &mut self,
        node: NodeId,
        stamp: Option<Stamp>,
        waiting: impl Iterator<Item = Stamp>,
        k: u32,
    ) {
        let Some(permissions) = &mut self.permissions else { return };
        let stamp = stamp.unwrap_or(Stamp { clock: 0, node });
        let counted = permissions.granted(stamp, Time::ZERO).is_none();
        let in_turn = k > 1 || EntryOrder::overtaken(stamp, waiting).is_none();
        self.check([(counted, Permissions::NAME), (in_turn, EntryOrder::NAME)]);
    }

    /// Numbered slots are granted.
    pub fn slots_granted(&mut self, grant: &SlotGrant<'_>) {
        let free = client::bits(grant.slots).is_some_and(|slots| slots & grant.held == 0);
        let mut grows = grant.fence.is_some();
        // A slot number without a bit is one that no process can know of.
        for slot in grant
            .slots
            .iter()
            .filter_map(|slot| usize::try_from(*slot).ok())
            .filter(|slot| *slot < 32)
        {
            if self.fences.len() <= slot {
                self.fences.resize(slot + 1, None);
            }
            grows &= grant.fence > self.fences[slot];
            self.fences[slot] = grant.fence.max(self.fences[slot]);
        }
        let overtaken = |fence| StrictOrder::overtaken(fence, grant.waiting.iter().copied());
        let granted = u32::try_from(grant.slots.len()).ok();
        self.check([
            (grant.asked.is_some() && grant.asked == granted, NOTHING_FROM_NOTHING),
            (free && grows, SlotFences::NAME),
            (grant.fence.and_then(overtaken).is_none(), StrictOrder::NAME),
            (WithinK::beyond(grant.slots, grant.known).is_none(), WithinK::NAME),
        ]);
    }

    /// Two live processes show the same slot as theirs.
    pub fn shown_twice(&mut self) {
        self.check([(false, SlotFences::NAME)]);
    }

    fn check<const N: usize>(&mut self, verdicts: [(bool, &'static str); N]) {
        for (holds, property) in verdicts {
            if !holds && !self.has_broken(property) {
                self.broken.push(property);
            }
        }
    }

    /// The request of `node` is withdrawn.
    pub fn withdrawn(&mut self, node: NodeId) {
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
