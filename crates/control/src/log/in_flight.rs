//! Commands that wait to be committed, so that equal commands become one entry.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::wire::LeaderReply;

type Replies = watch::Receiver<Option<LeaderReply>>;

/// The commands that are being written, by their encoding.
#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<BTreeMap<Vec<u8>, Replies>>);

/// The first task with a command writes it; the others wait for its reply.
pub(super) enum Joined<'a> {
    Writer(Writer<'a>),
    Waiter(Waiter),
}

/// The task that must write the command. Dropped without a reply, another task may write it.
pub(super) struct Writer<'a> {
    all: &'a InFlight,
    bytes: Vec<u8>,
    reply: watch::Sender<Option<LeaderReply>>,
}

/// A task that waits for the one that writes the same command.
pub(super) struct Waiter(Replies);

impl InFlight {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Replies>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self, bytes: &[u8]) -> Joined<'_> {
        let mut all = self.all();
        if let Some(replies) = all.get(bytes) {
            return Joined::Waiter(Waiter(replies.clone()));
        }
        let (reply, replies) = watch::channel(None);
        all.insert(bytes.to_vec(), replies);
        Joined::Writer(Writer { all: self, bytes: bytes.to_vec(), reply })
    }
}

impl Writer<'_> {
    pub(super) fn finish(self, reply: LeaderReply) {
        self.reply.send_replace(Some(reply));
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.all.all().remove(&self.bytes);
    }
}

impl Waiter {
    /// The reply; none, if the writer gave up.
    pub(super) async fn reply(mut self) -> Option<LeaderReply> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|reply| reply.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second task waits for the reply of the first. If the first gives up, the next one writes.
    /// A command that is finished is not in flight any more.
    #[tokio::test]
    async fn one_task_writes() {
        let all = InFlight::default();
        let Joined::Writer(first) = all.join(b"x") else { panic!("nothing is in flight") };
        let Joined::Waiter(same) = all.join(b"x") else { panic!("x is in flight") };
        assert!(matches!(all.join(b"y"), Joined::Writer(_)));
        drop(first);
        assert_eq!(same.reply().await, None);
        let Joined::Writer(again) = all.join(b"x") else { panic!("the first gave up") };
        let Joined::Waiter(same) = all.join(b"x") else { panic!("x is in flight") };
        again.finish(LeaderReply::ReadAt(7));
        assert_eq!(same.reply().await, Some(LeaderReply::ReadAt(7)));
        assert!(matches!(all.join(b"x"), Joined::Writer(_)));
    }
}
