//! The agreed log beside the shell.
//!
//! The log runs on threads of its own, so that a busy node does not miss its heartbeats. Queues
//! connect it with the shell: its messages to other nodes, applied entries, and the results of
//! proposals. Operators get a handle to it to change the voters.

use std::path::Path;
use std::sync::Arc;

use kgate_control::log::{
    AppliedEntry, Bootstrap, Log, LogError, LogStatus, LogTiming, Opened, ProposeError, Transport,
};
use kgate_control::membership::StoreId;
use kgate_control::state::{Applied, ClusterState, Command, Rejected};
use kgate_control::voters::Voters;
use kgate_core::NodeId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Capacity of the queue of outgoing messages. Beyond it messages are dropped, and the log sends
/// them again.
const MESSAGES: usize = 1024;
/// Capacity of the queue of results.
const ANSWERS: usize = 256;

/// An event of the log.
#[derive(Debug)]
pub(crate) enum Event {
    /// The log applied an entry.
    AppliedEntry(AppliedEntry),
    /// The status of the log changed.
    Status(LogStatus),
    /// A message for the log of another node.
    PeerMessage(NodeId, Vec<u8>),
    /// The result of a proposal.
    Answer(u64, Result<Applied, ProposeError>),
    /// How far the log went when that question was asked.
    ReadIndex(u64, Result<u64, ProposeError>),
    /// The log rejected the bootstrap that the configuration of this node describes.
    BootstrapRejected(Rejected),
}

/// The log, as the shell knows it.
#[derive(Debug)]
pub(crate) struct Agreement {
    log: Log,
    news: mpsc::UnboundedReceiver<AppliedEntry>,
    status: watch::Receiver<LogStatus>,
    messages: mpsc::Receiver<(NodeId, Vec<u8>)>,
    events: mpsc::Sender<Event>,
    answers: mpsc::Receiver<Event>,
    /// Tasks that wait for the log. They end with the node.
    tasks: JoinSet<()>,
}

/// Queues messages without waiting.
struct MessageQueue(mpsc::Sender<(NodeId, Vec<u8>)>);

impl Transport for MessageQueue {
    fn send(&self, to: NodeId, bytes: Vec<u8>) {
        // The log tolerates lost messages.
        let _ = self.0.try_send((to, bytes));
    }
}

impl Agreement {
    /// Opens the log in that folder. Returns also the id of its store, and its state.
    pub(crate) fn open(
        folder: &Path,
        me: NodeId,
        timing: LogTiming,
    ) -> Result<(Self, StoreId, ClusterState), LogError> {
        let (queue, messages) = mpsc::channel(MESSAGES);
        let Opened { log, store, cluster_state, entries: news } =
            Log::open(folder, me, Arc::new(MessageQueue(queue)), timing)?;
        let (events, answers) = mpsc::channel(ANSWERS);
        let status = log.status();
        Ok((
            Self { log, news, status, messages, events, answers, tasks: JoinSet::new() },
            store,
            cluster_state,
        ))
    }

    /// Bootstraps the cluster together with its other first nodes, as soon as they are up. Does
    /// nothing once it is bootstrapped.
    pub(crate) fn found(&mut self, founding: Bootstrap) {
        let (log, events) = (self.log.clone(), self.events.clone());
        self.tasks.spawn(async move {
            // Each attempt is an entry: where a disk is slow and nodes restart often, the log would
            // write nothing else.
            while !is_founded(&log.cluster_state(), &founding) {
                match log.bootstrap(founding.clone()).await {
                    Ok(_) | Err(ProposeError::Stopped) => return,
                    Err(ProposeError::NoQuorum(why)) => {
                        tracing::info!(%why, "the cluster is not bootstrapped yet")
                    }
                    Err(ProposeError::Rejected(void)) => {
                        let _ = events.send(Event::BootstrapRejected(void)).await;
                        return;
                    }
                }
            }
        });
    }

    /// The next event. Applied entries come first: the meaning of a message depends on them.
    pub(crate) async fn next(&mut self) -> Event {
        tokio::select! {
            biased;
            Some(news) = self.news.recv() => Event::AppliedEntry(news),
            Some((to, bytes)) = self.messages.recv() => Event::PeerMessage(to, bytes),
            Some(event) = self.answers.recv() => event,
            Ok(()) = self.status.changed() => {
                Event::Status(self.status.borrow_and_update().clone())
            }
            else => std::future::pending().await,
        }
    }

    /// The next event, if one is queued.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        if let Ok(news) = self.news.try_recv() {
            return Some(Event::AppliedEntry(news));
        }
        if let Ok((to, bytes)) = self.messages.try_recv() {
            return Some(Event::PeerMessage(to, bytes));
        }
        self.answers.try_recv().ok()
    }

    /// Proposes a command. The result comes back as an event, unless the number is 0.
    pub(crate) fn propose(&mut self, number: u64, command: Command) {
        while self.tasks.try_join_next().is_some() {}
        let (log, events) = (self.log.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let came = log.propose(command).await;
            if number > 0 {
                let _ = events.send(Event::Answer(number, came)).await;
            } else if let Err(why) = came {
                tracing::debug!(%why, "a proposal came to nothing");
            }
        });
    }

    /// Asks a quorum how far the log goes. The answer comes back as an event.
    pub(crate) fn read_index(&mut self, number: u64) {
        while self.tasks.try_join_next().is_some() {}
        let (log, events) = (self.log.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let _ = events.send(Event::ReadIndex(number, log.read_index().await)).await;
        });
    }

    /// A message from the log of another node.
    pub(crate) fn receive(&self, from: NodeId, bytes: &[u8]) {
        if let Err(error) = self.log.receive(from, bytes) {
            tracing::warn!(peer = from.0, %error, "message of a peer's log rejected");
        }
    }

    /// A handle to change the members. Drop it soon: the log ends with its last handle.
    pub(crate) fn handle(&self) -> Log {
        self.log.clone()
    }

    /// The newest voters in this node's log, at this instant (rule N4).
    pub(crate) fn voters_appended(&self) -> Voters {
        self.log.voters_appended()
    }

    /// Stops the log at this node, and waits until its store is closed.
    pub(crate) async fn stop(self) {
        self.log.stop().await;
    }
}

/// Waits for the next event; for ever, without a log.
pub(crate) async fn next(agreement: &mut Option<Agreement>) -> Event {
    match agreement {
        Some(agreement) => agreement.next().await,
        None => std::future::pending().await,
    }
}

/// Whether the cluster is bootstrapped like this, as far as the log is applied here. The log
/// rejects another bootstrap with a reason.
fn is_founded(cluster_state: &ClusterState, founding: &Bootstrap) -> bool {
    cluster_state.cluster.as_ref().is_some_and(|cluster| {
        cluster.name == founding.name && cluster.initial_members.iter().eq(founding.nodes.keys())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kgate_control::membership::LeaseTerms;
    use kgate_control::state::{Cluster, ClusterId, DirectoryEntry};
    use kgate_core::Span;

    use super::*;

    /// A bootstrap that the log knows is not proposed again. One with other nodes or another name
    /// is, so that it is rejected with a reason.
    #[test]
    fn what_is_founded_is_not_told_again() {
        let terms = LeaseTerms { lease: Span(1), clock_error: 0, margin: Span(1) };
        let nodes: BTreeMap<NodeId, DirectoryEntry> =
            [(NodeId(0), DirectoryEntry::default())].into();
        let (cluster, name) = (ClusterId(1), "fleet".to_owned());
        let voters = nodes.keys().copied().collect();
        let founding = Bootstrap { cluster, name: name.clone(), nodes, voters, terms };
        let mut cluster_state = ClusterState::default();
        assert!(!is_founded(&cluster_state, &founding));
        cluster_state.cluster =
            Some(Cluster { id: ClusterId(2), name, terms, initial_members: [NodeId(0)].into() });
        assert!(is_founded(&cluster_state, &founding));
        let other = Bootstrap {
            nodes: [(NodeId(1), DirectoryEntry::default())].into(),
            ..founding.clone()
        };
        assert!(!is_founded(&cluster_state, &other));
        assert!(!is_founded(&cluster_state, &Bootstrap { name: "other".into(), ..founding }));
    }
}
