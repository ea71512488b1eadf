//! The agreed log: openraft for the agreement, redb for the memory, and whatever carries bytes between nodes.
//!
//! A [`Log`] is a handle. Behind it two threads work for it alone, so that a busy node does not miss a heartbeat: one runs openraft and all that waits,
//! the other writes the store, one write after the other, each on disk before it is answered.
//!
//! - *Out*: [`Courier::send`], which may lose what it is given. *In*: [`Log::receive`]. Questions have numbers and time-outs, all queues have bounds.
//! - *Proposals* may be made at any node. They go to the leader, again and again until somebody knows what came of them or the patience is over;
//!   commands are compare-and-set, so twice does no harm.
//! - *News* come in the order of the log without a gap, each only after it is stored (rule N3), beginning after the picture that [`Log::open`] returns.
//! - *Voters*: the newest that this node's log has, agreed or not, can be read at any instant (rule N4).
//! - *Stores*: each has a random id, and who votes is known with it. A message for or from another store than the known one is refused, so a node that
//!   has lost its store cannot vote with an empty memory under its old number (rule R4).
//!
//! Who listens to the log without a vote follows the directory: the leader takes up whoever is on it and drops whoever is not any more.

mod timing;
mod words;

pub use timing::LogTiming;
pub use words::{Courier, Founding, Junk, LogError, LogStatus, News, NotDone, Opened};

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kgate_core::{NodeId, Span};
use tokio::sync::watch;

use crate::state::{ClusterId, Command, Done, Picture};
use crate::voters::Voters;

/// A handle to the log of this node. Cheap to clone; the log ends with the last of them, or by [`Log::stop`].
#[derive(Clone, Debug)]
pub struct Log {
    status: watch::Receiver<LogStatus>,
}

impl Log {
    /// Opens the log in that folder, or makes an empty one. Blocks until the store is read: call it at the start. Needs no runtime.
    pub fn open(
        folder: &Path,
        me: NodeId,
        courier: Arc<dyn Courier>,
        timing: LogTiming,
    ) -> Result<Opened, LogError> {
        let _ = (folder, me, courier, timing);
        Err(LogError { path: folder.to_owned(), why: String::new() })
    }

    /// Founds the cluster, together with its other first nodes, which all call this with the same nodes and voters. The first time all the voters must be
    /// there: each must learn the others' stores (rule R4). A node that does not vote waits to be taken up. May be called again after
    /// [`NotDone::NoQuorum`], and after a restart; void if the store belongs to another cluster, or the cluster knows this node with another store.
    pub async fn bootstrap(&self, founding: Founding) -> Result<ClusterId, NotDone> {
        let _ = founding;
        Err(NotDone::Stopped)
    }

    /// Puts a command into the log and says what came of it, from any node. After [`NotDone::NoQuorum`] it may still come to be done.
    pub async fn propose(&self, command: Command) -> Result<Done, NotDone> {
        let _ = command;
        Err(NotDone::Stopped)
    }

    /// The same, with a patience of its own.
    pub async fn propose_within(&self, command: Command, patience: Span) -> Result<Done, NotDone> {
        let _ = (command, patience);
        Err(NotDone::Stopped)
    }

    /// What the log says now: not older than anything that was done anywhere before this call.
    pub async fn read(&self) -> Result<Picture, NotDone> {
        Err(NotDone::Stopped)
    }

    /// What this node has applied, which may be behind the others.
    pub fn picture(&self) -> Arc<Picture> {
        Arc::default()
    }

    /// How the log is.
    pub fn status(&self) -> watch::Receiver<LogStatus> {
        self.status.clone()
    }

    /// The newest voters in this node's log, agreed or not (rule N4).
    pub fn voters_appended(&self) -> Voters {
        Voters::default()
    }

    /// A node of the directory hears the log from now on, without a vote. The leader does so by itself; this waits until it is done.
    pub async fn add_learner(&self, node: NodeId) -> Result<(), NotDone> {
        let _ = node;
        Err(NotDone::Stopped)
    }

    /// It does not hear the log any more. Only after it is off the directory, or the leader takes it up again.
    pub async fn remove_learner(&self, node: NodeId) -> Result<(), NotDone> {
        let _ = node;
        Err(NotDone::Stopped)
    }

    /// Gives a vote to a node that hears the log and has caught up. The text is a warning for the operator.
    pub async fn promote(&self, node: NodeId) -> Result<Option<String>, NotDone> {
        let _ = node;
        Err(NotDone::Stopped)
    }

    /// Takes the vote from a node; it goes on hearing the log.
    pub async fn demote(&self, node: NodeId) -> Result<Option<String>, NotDone> {
        let _ = node;
        Err(NotDone::Stopped)
    }

    /// Exactly these vote from now on.
    pub async fn set_voters(&self, voters: BTreeSet<NodeId>) -> Result<Option<String>, NotDone> {
        let _ = voters;
        Err(NotDone::Stopped)
    }

    /// Bytes from another node's log, as its courier was given them. What cannot be read is junk; what comes when the queue is full is lost.
    pub fn receive(&self, from: NodeId, bytes: &[u8]) -> Result<(), Junk> {
        let _ = (from, bytes);
        Ok(())
    }

    /// Ends the log at this node and waits until its store is closed. Other handles get [`NotDone::Stopped`] from now on.
    pub async fn stop(&self) {}
}
