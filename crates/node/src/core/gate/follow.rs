//! A gate whose protocol follows the agreed log by snapshots: `home` (docs/internals/home.md).
//!
//! Its protocol starts when the gate is first used here: by a client, or by a message. Until then
//! this node has said nothing in its incarnation, so a protocol that starts with what the log says
//! now is where it would be if it had started with the gate.

use std::sync::Arc;

use kgate_core::{Input, LogView};

use super::Gate;
use crate::core::RequestKey;

impl Gate {
    /// Whether the protocol takes what the log says by snapshots.
    pub(in crate::core) fn follows_log(&self) -> bool {
        self.follows_log
    }

    /// Whether the gate was used here.
    pub(in crate::core) fn is_started(&self) -> bool {
        self.driver.is_some()
    }

    /// The log says this of the gate from now on. Precedes the release of a grant whose slots the
    /// log holds by it (rule H14).
    pub(in crate::core) fn applied(&mut self, view: Arc<LogView>) {
        self.drive(Input::Applied(view)).expect("the slots of the log are in order");
        self.submit_more();
    }

    /// The client of a request is gone without having released its permit, and all has been applied
    /// here that the log had decided by then (rule H13). The protocol may have ended the grant
    /// before: then nothing changes.
    pub(in crate::core) fn lapse(&mut self, key: RequestKey) {
        let holder = self.holding.iter().find(|(_, holder)| holder.key == key);
        let Some(grant) = holder.map(|(grant, _)| *grant) else { return };
        self.holding.remove(&grant);
        self.drive(Input::Lapse { grant }).expect("a grant that was not lost can lapse");
        self.submit_more();
    }
}
