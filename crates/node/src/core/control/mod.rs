//! The control plane at a node: the state of the agreed log, the lease that it gives, and this
//! node's own incarnation.
//!
//! The log itself runs elsewhere. The shell hands over each
//! [`AppliedEntry`](kgate_control::log::AppliedEntry) and proposes commands. Here the consequences
//! follow:
//!
//! - `changes.rs`: applied entries: members come and go, in the same order at every node, and gates
//!   are created and resized;
//! - `follow.rs`: what the log says to protocols that follow it; `barrier.rs`: their permits lapse
//!   only after what the log had decided;
//! - `lease.rs`: the lease, read against the clock before every input (rule N5), and its
//!   consequences for clients, holders and waiting requests;
//! - `incarnation.rs`: this node takes part in one incarnation at a time (rules R1, R2);
//! - `log.rs`: what this node knows of the log;
//! - `durable.rs`: durable permits;
//! - `gates.rs`: gates that clients want: the log decides who is first and what k is.
//!
//! No node is declared dead here, whatever a link reports: that only gives cause to ask the voters
//! (rule E1). Only an eviction frees what a silent node held.

mod barrier;
mod changes;
mod durable;
mod follow;
mod gates;
mod incarnation;
mod lease;
mod log;

pub(super) use changes::definition;
pub(super) use gates::{Purpose, author};
pub(super) use log::Log;

use std::sync::Arc;

use kgate_control::lease::Leases;
use kgate_control::log::LogStatus;
use kgate_control::membership::{MembershipChange, StoreId};
use kgate_control::state::ClusterState;
use kgate_control::timing::Timing;
use kgate_control::voters::Voters;
use kgate_core::{Incarnation, NodeId, Time, ViewId};
use serde::{Deserialize, Serialize};

use super::{Settings, Suspended};

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
    pub(super) timing: Timing,
    store: StoreId,
    address: String,
    start: u64,
    joins: bool,
    leases: Leases,
    appended: Voters,
    status: LogStatus,
    /// The earlier incarnation of this node that has to be evicted first.
    former: Option<Incarnation>,
    /// Whether this incarnation was a member. Once it is evicted, only another one can be.
    joined: bool,
    /// The last notification of the gates: whether they may grant.
    granting: bool,
    /// Whether the lease held at the last check, and since when it does not.
    held: bool,
    without_since: Time,
    /// Whether requests are refused, because no quorum answered for too long.
    no_quorum: bool,
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
            leases,
            appended: told.appended.clone(),
            status: LogStatus::default(),
            former: None,
            joined: false,
            granting: false,
            held: false,
            without_since: now,
            no_quorum: false,
        };
        control.leases.voters_appended(now, told.appended.clone());
        control
    }

    /// Begins another incarnation. Its lease starts from the state of the log, and from nothing of
    /// the earlier incarnation.
    fn begin(&mut self, now: Time, log: &Log, start: u64) {
        (self.start, self.joined, self.former) = (start, false, None);
        self.replay(now, log);
    }

    /// Resumes this incarnation with the state of its clean stop.
    fn take_up(&mut self, now: Time, suspended: &Suspended, log: &mut Log) {
        (self.start, self.joined) = (suspended.start, true);
        log.state = suspended.cluster_state.clone();
        log.directory = Arc::new(log.state.homes.directory.clone());
        log.incarnations = suspended.incarnations.iter().copied().collect();
        self.replay(now, log);
    }

    /// Starts the lease from the state of the log alone.
    fn replay(&mut self, now: Time, log: &Log) {
        let mut leases = Leases::new(now, log.me, log.incarnation, self.store, self.timing);
        for (node, member) in log.state.membership.iter() {
            let incarnation = member.incarnation;
            let added = MembershipChange::Added(node, incarnation, member.terms);
            leases.membership_changed(now, added);
            if let Some(at) = member.suspected {
                let suspected = MembershipChange::Suspected(node, incarnation, at);
                leases.membership_changed(now, suspected);
            }
        }
        leases.voters_applied(now, log.state.voters.clone());
        leases.voters_appended(now, self.appended.clone());
        leases.applied(now, log.state.applied);
        leases.committed(self.status.committed);
        leases.set_leader(self.status.is_leader);
        self.leases = leases;
    }

    /// The random name of the start of this incarnation.
    pub(super) fn start(&self) -> u64 {
        self.start
    }
}

/// The view that an entry of the log begins, as gates count views.
fn view(at: u64) -> ViewId {
    ViewId(u32::try_from(at).expect("a log has fewer than 2^32 entries"))
}
