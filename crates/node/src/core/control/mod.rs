//! The control plane at a node: what the agreed log says, the lease that it gives, and this node's
//! own incarnation.
//!
//! The log is elsewhere: whoever runs it hands over its [`AppliedEntry`], and does what is to be
//! proposed. Here it is decided what follows.
//!
//! - `changes.rs`: an entry was applied: members come and go, in the same order at every node, and
//!   gates are made and resized;
//! - `lease.rs`: the clock is read against the lease before anything else happens (rule N5);
//!   clients, holders and waiters are told what that means for them;
//! - `incarnation.rs`: this node takes part in one incarnation at a time (rules R1, R2);
//! - `held.rs`: permits that the log holds;
//! - `gates.rs`: gates that clients want: the log decides who is first and what k is.
//!
//! Nobody is held for crashed here, whatever a link or a detector says: they only give cause to ask
//! the voters (rule E1). Only an eviction frees what a silent node held.

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

/// What a node is told of the control plane when it starts.
#[derive(Clone, Debug)]
pub struct ControlSettings {
    /// The numbers of the leases.
    pub timing: Timing,
    /// The store that this node remembers with (rule R4).
    pub store: StoreId,
    /// Where its peers reach it.
    pub address: String,
    /// Random: names this start.
    pub start: u64,
    /// What the log has said so far.
    pub cluster_state: ClusterState,
    /// The newest voters in this node's log (rule N4).
    pub appended: Voters,
    /// What this incarnation put away when it stopped, to go on with (rule R1).
    pub suspended: Option<Suspended>,
    /// Whether this node joins those who are there, by a token.
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
    /// What the log has said, as far as it was heeded here.
    pub(super) cluster_state: ClusterState,
    /// The entry that added each member's incarnation: the view that it began.
    pub(super) incarnations: BTreeMap<NodeId, u64>,
    appended: Voters,
    log: LogStatus,
    /// The earlier incarnation of this node that has to be evicted first.
    former: Option<Incarnation>,
    /// Whether this incarnation took part: once it is gone, only another one can.
    joined: bool,
    /// What gates were told last: whether they may grant.
    granting: bool,
    /// Whether the lease held when it was looked at last, and since when it does not.
    held: bool,
    without_since: Time,
    /// Whether nobody is let wait: no quorum was heard for too long.
    no_quorum: bool,
    asked: u64,
    /// What was proposed and is not answered.
    open: BTreeMap<u64, Purpose>,
    /// Since when this node knows of each permit, and since when it counts its time to live.
    known: BTreeMap<PermitId, (Time, Time)>,
    /// What the log holds, decided here, and nobody wants any more.
    unwanted: BTreeSet<PermitId>,
    /// Who here is told when the log holds a permit no more.
    attached: BTreeMap<PermitId, RequestKey>,
}

/// What people may see of the control plane at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlView {
    /// Who leads the log, as far as is known there.
    pub leader: Option<NodeId>,
    /// Its incarnation, if it takes part.
    pub incarnation: Option<u32>,
    /// How long it may grant without hearing from the voters, in nanoseconds; 0 without a lease.
    pub lease_left: u64,
    /// Why it has no lease, if it has none.
    pub without: Option<String>,
    /// The members, in which incarnation, and whether they are suspected.
    pub members: Vec<(NodeId, u32, bool)>,
    /// Who votes.
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

    /// Another incarnation of this node begins: its lease knows what the log has said, and nothing
    /// of the incarnation before.
    fn begin(&mut self, now: Time, incarnation: Incarnation, start: u64) {
        (self.incarnation, self.start, self.joined) = (incarnation, start, false);
        self.former = None;
        self.replay(now);
    }

    /// This incarnation goes on with what it knew when it stopped.
    fn take_up(&mut self, now: Time, suspended: &Suspended) {
        (self.start, self.joined) = (suspended.start, true);
        self.cluster_state = suspended.cluster_state.clone();
        self.incarnations = suspended.incarnations.iter().copied().collect();
        self.replay(now);
    }

    /// The lease begins with nothing but what the log has said.
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

    /// What names the start of this incarnation.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The members beside this node's earlier incarnations, each with the view that began its
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

    /// Whether this incarnation takes part.
    fn is_member(&self) -> bool {
        self.cluster_state.membership.incarnation(self.me, self.incarnation).is_some()
    }
}

/// As an entry of the log.
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
