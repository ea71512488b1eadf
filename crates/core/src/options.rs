//! How an algorithm with numbered slots goes about it. Each is a choice between ways that are all
//! safe.

use crate::Span;

/// How an algorithm with numbered slots goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotOptions {
    /// How a request reaches everybody.
    pub dissemination: Dissemination,
    /// From whom a process learns who takes part.
    pub membership: MembershipSource,
    /// A process that asked earlier answers once its own request is decided (flat dissemination
    /// only).
    pub defer: bool,
    /// A decision of which nobody could make use is not announced.
    pub quiet: bool,
    /// A slot that nobody asks for stays where it was used last: to use it again costs no message.
    pub keep: bool,
    /// How often a slot may go from client to client of one process while others wait for it.
    pub cohort: u16,
    /// For how many units a process asks at once, on behalf of several clients that wait: 1 for one
    /// client at a time.
    pub batch: u32,
    /// Into how many independent queues the slots are split.
    pub lanes: u32,
    /// How often a process asks again whoever has not answered, on links that lose messages; and
    /// how long a waiter is content with one lane.
    pub ask_again: Option<Span>,
}

impl Default for SlotOptions {
    fn default() -> Self {
        Self {
            dissemination: Dissemination::Auto,
            membership: MembershipSource::Log,
            defer: true,
            quiet: true,
            keep: true,
            cohort: 4,
            batch: 1,
            lanes: 1,
            ask_again: None,
        }
    }
}

/// How a request reaches everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dissemination {
    /// As suits the number of processes.
    #[default]
    Auto,
    /// Straight to each.
    Flat,
    /// Down a tree, and the answers, put together, back up.
    Tree,
}

/// From whom a process learns who takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MembershipSource {
    /// From an agreed log: everybody is told of every loss and every return, in one order.
    #[default]
    Log,
    /// From whoever is back, by messages; losses by a perfect detector. Some process must always be
    /// up.
    Join,
}
