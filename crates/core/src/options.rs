//! Options of an algorithm with numbered slots. Every choice is safe.

use crate::Span;

/// Options of an algorithm with numbered slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotOptions {
    /// How a request reaches the other processes.
    pub dissemination: Dissemination,
    /// The source from which a process learns the membership.
    pub membership: MembershipSource,
    /// A process whose own request is older answers only when that request is decided (flat
    /// dissemination only).
    pub defer: bool,
    /// A decision is not announced if no other process could use the announcement.
    pub quiet: bool,
    /// A slot that no process requests stays cached where it was used last: using it again costs no
    /// message.
    pub keep: bool,
    /// How often a slot may pass from client to client of one process while others wait for it.
    pub cohort: u16,
    /// The number of slots that a process requests at once, on behalf of several waiting clients; 1
    /// for one client at a time.
    pub batch: u32,
    /// The number of independent queues into which the slots are split.
    pub lanes: u32,
    /// The interval at which a process repeats its request to the processes that have not answered,
    /// on links that lose messages; also the time that a waiting request stays in a single lane.
    pub ask_again: Option<Span>,
    /// At k = 1 a holder hands its slot over directly to the next one (`home`): one delay instead
    /// of two, for one message more.
    pub pass: bool,
    /// The next home knows which slots the clients of the home may have (`home`): all others go on
    /// as soon as the home is found unfit, not only when it is evicted. The first time that a
    /// client of the home gets a slot, it waits for the witness.
    pub witness: bool,
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
            pass: false,
            witness: false,
        }
    }
}

/// How a request reaches the other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dissemination {
    /// Chosen by the number of processes.
    #[default]
    Auto,
    /// Sent to each process directly.
    Flat,
    /// Sent down a tree; the answers are combined on the way back up.
    Tree,
}

/// The source from which a process learns the membership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MembershipSource {
    /// An agreed log: every process learns of every loss and every return, in one order.
    #[default]
    Log,
    /// Messages of the returning processes; losses by a perfect detector. At least one process must
    /// always be up.
    Join,
}
