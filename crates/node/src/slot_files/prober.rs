//! Finds out when slots are free whose holder is gone or has said that it is done.
//!
//! One thread tries the locks of all such slots again and again. A thread per slot could wait
//! without trying, but the clients decide how many there are, and threads are few.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;

use super::remove_if_free;
use crate::holder_tree::HolderTree;
use crate::shell::Command;

/// Pause between two attempts, and what each watched request adds to it.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_EACH: Duration = Duration::from_micros(50);

/// Slots to watch, and the command for the shell when they are free.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The process tree whose front has to end first.
    pub(crate) tree: Option<Arc<HolderTree>>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) command: Command,
}

impl Watched {
    /// Whether no process uses the slots. Files that are not locked are removed.
    fn is_free(&mut self) -> bool {
        if self.tree.as_ref().is_some_and(|tree| !tree.is_front_gone()) {
            return false;
        }
        self.files.retain(|file| !remove_if_free(file));
        self.files.is_empty()
    }
}

/// The thread that tries the locks; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Prober(Sender<Watched>);

impl Prober {
    pub(crate) fn start(shell: WeakSender<Command>) -> std::io::Result<Self> {
        let (sender, watched) = channel();
        let thread = std::thread::Builder::new().name("slot-prober".into());
        thread.spawn(move || probe(&watched, &shell))?;
        Ok(Self(sender))
    }

    /// Sends the command to the shell when no process has locked any of the files, which are then
    /// removed. A process that never locked them does not use them.
    pub(crate) fn when_free(&self, watched: Watched) {
        // The thread ends only with this prober, or with the shell.
        let _ = self.0.send(watched);
    }
}

fn probe(incoming: &Receiver<Watched>, shell: &WeakSender<Command>) {
    let mut watched: Vec<Watched> = Vec::new();
    loop {
        let pause = PAUSE + PAUSE_EACH * u32::try_from(watched.len()).unwrap_or(u32::MAX);
        let next = match watched.is_empty() {
            true => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => incoming.recv_timeout(pause),
        };
        match next {
            Ok(next) => watched.push(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        watched.extend(incoming.try_iter());
        for Watched { command, .. } in watched.extract_if(.., Watched::is_free) {
            let Some(shell) = shell.upgrade() else { return };
            if shell.blocking_send(command).is_err() {
                return;
            }
        }
    }
}
