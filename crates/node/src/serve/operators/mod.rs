//! Commands of operators: members, voters, evictions, gates.
//!
//! Every node accepts every command and commits it to the replicated log, where it is a
//! compare-and-set: commands are idempotent. The node waits for operations that take time; a client
//! that stops waiting loses only the reply.
//!
//! - `members.rs`: members, voters, evictions of nodes; `durable.rs`: evictions of durable permits;
//!   `holders.rs`: evictions of single holders; `set.rs`: k and policy of a gate;
//! - `grpc.rs`, `http.rs`: the two forms of the API.

mod durable;
mod grpc;
mod holders;
pub(super) mod http;
mod members;
mod set;

use std::time::Duration;

use kgate_api::LeaseInstant;
use kgate_api::v1::ErrorCode;
use kgate_control::log::{Log, ProposeError};
use kgate_control::state::{Applied, ClusterState, Command, Rejected};
use kgate_core::NodeId;

use super::CoreHandle;
use super::authorisation::{Identity, Privilege};
use super::error::ApiError;
use crate::core::NO_LOG;

type Answer<T> = Result<T, ApiError>;

/// The call of one operator: the core, the log, and the operator's name.
pub(super) struct Operator {
    core: CoreHandle,
    log: Log,
    /// Recorded in the log, for people.
    author: String,
}

impl Operator {
    /// Checks that the client has the right, and counts its request.
    pub(super) async fn admit(
        core: &CoreHandle,
        who: &Identity,
        need: Privilege<'_>,
    ) -> Answer<Self> {
        core.access.admit_request(who)?;
        core.access.authorise(who, need)?;
        let operator = Self::of_log(core, who).await;
        operator.ok_or_else(|| ApiError::bad_request(NO_LOG))
    }

    /// An operator whose rights are checked elsewhere; none if this node has no log.
    async fn of_log(core: &CoreHandle, who: &Identity) -> Option<Self> {
        let log = core.log().await?;
        Some(Self { core: core.clone(), log, author: author(core, who) })
    }

    /// Finds a node by its ID or its name. IDs come first: they are never reused, and a name that
    /// looks like an ID must not hide another node.
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
                format!("no node `{text}`; known nodes: {}", all.join(", ")),
            )
        })
    }

    /// The latest committed state.
    async fn read(&self) -> Answer<ClusterState> {
        match self.log.read().await {
            Ok(cluster_state) => Ok(cluster_state),
            Err(why) => Err(self.failed(why).await),
        }
    }

    /// Proposes a command to the log.
    async fn propose(&self, command: Command) -> Answer<Applied> {
        match self.log.propose(command).await {
            Ok(applied) => Ok(applied),
            Err(why) => Err(self.failed(why).await),
        }
    }

    /// The error of a failed proposal; without a quorum it names the voters that do not answer.
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
                    format!(" (voters that do not answer this node: {})", numbers(&silent))
                };
                ApiError::new(ErrorCode::NoQuorum, format!("no quorum: {why}{silent}"))
            }
        }
    }

    async fn silent_voters(&self) -> Vec<NodeId> {
        // No gate has an empty name: only the list of nodes that answer is needed.
        let Ok(report) = self.core.query_status(Some(String::new())).await else {
            return Vec::new();
        };
        let answers = |node: &NodeId| report.seen.iter().any(|(who, _)| who.node == *node);
        self.log.voters_appended().all().into_iter().filter(|node| !answers(node)).collect()
    }

    /// Waits until the applied state satisfies a condition; false after `timeout`.
    async fn until(&self, timeout: Duration, so: impl Fn(&ClusterState) -> bool) -> bool {
        let mut status = self.log.status();
        let end = LeaseInstant::now() + timeout;
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

/// The operator, for people.
fn author(core: &CoreHandle, who: &Identity) -> String {
    format!("{who} through node {}", core.node)
}

/// The ID that a text denotes: `3` or `node-3`.
fn number(text: &str) -> Option<u32> {
    text.strip_prefix("node-").unwrap_or(text).parse().ok()
}

fn numbers(nodes: &[NodeId]) -> String {
    listed(nodes.iter().map(|node| node.0))
}

fn listed(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}
