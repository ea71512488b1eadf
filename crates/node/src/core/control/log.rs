//! What this node knows of the agreed log, and what it has proposed to it.
//!
//! The state is a copy: the log's own task applies entries as they commit, and the core sees each
//! of them when its turn comes among the other inputs. Without a log all of this is empty, so code
//! that reads it need not ask for the failure model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kgate_control::state::{ClusterState, ForcedEviction, PermitId, Rejected, SecretHash};
use kgate_core::{Directory, Incarnation, NodeId, Time};

use super::barrier::Lapses;
use super::gates::Purpose;
use crate::core::RequestKey;

/// The agreed log, as far as it was applied here.
pub(in crate::core) struct Log {
    /// This node, and the incarnation in which it takes part.
    pub(super) me: NodeId,
    pub(in crate::core) incarnation: Incarnation,
    pub(in crate::core) state: ClusterState,
    /// The entry that added each member's incarnation: the view that it began. The directory has
    /// that of the latest incarnation alone, and gates must be told which one ended.
    pub(in crate::core) incarnations: BTreeMap<NodeId, u64>,
    /// The members by which homes follow, shared by all gates.
    pub(super) directory: Arc<Directory>,
    /// The permits whose clients are gone.
    pub(in crate::core) lapses: Lapses,
    /// The open proposals, by number.
    pub(super) open: BTreeMap<u64, Purpose>,
    pub(super) proposed: u64,
    /// Since when this node has known each durable permit, and since when it counts its time to
    /// live.
    pub(super) known: BTreeMap<PermitId, (Time, Time)>,
    /// Durable permits that this node granted and no request wants any more.
    pub(super) unwanted: BTreeSet<PermitId>,
    /// The requests that are notified when a durable permit ends.
    pub(super) attached: BTreeMap<PermitId, RequestKey>,
}

impl Log {
    pub(in crate::core) fn new(me: NodeId, incarnation: Incarnation) -> Self {
        Self {
            me,
            incarnation,
            state: ClusterState::default(),
            incarnations: BTreeMap::new(),
            directory: Arc::default(),
            lapses: Lapses::default(),
            open: BTreeMap::new(),
            proposed: 0,
            known: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            attached: BTreeMap::new(),
        }
    }

    /// The number of keys that clients wait to use.
    pub(in crate::core) fn open_marks(&self) -> usize {
        self.open.values().filter(|open| matches!(open, Purpose::Once(..))).count()
    }

    /// Whether this incarnation is a member.
    pub(in crate::core) fn is_member(&self) -> bool {
        self.state.membership.incarnation(self.me, self.incarnation).is_some()
    }

    /// The members, except earlier incarnations of this node, each with the view that began its
    /// incarnation, in that order.
    pub(super) fn members(&self) -> Vec<(NodeId, u64)> {
        let counts = |node: NodeId| node != self.me || self.is_member();
        let members = self.incarnations.iter().map(|(node, at)| (*node, *at));
        let mut members: Vec<(NodeId, u64)> = members.filter(|(node, _)| counts(*node)).collect();
        members.sort_by_key(|(_, at)| *at);
        members
    }

    /// The forced eviction of this incarnation, if an operator ordered one.
    pub(super) fn forced_eviction(&self) -> Option<&ForcedEviction> {
        let ordered = self.state.directory.get(&self.me)?.forced_eviction.as_ref();
        ordered.filter(|ordered| ordered.incarnation == self.incarnation)
    }

    /// The rejection of a command with this secret, where this node is sure of it: a made-up id or
    /// a wrong secret costs no entry of the log. The node does not know what the log has decided
    /// since the last entry it applied.
    pub(super) fn certainly_rejected(&self, id: PermitId, secret: SecretHash) -> Option<Rejected> {
        let rejected = self.state.check_secret(id, secret).err()?;
        (id.0 <= self.state.applied).then_some(rejected)
    }
}
