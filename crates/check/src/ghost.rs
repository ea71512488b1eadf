//! What checkers must remember of a schedule and no process keeps: ghost state.
//!
//! Of an algorithm that excludes by permissions: which permissions have arrived for the request
//! that is out at each process. Repaired protocols keep the same set themselves, so this adds no
//! states; one as printed may have lost count, and then the ghost tells its states apart. What a
//! grant has broken is remembered too, since it shows at the grant only. Algorithms of other means
//! have an empty ghost.
//!
//! Of an algorithm with numbered slots: the greatest fence of each slot. Who holds which slot
//! stands with the clients, and with the processes themselves.
//!
//! The order of entry needs no memory here: when one is granted, nobody alive may wait with an
//! earlier stamp.

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

/// A grant of numbered slots, and what is so at that moment.
#[derive(Clone, Copy, Debug)]
pub struct SlotGrant<'a> {
    /// Which slots.
    pub slots: &'a [u32],
    /// Under which fence.
    pub fence: Option<Fence>,
    /// For how many units the client has asked that goes in; none if nobody has.
    pub asked: Option<u32>,
    /// Slots that are in use by others that live, a bit each.
    pub held: u32,
    /// The k that the granting process was last told.
    pub known: u32,
    /// The stamps of others that live and wait.
    pub waiting: &'a [Stamp],
}

impl Ghost {
    /// At the start.
    pub fn new<P: Protocol>(setup: &Setup) -> Self {
        let checked = P::MECHANISM == Mechanism::Permissions;
        let permissions = checked.then(|| Permissions::new(setup.nodes, setup.k));
        Self { permissions, ..Self::default() }
    }

    /// Whether a grant has broken that property.
    pub fn has_broken(&self, property: &str) -> bool {
        self.broken.contains(&property)
    }

    /// Whether an input is anything to take note of.
    pub(crate) fn observes<P: Protocol>(input: &SharedInput<P>) -> bool {
        P::MECHANISM == Mechanism::Permissions
            && match input {
                Input::Deliver { message, .. } => message.value.carried().is_some(),
                Input::Crashed { .. } | Input::Withdraw => true,
                // A grant has ended the request.
                Input::Release { .. }
                | Input::Acquire { .. }
                | Input::Resize(_)
                | Input::Reserved(_)
                | Input::Lease(_)
                | Input::Expire(_)
                | Input::Joined { .. } => false,
            }
    }

    /// An input is about to be handed to `node`.
    pub(crate) fn input<P: Protocol>(&mut self, node: NodeId, input: &SharedInput<P>) {
        match input {
            Input::Deliver { from, message } => {
                self.delivered(*from, node, message.value.carried())
            }
            Input::Crashed { node: of, .. } => self.crash_notified(node, *of),
            Input::Withdraw => self.released(node),
            Input::Release { .. }
            | Input::Acquire { .. }
            | Input::Resize(_)
            | Input::Reserved(_)
            | Input::Lease(_)
            | Input::Expire(_)
            | Input::Joined { .. } => {}
        }
    }

    /// The request of that stamp leaves its process.
    pub fn asked(&mut self, stamp: Option<Stamp>) {
        if let (Some(permissions), Some(stamp)) = (&mut self.permissions, stamp) {
            permissions.asked(stamp);
        }
    }

    /// A message arrives.
    pub fn delivered(&mut self, from: NodeId, to: NodeId, cargo: Option<Carried>) {
        if let (Some(permissions), Some(Carried::Permission { clock })) =
            (&mut self.permissions, cargo)
        {
            permissions.delivered(from, to, clock);
        }
    }

    /// `node` learns of a crash, or holds `of` for crashed by itself.
    pub fn crash_notified(&mut self, node: NodeId, of: NodeId) {
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
        // A slot without a place among those in use is one that nobody could know of.
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

    /// Two processes that live show the same slot as theirs.
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
