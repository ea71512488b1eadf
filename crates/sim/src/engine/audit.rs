//! The checkers that inspect what messages carry and what processes show of themselves.
//!
//! They cost a look at every message and, with tokens, at a process after every input; with slots,
//! at all processes after every grant. So it is decided once per run whether they are active
//! ([`Config::audited`](crate::Config)): always in small runs, in large ones on request. They never
//! change a run or its hash.

use kgate_core::{
    Carried, Fence, Mechanism, NodeId, Observation, Stamp, Time, Token, TransientFaults,
};
use kgate_spec::{EntryOrder, OneToken, Permissions, SlotFences, StrictOrder, Violation};

use crate::config::Config;

/// The checkers for a protocol's mechanism of exclusion.
pub(super) enum Audit {
    /// No checker, or the run is too large.
    None,
    /// For `Mechanism::Permissions`. The order of entry is promised for k = 1 only.
    Permissions { permissions: Permissions, order: Option<EntryOrder> },
    /// For `Mechanism::Tokens`.
    Tokens(OneToken),
    /// For `Mechanism::Slots`. With several lanes, each with an order of its own, no stamp is
    /// shown.
    Slots,
}

impl Audit {
    pub(super) fn new<M: TransientFaults>(config: &Config) -> Self {
        match M::MECHANISM {
            Mechanism::Permissions if config.audited() => Self::Permissions {
                permissions: Permissions::new(config.nodes, config.k),
                order: (config.k == 1).then(EntryOrder::default),
            },
            Mechanism::Tokens if config.audited() => Self::Tokens(OneToken::default()),
            Mechanism::Slots if config.audited() => Self::Slots,
            Mechanism::Permissions | Mechanism::Tokens | Mechanism::Slots | Mechanism::Other => {
                Self::None
            }
        }
    }

    /// Whether any checker is active.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        !matches!(self, Self::None)
    }

    pub(super) fn asked(&mut self, stamp: Option<Stamp>) {
        if let (Self::Permissions { permissions, .. }, Some(stamp)) = (self, stamp) {
            permissions.asked(stamp);
        }
    }

    pub(super) fn sent(
        &mut self,
        to: NodeId,
        carried: Option<Carried>,
        now: Time,
    ) -> Option<Violation> {
        match (self, carried) {
            (Self::Tokens(tokens), Some(Carried::Token(token))) => tokens.sent(to, token, now),
            (Self::Tokens(_), Some(Carried::Permission { .. }) | None)
            | (Self::Permissions { .. } | Self::Slots | Self::None, _) => None,
        }
    }

    pub(super) fn delivered(&mut self, from: NodeId, to: NodeId, carried: Option<Carried>) {
        if let (Self::Permissions { permissions, .. }, Some(Carried::Permission { clock })) =
            (self, carried)
        {
            permissions.delivered(from, to, clock);
        }
    }

    pub(super) fn crash_notified(&mut self, node: NodeId, crashed: NodeId) {
        if let Self::Permissions { permissions, .. } = self {
            permissions.crash_notified(node, crashed);
        }
    }

    /// The client of `node` withdraws.
    pub(super) fn withdrawn(&mut self, node: NodeId) {
        if let Self::Permissions { permissions, .. } = self {
            permissions.ended(node);
        }
    }

    /// A grant under the stamp that the process shows: these protocols grant no request without a
    /// stamp.
    pub(super) fn granted(
        &mut self,
        node: NodeId,
        stamp: Option<Stamp>,
        now: Time,
    ) -> [Option<Violation>; 2] {
        match self {
            Self::Permissions { permissions, order } => {
                let stamp = stamp.unwrap_or(Stamp { clock: 0, node });
                [
                    permissions.granted(stamp, now),
                    order.as_mut().and_then(|order| order.granted(stamp, now)),
                ]
            }
            Self::Tokens(_) | Self::Slots | Self::None => [None, None],
        }
    }

    /// A grant under that fence, and the observed states of all live processes after it.
    pub(super) fn granted_slots(
        &self,
        node: NodeId,
        fence: Option<Fence>,
        live: &[(NodeId, Observation)],
        now: Time,
    ) -> [Option<Violation>; 2] {
        if !matches!(self, Self::Slots) {
            return [None, None];
        }
        let waiting = live.iter().filter_map(|(_, shown)| shown.stamp);
        let overtaken = fence.and_then(|fence| StrictOrder::verdict(node, fence, waiting, now));
        let slots =
            live.iter().flat_map(|(node, shown)| shown.slots.iter().map(|slot| (*node, slot.0)));
        [overtaken, SlotFences::shown_twice(slots, now)]
    }

    /// Whether a process must be observed after every input.
    #[inline]
    pub(super) fn observes_inputs(&self) -> bool {
        matches!(self, Self::Tokens(_))
    }

    pub(super) fn holds(&mut self, node: NodeId, held: Vec<Token>, now: Time) -> Option<Violation> {
        match self {
            Self::Tokens(tokens) => tokens.holds(node, held, now),
            Self::Permissions { .. } | Self::Slots | Self::None => None,
        }
    }

    pub(super) fn crashed(&mut self, node: NodeId) {
        match self {
            Self::Permissions { permissions, .. } => permissions.crashed(node),
            Self::Tokens(tokens) => tokens.crashed(node),
            Self::Slots | Self::None => {}
        }
    }
}
