//! Asking for permits of a gate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::session::{Command, Wish};
use crate::{Error, Permit, Refusal, Shared};
use kgate_api::v1;

/// A gate, and how permits of it are asked for.
#[derive(Clone, Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    wish: Wish,
    timeout: Option<Duration>,
}

impl Gate {
    pub(crate) fn new(shared: Arc<Shared>, gate: String) -> Self {
        let wish = Wish {
            gate,
            permits: 1,
            k: None,
            no_wait: false,
            process: None,
            margin: Duration::ZERO,
        };
        Self { shared, wish, timeout: None }
    }

    /// So many permits at once; 1 if this is not called.
    pub fn permits(mut self, permits: u32) -> Self {
        self.wish.permits = permits;
        self
    }

    /// The gate must have this k; a new one gets it. Without this its own k counts, and a new one
    /// has 1.
    pub fn k(mut self, k: u32) -> Self {
        self.wish.k = Some(k);
        self
    }

    /// Waits no longer than that.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Whoever gets the permit needs so long to stop: it is handed over only while more than that
    /// is left of its time, and held back or given back otherwise.
    pub fn needs(mut self, margin: Duration) -> Self {
        self.wish.margin = margin;
        self
    }

    /// On behalf of another process: what people are shown.
    pub fn on_behalf_of(mut self, process: v1::Process) -> Self {
        self.wish.process = Some(process);
        self
    }

    /// A permit, as soon as there is one. Dropped before that, the request is taken back.
    pub async fn acquire(self) -> Result<Permit, Error> {
        let Some(timeout) = self.timeout else { return self.ask().await };
        match tokio::time::timeout(timeout, self.ask()).await {
            Ok(permit) => permit,
            Err(_) => Err(Error::TimedOut(timeout)),
        }
    }

    /// A permit if there is one now; none if all are in use.
    pub async fn try_acquire(mut self) -> Result<Option<Permit>, Error> {
        self.wish.no_wait = true;
        match self.acquire().await {
            Ok(permit) => Ok(Some(permit)),
            Err(Error::Refused(Refusal { code: v1::ErrorCode::Busy, .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn ask(&self) -> Result<Permit, Error> {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::NoNode {
            address: self.shared.address.to_string(),
            why: "the session has ended".into(),
        };
        let number = self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let asked = Command::Acquire(number, self.wish.clone(), answer);
        self.shared.commands.send(asked).map_err(|_| gone())?;
        let mut asked = Asked { shared: &self.shared, number, answered: false };
        let granted = answered.await.map_err(|_| gone())??;
        asked.answered = true;
        Ok(Permit::new(self.shared.clone(), self.wish.gate.clone(), granted))
    }
}

/// A request that is under way. Dropped before its answer, it is taken back; so is a permit that
/// nobody has picked up.
struct Asked<'a> {
    shared: &'a Shared,
    number: u64,
    answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let _ = self.shared.commands.send(Command::Withdraw(self.number));
        }
    }
}
