//! What a node shows of a gate: holders, the queue, and the nodes it waits for.

use kgate_api::printable;
use kgate_control::state::{KSource, Policy};
use kgate_core::{NodeId, Time};
use serde::{Deserialize, Serialize};

use super::bounded::Omitted;
use super::control::ControlView;
use super::note::Note;

/// The process that uses a permit, as its client describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// Its host.
    pub host: String,
    /// Its user.
    pub user: String,
    /// Its command line.
    pub command: String,
    /// What it says of its request.
    pub note: Note,
}

impl Process {
    /// The longest text of each field; more is cut off.
    pub const LONGEST: usize = 200;

    /// The same with its texts cut to that length.
    pub fn cut(mut self) -> Self {
        for text in [&mut self.host, &mut self.user, &mut self.command] {
            if text.len() > Self::LONGEST {
                let end =
                    (0..=Self::LONGEST).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
                text.truncate(end);
            }
        }
        self
    }
}

/// For messages to people.
impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (user, host) = (printable(&self.user), printable(&self.host));
        write!(f, "pid {} {user}@{host} ({})", self.pid, printable(&self.command))
    }
}

/// The status of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeId,
    /// The nodes that it has declared dead.
    pub crashed: Vec<NodeId>,
    /// The nodes that it has no connection to.
    pub unreachable: Vec<NodeId>,
    /// Its view of the control plane, with leases.
    pub control: Option<ControlView>,
    /// Its incarnation that is a member; none without leases, or if it is no member.
    pub incarnation: Option<u32>,
    /// The number of its gates that are left out, because its views would be too large.
    pub omitted_gates: u32,
}

/// Names a grant to a session. A fence is of one grant only, so the name never denotes a later one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderId {
    /// The node.
    pub node: NodeId,
    /// The session at the node.
    pub session: u64,
    /// The number of the request in the session.
    pub number: u64,
    /// The fence, as 32 hexadecimal digits, where there is one.
    pub fence: Option<String>,
}

/// A holder or a waiting request at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientView {
    /// The node.
    pub node: NodeId,
    /// The session at the node; 0 for a request of the node itself.
    pub session: u64,
    /// The number of the request in the session.
    pub number: u64,
    /// The process.
    pub process: Process,
    /// The number of slots of the request.
    pub weight: u32,
    /// How long it has held or waited, in nanoseconds.
    pub since: u64,
    /// Its slots; empty while it waits, or where slots are not numbered.
    pub slots: Vec<u32>,
    /// The fence, as 32 hexadecimal digits, where there is one.
    pub fence: Option<String>,
    /// The stamp of its request, which orders the requests of all nodes: clock, then node.
    pub stamp: Option<(u64, u32)>,
    /// Whether its stream has ended: the slots come back when the session expires.
    pub cut_off: bool,
    /// Whether its node ends its processes at the deadline.
    pub guarded: bool,
}

impl ClientView {
    /// The name of the grant.
    pub fn id(&self) -> HolderId {
        let Self { node, session, number, ref fence, .. } = *self;
        HolderId { node, session, number, fence: fence.clone() }
    }
}

/// A durable permit, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurablePermitView {
    /// Its id, the same at all nodes.
    pub permit: u64,
    /// Its slots.
    pub slots: Vec<u32>,
    /// Its fence, as 32 hexadecimal digits.
    pub fence: String,
    /// The holder, as it described itself.
    pub holder: String,
    /// The node that granted it.
    pub node: NodeId,
    /// How long this node has known it, in nanoseconds.
    pub since: u64,
    /// Its time to live and what is left of it by this node's clock, in nanoseconds.
    pub ttl: Option<(u64, u64)>,
}

/// One gate, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateView {
    /// Its name.
    pub name: String,
    /// The number of its slots.
    pub k: u32,
    /// What k comes from.
    pub source: KSource,
    /// Its protocol.
    pub protocol: String,
    /// The client or operator that defined it.
    pub author: String,
    /// The log entry that changed it last, as far as this node has applied it; 0 without leases.
    pub version: u64,
    /// The holders at this node.
    pub holders: Vec<ClientView>,
    /// The durable permits.
    pub held: Vec<DurablePermitView>,
    /// What happens to the slots of a silent holder.
    pub policy: Policy,
    /// The waiting requests at this node, in order.
    pub waiting: Vec<ClientView>,
    /// The nodes whose answer this node lacks, or whose request is ahead.
    pub lacking: Vec<NodeId>,
    /// How long the last permits of this node were held, in nanoseconds.
    pub past_holds: Vec<u64>,
    /// What is left out, because the views of this node would be too large.
    pub omitted: Omitted,
}

/// The time since then, in nanoseconds.
pub(crate) fn age(now: Time, then: Time) -> u64 {
    now.since(then).0
}
