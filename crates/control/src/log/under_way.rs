//! Commands that are on their way into the log, so that the same one twice is one entry.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::wire::Ruling;

/// By their bytes.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<BTreeMap<Vec<u8>, watch::Receiver<Option<Ruling>>>>);

/// Who comes first writes, the others wait for what comes of it.
pub(super) enum Joined<'a> {
    First(Writing<'a>),
    Later(Same),
}

/// The right and the duty to write a command. Dropped without a ruling, somebody else may.
pub(super) struct Writing<'a> {
    all: &'a UnderWay,
    bytes: Vec<u8>,
    tell: watch::Sender<Option<Ruling>>,
}

/// Somebody writes the same.
pub(super) struct Same(watch::Receiver<Option<Ruling>>);

impl UnderWay {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, watch::Receiver<Option<Ruling>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self, bytes: &[u8]) -> Joined<'_> {
        let mut all = self.all();
        if let Some(same) = all.get(bytes) {
            return Joined::Later(Same(same.clone()));
        }
        let (tell, told) = watch::channel(None);
        all.insert(bytes.to_vec(), told);
        Joined::First(Writing { all: self, bytes: bytes.to_vec(), tell })
    }
}

impl Writing<'_> {
    pub(super) fn done(self, ruling: Ruling) {
        self.tell.send_replace(Some(ruling));
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.all.all().remove(&self.bytes);
    }
}

impl Same {
    /// What came of it; none, if whoever wrote it has given up.
    pub(super) async fn ruling(mut self) -> Option<Ruling> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|ruling| ruling.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second waits for the first's ruling; when the first gives up, the next may write; what
    /// is done is not under way.
    #[tokio::test]
    async fn one_writes() {
        let all = UnderWay::default();
        let Joined::First(first) = all.join(b"x") else { panic!("nobody was before") };
        let Joined::Later(same) = all.join(b"x") else { panic!("somebody writes it") };
        assert!(matches!(all.join(b"y"), Joined::First(_)));
        drop(first);
        assert_eq!(same.ruling().await, None);
        let Joined::First(again) = all.join(b"x") else { panic!("the first has given up") };
        let Joined::Later(same) = all.join(b"x") else { panic!("somebody writes it") };
        again.done(Ruling::ReadAt(7));
        assert_eq!(same.ruling().await, Some(Ruling::ReadAt(7)));
        assert!(matches!(all.join(b"x"), Joined::First(_)));
    }
}
