//! The control plane at a node: the state of the agreed log, the lease that it gives, and this
//! node's own incarnation.
//!
//! The log itself runs elsewhere. The shell hands over each
//! [`AppliedEntry`](kgate_control::log::AppliedEntry) and proposes commands. Here the consequences
//! follow:
//!
//! - `changes.rs`: applied entries: members come and go, in the same order at every node, and gates
//!   are created and resized;
//! - `lease.rs`: the lease, read against the clock before every input (rule N5), and its
//!   consequences for clients, holders and waiting requests;
//! - `incarnation.rs`: this node takes part in one incarnation at a time (rules R1, R2);
//! - `durable.rs`: durable permits;
//! - `gates.rs`: gates that clients want: the log decides who is first and what k is.
//!
//! No node is declared dead here, whatever a link reports: that only gives cause to ask the voters
//! (rule E1). Only an eviction frees what a silent node held.

mod changes;
mod durable;
mod gates;
mod incarnation;
mod lease;

pub(super) use changes::definition;

use std::collections::{BTreeMap, BTreeSet};

use kgate_control::lease::{Leases, Proposal};
use kgate_control::log::LogStatus;
use kgate_control::membership::{MembershipChange, StoreId};
use kgate_control::state::{ClusterState, Command, PermitId};
use kgate_control::timing::Timing;
use kgate_control::voters::Voters;
use kgate_core::{Incarnation, NodeId, Time, ViewId};
use serde::{Deserialize, Serialize};

use self::gates::Purpose;
use super::{RequestKey, Settings, Suspended};

/// The settings of the control plane.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// The durations of the leases.
    pub timing: Timing,
    /// The store that holds this node's promises (rule R4).
    pub store: StoreId,
    /// The address at which its peers reach it.
    pub address: String,
    /// A random name of this start.
    pub start: u64,
    /// The state of the log at this node.
    pub cluster_state: ClusterState,
    /// The newest voters in this node's log (rule N4).
    pub appended: Voters,
    /// The state that this incarnation stored at a clean stop (rule R1).
    pub suspended: Option<Suspended>,
    /// Whether this node joins a running cluster by a token.
    pub joins: bool,
}

/// The control plane at this node.
pub(super) struct Control {
    timing: Timing,
    store: StoreId,
    address: String,
    start: u64,
    joins: bool,
    me: NodeId,
    incarnation: Incarnation,
    leases: Leases,
    /// The state of the log, as far as it was applied here.
    pub(super) cluster_state: ClusterState,
    /// The entry that added each member's incarnation: the view that it began.
    pub(super) incarnations: BTreeMap<NodeId, u64>,
    appended: Voters,
    log: LogStatus,
    /// The earlier incarnation of this node that has to be evicted first.
    former: Option<Incarnation>,
    /// Whether this incarnation was a member. Once it is evicted, only another one can be.
    joined: bool,
    /// What the gates were told last: whether they may grant.
    granting: bool,
    /// Whether the lease held at the last check, and since when it does not.
    held: bool,
    without_since: Time,
    /// Whether requests are refused, because no quorum answered for too long.
    no_quorum: bool,
    asked: u64,
    /// The open proposals.
    open: BTreeMap<u64, Purpose>,
    /// Since when this node has known each durable permit, and since when it counts its time to
    /// live.
    known: BTreeMap<PermitId, (Time, Time)>,
    /// Durable permits that this node granted and no request wants any more.
    unwanted: BTreeSet<PermitId>,
    /// The requests that are told when a durable permit ends.
    attached: BTreeMap<PermitId, RequestKey>,
}

/// What status queries show of the control plane at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlView {
    /// The leader of the log, as far as this node knows.
    pub leader: Option<NodeId>,
    /// Its incarnation, if that is a member.
    pub incarnation: Option<u32>,
    /// How long it may grant without an answer of the voters, in nanoseconds; 0 without a lease.
    pub lease_left: u64,
    /// Why it has no lease, if it has none.
    pub without: Option<String>,
    /// The members, their incarnations, and whether they are suspected.
    pub members: Vec<(NodeId, u32, bool)>,
    /// The voters.
    pub voters: Vec<NodeId>,
    /// The last entry that it has applied.
    pub applied: u64,
}

impl Control {
    pub(super) fn new(now: Time, settings: &Settings, told: &ControlSettings) -> Self {
        let (me, incarnation) = (settings.me, settings.incarnation);
        let leases = Leases::new(now, me, incarnation, told.store, told.timing);
        let mut control = Self {
            timing: told.timing,
            store: told.store,
            address: told.address.clone(),
            start: told.start,
            joins: told.joins,
            me,
            incarnation,
            leases,
            cluster_state: ClusterState::default(),
            incarnations: BTreeMap::new(),
            appended: told.appended.clone(),
            log: LogStatus::default(),
            former: None,
            joined: false,
            granting: false,
            held: false,
            without_since: now,
            no_quorum: false,
            asked: 0,
            open: BTreeMap::new(),
            known: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            attached: BTreeMap::new(),
        };
        control.leases.voters_appended(now, told.appended.clone());
        control
    }

    /// Begins another incarnation. Its lease starts from the state of the log, and from nothing of
    /// the earlier incarnation.
    fn begin(&mut self, now: Time, incarnation: Incarnation, start: u64) {
        (self.incarnation, self.start, self.joined) = (incarnation, start, false);
        self.former = None;
        self.replay(now);
    }

    /// Resumes this incarnation with the state of its clean stop.
    fn take_up(&mut self, now: Time, suspended: &Suspended) {
        (self.start, self.joined) = (suspended.start, true);
        self.cluster_state = suspended.cluster_state.clone();
        self.incarnations = suspended.incarnations.iter().copied().collect();
        self.replay(now);
    }

    /// Starts the lease from the state of the log alone.
    fn replay(&mut self, now: Time) {
        let mut leases = Leases::new(now, self.me, self.incarnation, self.store, self.timing);
        for (node, member) in self.cluster_state.membership.iter() {
            leases.membership_changed(
                now,
                MembershipChange::Added(node, member.incarnation, member.terms),
            );
            if let Some(at) = member.suspected {
                leases.membership_changed(
                    now,
                    MembershipChange::Suspected(node, member.incarnation, at),
                );
            }
        }
        leases.voters_applied(now, self.cluster_state.voters.clone());
        leases.voters_appended(now, self.appended.clone());
        leases.applied(now, self.cluster_state.applied);
        leases.committed(self.log.committed);
        leases.set_leader(self.log.is_leader);
        self.leases = leases;
    }

    /// The random name of the start of this incarnation.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The members, except earlier incarnations of this node, each with the view that began its
    /// incarnation, in that order.
    fn members(&self) -> Vec<(NodeId, u64)> {
        let counts = |node: NodeId| node != self.me || self.is_member();
        let mut members: Vec<(NodeId, u64)> = self
            .incarnations
            .iter()
            .map(|(node, at)| (*node, *at))
            .filter(|(node, _)| counts(*node))
            .collect();
        members.sort_by_key(|(_, at)| *at);
        members
    }

    /// Whether this incarnation is a member.
    fn is_member(&self) -> bool {
        self.cluster_state.membership.incarnation(self.me, self.incarnation).is_some()
    }
}

/// The command of a proposal of the lease.
fn command(proposal: Proposal) -> Command {
    match proposal {
        Proposal::Suspect { node, incarnation } => Command::Suspect { node, incarnation },
        Proposal::Unsuspect { node, incarnation, at } => {
            Command::Unsuspect { node, incarnation, at }
        }
        Proposal::Evict { node, incarnation, at, voters_at, waited } => {
            Command::Evict { node, incarnation, at, voters_at, waited }
        }
    }
}

/// The view that an entry of the log begins, as gates count views.
fn view(at: u64) -> ViewId {
    ViewId(u32::try_from(at).expect("a log has fewer than 2^32 entries"))
}
