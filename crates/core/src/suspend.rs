//! A clean stop, after which the same incarnation goes on.

use crate::Protocol;

/// What a node needs to stop a process cleanly and to resume it later.
pub trait Suspend: Protocol {
    /// The complete state of this process, to be stored at a clean stop (LEASES R1). After the call
    /// the process takes no more inputs. A process that is started once with this state resumes the
    /// same incarnation, as if it had only paused and had lost every message in between. `None` if
    /// the protocol cannot be suspended, or not with these options.
    fn suspend(&self) -> Option<Self::Durable> {
        None
    }
}
