//! The workload: clients that ask in a closed loop, as in the papers.

use std::fmt;

use kgate_core::Span;

use crate::disturbance::Chance;
use crate::rng::Rng;

/// The workload: clients of the first `requesters` processes ask, hold, pause and ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The number of processes whose clients ask, from p0 on (vcube-2018: LOW is k of them, HIGH
    /// all).
    pub requesters: u32,
    /// When each client asks first; a random pause comes on top.
    pub first_request: Span,
    /// How long each client holds a grant (vcube-2018: e; timer-free-2009: alpha).
    pub hold: Span,
    /// How long each client pauses after a release (vcube-2018: tau; timer-free-2009: beta).
    pub think: Think,
    /// How often each client asks; unlimited if none.
    pub entries: Option<u32>,
    /// Whether each client asks again halfway through its stay inside, instead of after a pause.
    pub ask_inside: bool,
    /// The number of clients per process, each in a loop of its own.
    pub clients: u32,
    /// The largest weight: each request samples a weight from 1 to this, or to the k that its
    /// process knows.
    pub weight_max: u32,
    /// How likely a client withdraws its request before the grant.
    pub withdraw: Chance,
    /// The longest time such a client waits; sampled from 0 to this.
    pub patience: Span,
}

impl Load {
    /// One client per process, with requests of weight 1 that wait as long as it takes.
    pub const PLAIN: Self = Self {
        requesters: 1,
        first_request: Span::ZERO,
        hold: Span::ZERO,
        think: Think::Constant(Span::ZERO),
        entries: None,
        ask_inside: false,
        clients: 1,
        weight_max: 1,
        withdraw: Chance::NEVER,
        patience: Span::UNIT,
    };

    /// The pause before the first request of a client.
    pub(crate) fn first_pause(&self, rng: &mut Rng) -> Span {
        match self.think {
            Think::Constant(_) => Span::ZERO,
            think @ Think::Gaussian { .. } => think.sample(rng),
        }
    }

    /// Whether the load needs a protocol with numbered slots.
    pub(crate) fn needs_slots(&self) -> bool {
        self.clients > 1 || self.weight_max > 1 || self.withdraw > Chance::NEVER
    }
}

/// The pause between a release and the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// A constant pause.
    Constant(Span),
    /// Normally distributed, cut off at 0 (timer-free-2009 section 5.1).
    Gaussian {
        /// The mean.
        mean: Span,
        /// The deviation.
        deviation: Span,
    },
}

impl Think {
    /// A pause that few samples exceed.
    pub fn typical(&self) -> Span {
        match *self {
            Self::Constant(span) => span,
            Self::Gaussian { mean, deviation } => mean + deviation.times(6),
        }
    }

    /// Samples the next pause.
    // Whole nanoseconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(crate) fn sample(&self, rng: &mut Rng) -> Span {
        match *self {
            Self::Constant(span) => span,
            Self::Gaussian { mean, deviation } => {
                Span((mean.0 as f64 + rng.normal() * deviation.0 as f64).max(0.0) as u64)
            }
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(f, "{span}"),
            Self::Gaussian { mean, deviation } => write!(f, "gaussian={mean},{deviation}"),
        }
    }
}
