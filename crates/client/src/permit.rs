//! A permit in hand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use crate::session::Command;
use crate::{LeaseInstant, Shared};

/// What a session was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) number: u64,
    pub(crate) slots: Vec<u32>,
    pub(crate) fence: Option<u128>,
    pub(crate) k: u32,
    /// Why it no longer counts, once it does not.
    pub(crate) lost: watch::Receiver<Option<String>>,
}

/// A permit. Dropped, it is given back.
pub struct Permit {
    shared: Arc<Shared>,
    gate: String,
    granted: Granted,
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Granted { slots, k, .. } = &self.granted;
        write!(
            f,
            "Permit {{ gate: {:?}, slots: {slots:?}, fence: {:?}, k: {k} }}",
            self.gate,
            self.fence_text()
        )
    }
}

/// Sleep is counted by a clock that stops while the machine is suspended: the lease clock is looked
/// at as often.
const LOOK: Duration = Duration::from_millis(100);

impl Permit {
    pub(crate) fn new(shared: Arc<Shared>, gate: String, granted: Granted) -> Self {
        Self { shared, gate, granted }
    }

    /// Of which gate.
    pub fn gate(&self) -> &str {
        &self.gate
    }

    /// Its slots, below k; none where the gate's protocol does not number them.
    pub fn slots(&self) -> &[u32] {
        &self.granted.slots
    }

    /// Its fence: greater than that of everybody who had one of its slots before. None where the
    /// gate's protocol has none.
    pub fn fence(&self) -> Option<u128> {
        self.granted.fence
    }

    /// The fence as 32 hexadecimal digits, whose order is that of the numbers.
    pub fn fence_text(&self) -> Option<String> {
        self.granted.fence.map(|fence| format!("{fence:032x}"))
    }

    /// The gate's k when it was granted.
    pub fn k(&self) -> u32 {
        self.granted.k
    }

    /// Through which node.
    pub fn node(&self) -> u32 {
        self.shared.node
    }

    /// For how long it surely counts from now on, if the node is not heard again; without end where
    /// permits are bound to processes.
    pub fn remaining(&self) -> Duration {
        if self.granted.lost.borrow().is_some() {
            return Duration::ZERO;
        }
        self.shared.until.borrow().after(LeaseInstant::now())
    }

    /// It is bound to a lock that its holder has taken: it counts for as long as that is held,
    /// whatever becomes of the node. For nodes that look at such locks.
    pub fn bind(&self) {
        let _ = self.shared.commands.send(Command::Bind(self.granted.number));
    }

    /// Whether it no longer counts.
    pub fn is_lost(&self) -> bool {
        self.granted.lost.borrow().is_some() || self.is_late()
    }

    /// Its time has passed, whatever the session is busy with.
    fn is_late(&self) -> bool {
        *self.shared.until.borrow() <= LeaseInstant::now()
    }

    /// Waits until it no longer counts, and says why: whatever was done with it must stop.
    pub async fn lost(&self) -> String {
        let (mut lost, mut until) = (self.granted.lost.clone(), self.shared.until.clone());
        loop {
            let left = until.borrow_and_update().after(LeaseInstant::now());
            if left.is_zero() {
                return "its node was not heard in time".into();
            }
            // The session may be dialling when the time is over: nobody waits for that.
            tokio::select! {
                why = lost.wait_for(Option::is_some) => {
                    return why.ok().and_then(|why| why.clone()).unwrap_or_else(|| "the session has ended".into());
                }
                Ok(()) = until.changed() => {}
                () = tokio::time::sleep(left.min(LOOK)) => {}
            }
        }
    }

    /// Gives it back, and waits until the node has heard of it.
    pub async fn release(self) {
        let (done, heard) = oneshot::channel();
        let _ = self.shared.commands.send(Command::Release(self.granted.number, Some(done)));
        let _ = heard.await;
        // The drop that follows releases it once more, which is nothing.
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let _ = self.shared.commands.send(Command::Release(self.granted.number, None));
    }
}
