//! Who asks, and when: a closed loop, as in the papers.

use std::fmt;

use kgate_core::Span;

use crate::disturbance::Chance;
use crate::rng::Rng;

/// The first `requesters` processes ask, hold, pause and ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many processes ask: p0 .. . vcube-2018: LOW is k of them, HIGH all.
    pub requesters: u32,
    /// When each asks first; where pauses are drawn, after a first pause.
    pub first_request: Span,
    /// How long each holds a unit (vcube-2018: e; timer-free-2009: alpha).
    pub hold: Span,
    /// How long each waits after a release before it asks again (vcube-2018: tau; timer-free-2009:
    /// beta).
    pub think: Think,
    /// How often each asks; without a bound until the run ends.
    pub entries: Option<u32>,
    /// Whether each asks again while it is still inside, halfway through, instead of after a pause.
    pub ask_inside: bool,
    /// How many clients ask at each of these processes, each in a loop of its own.
    pub clients: u32,
    /// The most units that a client asks for at once: each request draws from 1 to this, or to the
    /// k that its process knows.
    pub weight_max: u32,
    /// How likely a client gives up before it is granted what it asked for.
    pub withdraw: Chance,
    /// How long such a client waits at most; drawn from 0 to this.
    pub patience: Span,
}

impl Load {
    /// One client a process, which asks for one unit and waits as long as it takes.
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

    /// How long after the time of the first request a client asks for the first time.
    pub(crate) fn first_pause(&self, rng: &mut Rng) -> Span {
        match self.think {
            Think::Constant(_) => Span::ZERO,
            drawn @ Think::Gaussian { .. } => drawn.draw(rng),
        }
    }

    /// Whether it asks for what only protocols with numbered slots know.
    pub(crate) fn needs_slots(&self) -> bool {
        self.clients > 1 || self.weight_max > 1 || self.withdraw > Chance::NEVER
    }
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// Always the same.
    Constant(Span),
    /// Normally distributed; what would be negative is 0 (timer-free-2009 section 5.1).
    Gaussian {
        /// The mean.
        mean: Span,
        /// The deviation.
        deviation: Span,
    },
}

impl Think {
    /// A pause that few draws exceed.
    pub fn typical(&self) -> Span {
        match *self {
            Self::Constant(span) => span,
            Self::Gaussian { mean, deviation } => mean + deviation.times(6),
        }
    }

    /// The next pause.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // Whole nanoseconds.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Span {
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
