//! What operators do: members come and go, get votes and lose them; nodes are evicted; gates get
//! another k.
//!
//! Everything goes through the agreed log, from whichever node is asked, and is compare-and-set
//! there: said twice it is done once. What takes time is waited for here, and whoever gives up
//! waiting loses nothing but the answer.
//!
//! - `members.rs`: who takes part and who votes; `permits.rs`: what the log holds; `set.rs`:
//!   another k, and when it is true everywhere;
//! - `grpc.rs`, `http.rs`: the ways in.

mod grpc;
pub(super) mod http;
mod members;
mod permits;
mod set;

use std::time::Duration;

use kgate_api::LeaseInstant;
use kgate_api::v1::ErrorCode;
use kgate_control::log::{Log, ProposeError};
use kgate_control::state::{ClusterState, Rejected};
use kgate_core::NodeId;

use super::Desk;
use super::authorisation::{Identity, Need};
use super::error::ApiError;

type Answer<T> = Result<T, ApiError>;

/// One operator's call: the desk, the log, and who asks.
pub(super) struct Operator {
    desk: Desk,
    log: Log,
    /// For people.
    author: String,
}

impl Operator {
    /// Whoever may do that.
    pub(super) async fn admit(desk: &Desk, who: &Identity, need: Need<'_>) -> Answer<Self> {
        desk.guard.ask(who)?;
        desk.guard.authorise(who, need)?;
        let none = "this node has no agreed log: its members are fixed and k is what its gates were made with; set data and leave faults = \"crash-stop\" out to have one";
        let log = desk.log().await.ok_or_else(|| ApiError::bad_request(none))?;
        let author = format!("{who} through node {}", desk.node);
        Ok(Self { desk: desk.clone(), log, author })
    }

    /// A node by its number or its name. Numbers come first: they are never used again, and a name
    /// that reads as one must not hide another node.
    fn node(&self, cluster_state: &ClusterState, text: &str) -> Answer<NodeId> {
        let known = |node: &NodeId| cluster_state.directory.contains_key(node);
        let found = number(text).map(NodeId).filter(known).or_else(|| cluster_state.node(text));
        found.ok_or_else(|| {
            let all: Vec<String> = cluster_state
                .directory
                .iter()
                .map(|(node, listed)| format!("{} ({})", node.0, listed.name))
                .collect();
            ApiError::new(
                ErrorCode::NodeNotFound,
                format!("there is no node `{text}`: there are {}", all.join(", ")),
            )
        })
    }

    /// The newest that the log says.
    async fn read(&self) -> Answer<ClusterState> {
        match self.log.read().await {
            Ok(cluster_state) => Ok(cluster_state),
            Err(why) => Err(self.failed(why).await),
        }
    }

    /// What a proposal came to, in words; without a quorum, with those voters that do not answer.
    async fn failed(&self, why: ProposeError) -> ApiError {
        match why {
            ProposeError::Rejected(void @ Rejected::Conflict { .. }) => {
                ApiError::new(ErrorCode::Conflict, void.to_string())
            }
            ProposeError::Rejected(void) => ApiError::bad_request(void.to_string()),
            ProposeError::Stopped => ApiError::stopped(),
            ProposeError::NoQuorum(why) => {
                let silent = self.silent_voters().await;
                let silent = if silent.is_empty() {
                    String::new()
                } else {
                    format!(" (of the voters node {} does not answer here)", numbers(&silent))
                };
                ApiError::new(ErrorCode::NoQuorum, format!("no quorum: {why}{silent}"))
            }
        }
    }

    async fn silent_voters(&self) -> Vec<NodeId> {
        // No gate has an empty name: all that is wanted is who answers.
        let Some(report) = self.desk.look(Some(String::new())).await else { return Vec::new() };
        let answers = |node: &NodeId| report.seen.iter().any(|(who, _)| who.node == *node);
        self.log.voters_appended().all().into_iter().filter(|node| !answers(node)).collect()
    }

    /// Waits until the log says so here, for at most so long.
    async fn until(&self, most: Duration, so: impl Fn(&ClusterState) -> bool) -> bool {
        let mut status = self.log.status();
        let end = LeaseInstant::now() + most;
        loop {
            status.mark_unchanged();
            if so(&self.log.cluster_state()) {
                return true;
            }
            let left = end.after(LeaseInstant::now());
            if left.is_zero()
                || !matches!(tokio::time::timeout(left, status.changed()).await, Ok(Ok(())))
            {
                return so(&self.log.cluster_state());
            }
        }
    }
}

/// What reads as the number of a node.
fn number(text: &str) -> Option<u32> {
    text.strip_prefix("node-").unwrap_or(text).parse().ok()
}

fn numbers(nodes: &[NodeId]) -> String {
    nodes.iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(", ")
}
