//! Transient faults, as the simulator injects them.

use crate::{NodeId, Protocol, Setup};

/// How transient faults strike a self-stabilizing protocol, and when it has recovered from them.
/// The defaults say that the protocol does not claim to recover; the simulator then injects none.
pub trait TransientFaults: Protocol {
    /// Corrupts this process: each of its variables becomes an arbitrary value of its domain,
    /// except the ones it shares with its client (whether the client waits or holds). `below(b)`
    /// draws a number below `b`. Returns `false`, and changes nothing, if the protocol does not
    /// claim to recover from such a fault.
    fn scramble(&mut self, _below: &mut dyn FnMut(u64) -> u64) -> bool {
        false
    }

    /// Whether the processes together, in their present states, have recovered from every
    /// transient fault: from here on they are correct. Only an observer of the whole system can
    /// evaluate this.
    fn settled(_processes: &[Self]) -> bool {
        true
    }

    /// A message from `from` to the process of `setup` that no process sent, as a transient fault
    /// may leave it in a channel. `None` if the protocol does not claim to tolerate such messages.
    fn forge(
        _setup: &Setup,
        _from: NodeId,
        _below: &mut dyn FnMut(u64) -> u64,
    ) -> Option<Self::Message> {
        None
    }
}
