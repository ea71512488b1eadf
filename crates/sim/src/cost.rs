//! The cost of a message: three readings of vcube-2018 section 8.1.
//!
//! "Each message exchanged between two processes consumes t_s + t_t + t_r time units ... if a
//! message is sent to multiple destinations, t_s is multiplied by the number of copies sent." The
//! text leaves open whether sends wait for each other, so the reading is an option. Messages of a
//! detector take t_s + t_t + t_r and never wait.

use kgate_core::Span;

use crate::latency::Latency;

/// How sends delay later sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendCost {
    /// One FIFO send queue per process: every copy occupies it for t_s. The literal reading, and
    /// the default.
    Queue,
    /// The i-th copy of a send to several destinations leaves after i x t_s; sends do not wait for
    /// each other.
    Staggered,
    /// Every copy leaves after t_s.
    Flat,
}

/// How receives delay later receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveCost {
    /// Every message takes t_r, in parallel.
    Parallel,
    /// One FIFO receive queue per process: every message occupies it for t_r.
    Queue,
}

/// The cost of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// t_s.
    pub send: Span,
    /// t_t.
    pub latency: Latency,
    /// t_r.
    pub receive: Span,
    /// Whether sends wait for each other.
    pub send_cost: SendCost,
    /// Whether receives wait for each other.
    pub receive_cost: ReceiveCost,
    /// Whether messages of one process to another never overtake each other.
    pub fifo: bool,
}

impl Cost {
    /// The longest delay of a detector's message; none if it has no bound.
    pub fn longest_delay(&self) -> Option<Span> {
        self.latency.most().map(|most| self.send + most + self.receive)
    }
}
