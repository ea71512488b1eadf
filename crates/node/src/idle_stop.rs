//! The stop of a node that nobody uses.
//!
//! A client looks for the node, and then connects. Between the two the node does not know of it. So
//! the client locks a file (shared) before it looks, until it is connected, and the node stops only
//! with the lock of its own (exclusive), which it keeps until its sockets are closed. A client that
//! finds the file locked waits for the end of the node, and then starts another one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kgate_api::CLIENTS_LOCK;
use kgate_core::Time;
use rustix::fs::{FlockOperation, flock};

use crate::shell::now;

/// When a node stops for lack of clients.
#[derive(Debug)]
pub(crate) struct IdleStop {
    span: Duration,
    /// The lock of the clients, where they have one.
    lock: Option<PathBuf>,
    since: Time,
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Idle {
    /// Stop at once, and drop the lock when no client can connect any more.
    Stop(Option<File>),
    /// Check again within this time.
    Wait(Duration),
}

impl IdleStop {
    pub(crate) fn new(span: Duration, folder: Option<&Path>) -> Self {
        Self { span, lock: folder.map(|folder| folder.join(CLIENTS_LOCK)), since: now() }
    }

    /// Whether it is time to stop.
    pub(crate) fn check(&mut self, in_use: bool) -> Idle {
        let now = now();
        if in_use {
            self.since = now;
        }
        let left = self.span.saturating_sub(Duration::from_nanos(now.since(self.since).0));
        if !left.is_zero() {
            return Idle::Wait(left);
        }
        match self.lock.as_deref().map(lock).transpose() {
            Ok(lock) => Idle::Stop(lock),
            // A client is on its way, or this node cannot know.
            Err(_) => {
                self.since = now;
                Idle::Wait(self.span)
            }
        }
    }
}

fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use kgate_client::{Client, local};
    use kgate_testkit::TempFolder;

    use super::*;
    use crate::config::OneOrMore;
    use crate::{Config, Node};

    async fn start(folder: &Path) -> Node {
        let config = Config {
            api: OneOrMore::One(format!("unix:{}", local::socket_in(folder).display())),
            data: Some(folder.to_owned()),
            lease_ms: 0,
            slot_files: Some(folder.to_owned()),
            idle_stop_ms: Some(1),
            ..Config::alone("127.0.0.1:0")
        };
        Node::start(config).await.unwrap()
    }

    /// Issue 19: a node that is about to stop for lack of clients never fails a client that has
    /// found it, and a client that finds none can start one at once.
    #[tokio::test]
    async fn a_node_that_was_found_can_be_used() {
        let folder = TempFolder::new("idle-stop");
        let (mut node, mut found) = (start(&folder).await, 0);
        for pause in 0..200 {
            tokio::time::sleep(Duration::from_micros(pause * 20)).await;
            let path = folder.to_owned();
            let way = tokio::task::spawn_blocking(move || local::keep_running(&path));
            let way = way.await.unwrap().unwrap();
            let socket = local::socket_in(&folder);
            if local::accepts(&socket).is_ok() {
                // The moment at which it used to stop.
                tokio::time::sleep(Duration::from_millis(3)).await;
                let client = Client::connect(format!("unix:{}", socket.display())).await;
                drop(way);
                client.expect("a node that was found").close().await;
                found += 1;
            } else {
                drop(way);
                node.stopped().await.unwrap();
                node = start(&folder).await;
            }
        }
        assert!((1..200).contains(&found), "both cases were met: {found}");
    }
}
