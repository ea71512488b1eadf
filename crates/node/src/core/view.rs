//! What people may see of a gate: holders, the queue, and what stands in the way.

use kgate_control::state::Policy;
use kgate_core::{NodeId, Time};
use serde::{Deserialize, Serialize};

use super::control::ControlView;

/// The process for which a permit is asked, as its client tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number on its machine.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// Its user.
    pub user: String,
    /// What it runs, in a line.
    pub command: String,
}

impl Process {
    /// The longest text that is kept of each; more is cut off.
    pub const LONGEST: usize = 200;

    /// The same with texts cut to what is kept.
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

/// A node that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Which.
    pub node: NodeId,
    /// Whom it holds for crashed.
    pub crashed: Vec<NodeId>,
    /// To whom it has no connection now.
    pub unreachable: Vec<NodeId>,
    /// How it stands with the log, where there is one.
    pub control: Option<ControlView>,
    /// Its incarnation that takes part; none, if it has no log or takes no part.
    pub incarnation: Option<u32>,
}

/// Somebody who holds or waits at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientView {
    /// At which node.
    pub node: NodeId,
    /// Which process.
    pub process: Process,
    /// For how many units.
    pub weight: u32,
    /// For how long by now, in nanoseconds.
    pub since: u64,
    /// The slots that it holds; none while it waits, or where they have no numbers.
    pub slots: Vec<u32>,
    /// The fence, as 32 hexadecimal digits, where there is one.
    pub fence: Option<String>,
    /// Where its request stands among those of all nodes, where requests are stamped: clock, then
    /// node.
    pub stamp: Option<(u64, u32)>,
    /// Whether its session is cut: the slot comes back when that runs out.
    pub cut_off: bool,
}

/// A permit that the log holds, as one node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurablePermitView {
    /// Its name, at all nodes.
    pub permit: u64,
    /// Its slots.
    pub slots: Vec<u32>,
    /// Its fence, as 32 hexadecimal digits.
    pub fence: String,
    /// For whom, as it was said.
    pub holder: String,
    /// The node that decided it.
    pub node: NodeId,
    /// For how long this node knows of it, in nanoseconds.
    pub since: u64,
    /// Its time to live, and what is left of it as this node counts, in nanoseconds.
    pub ttl: Option<(u64, u64)>,
}

/// One gate, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateView {
    /// Its name.
    pub name: String,
    /// k.
    pub k: u32,
    /// By which protocol.
    pub protocol: String,
    /// Who said so.
    pub author: String,
    /// The entry of the log that made it so, as far as it is applied there; 0 without a log.
    pub version: u64,
    /// Who holds something, through this node.
    pub holders: Vec<ClientView>,
    /// What the log holds.
    pub held: Vec<DurablePermitView>,
    /// What becomes of a silent holder's slots.
    pub policy: Policy,
    /// Who waits at this node, in order.
    pub waiting: Vec<ClientView>,
    /// Whose answer this node still lacks, or who stands in its way.
    pub lacking: Vec<NodeId>,
}

/// How long ago, in nanoseconds.
pub(crate) fn age(now: Time, then: Time) -> u64 {
    now.since(then).0
}
