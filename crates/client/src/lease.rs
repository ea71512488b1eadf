//! What a node promises its clients, as its welcome tells it.

use std::time::Duration;

use kgate_api::v1::Welcome;

/// How often a node that does not say otherwise is told that its client is alive.
const RENEW: Duration = Duration::from_millis(500);
/// What a node that does not say otherwise needs of its lease for renewals, two of which may be
/// lost.
const RENEWALS: Duration = Duration::from_millis(1500);

/// For how long permits count, and what that leaves to whoever must stop in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// L: so long at most a permit counts from when the session was renewed last. None where
    /// permits are bound to processes, not to time.
    pub length: Option<Duration>,
    /// I_s: how often the session is renewed.
    pub renew_every: Duration,
    /// G + K: so long whatever is done with a permit may take to stop, from the first notice until
    /// it is surely over. None where there is no need to.
    pub stop_max: Option<Duration>,
    /// K: what the node plans with from SIGKILL until a process is surely dead; a part of
    /// `stop_max`. None if it does not say.
    pub kill: Option<Duration>,
}

impl Lease {
    pub(crate) fn of(welcome: &Welcome) -> Self {
        let length = welcome.lease_ns.or(welcome.valid_for_ns).map(Duration::from_nanos);
        let renew_every = welcome.renew_every_ns.map_or(RENEW, Duration::from_nanos);
        let stop_max = welcome.stop_max_ns.map(Duration::from_nanos);
        Self {
            length,
            // A node's slip must not make its clients spin.
            renew_every: renew_every.max(Duration::from_millis(10)),
            stop_max: stop_max.or(length.map(|length| length.saturating_sub(RENEWALS))),
            kill: welcome.kill_ns.map(Duration::from_nanos),
        }
    }

    /// After so long without a word the line is as good as cut; never where time tells nothing.
    pub(crate) fn silence(self) -> Option<Duration> {
        self.length.map(|length| length.max(self.renew_every * 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node says all of it; one that does not is taken as nodes were before; one without time
    /// promises without end.
    #[test]
    fn what_a_welcome_means() {
        let ms = Duration::from_millis;
        let nanoseconds = |span: u64| Some(span * 1_000_000);
        let told = Welcome {
            valid_for_ns: nanoseconds(300),
            lease_ns: nanoseconds(700),
            renew_every_ns: nanoseconds(80),
            stop_max_ns: nanoseconds(230),
            kill_ns: nanoseconds(80),
            ..Welcome::default()
        };
        let lease = Lease {
            length: Some(ms(700)),
            renew_every: ms(80),
            stop_max: Some(ms(230)),
            kill: Some(ms(80)),
        };
        assert_eq!((Lease::of(&told), lease.silence()), (lease, Some(ms(700))));
        let before = Lease::of(&Welcome { valid_for_ns: nanoseconds(4000), ..Welcome::default() });
        assert_eq!(
            before,
            Lease {
                length: Some(ms(4000)),
                renew_every: ms(500),
                stop_max: Some(ms(2500)),
                kill: None
            }
        );
        let endless = Lease::of(&Welcome::default());
        assert_eq!((endless.length, endless.stop_max, endless.silence()), (None, None, None));
        assert_eq!(Lease::of(&Welcome { renew_every_ns: Some(0), ..told }).renew_every, ms(10));
    }
}
