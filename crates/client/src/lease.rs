//! The durations of a session, as the node announces them in its welcome.

use std::time::Duration;

use kgate_api::v1::Welcome;

/// The renewal interval, if the node does not announce one.
const RENEW: Duration = Duration::from_millis(500);
/// The part of the lease that is reserved for renewals, two of which may be lost, if the node does
/// not announce `stop_max`.
const RENEWALS: Duration = Duration::from_millis(1500);

/// How long the permits of a session are valid, and how much time that leaves their holders to
/// stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// L: maximum validity after the last renewal of the session. None if permits are bound to
    /// processes instead of time.
    pub length: Option<Duration>,
    /// I_s: the interval at which the client renews the session.
    pub renew_every: Duration,
    /// G + K: maximum time the holder of a permit may take to stop, from the first notice until its
    /// death is certain. None if permits are bound to processes.
    pub stop_max: Option<Duration>,
    /// K: the part of `stop_max` that the node reserves between SIGKILL and the death of a process.
    /// None if the node does not announce it.
    pub kill: Option<Duration>,
}

impl Lease {
    pub(crate) fn of(welcome: &Welcome) -> Self {
        let length = welcome.lease_ns.or(welcome.valid_for_ns).map(Duration::from_nanos);
        let renew_every = welcome.renew_every_ns.map_or(RENEW, Duration::from_nanos);
        let stop_max = welcome.stop_max_ns.map(Duration::from_nanos);
        Self {
            length,
            // A misconfigured node must not make its clients spin.
            renew_every: renew_every.max(Duration::from_millis(10)),
            stop_max: stop_max.or(length.map(|length| length.saturating_sub(RENEWALS))),
            kill: welcome.kill_ns.map(Duration::from_nanos),
        }
    }

    /// The silence of the node after which the connection counts as lost. None if permits are
    /// bound to processes: then silence means nothing.
    pub(crate) fn max_silence(self) -> Option<Duration> {
        self.length.map(|length| length.max(self.renew_every * 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A welcome with all durations is taken as it is; absent durations get defaults; a welcome
    /// without a lease means no limit.
    #[test]
    fn a_welcome_announces_the_lease() {
        let ms = Duration::from_millis;
        let nanoseconds = |span: u64| Some(span * 1_000_000);
        let welcome = Welcome {
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
        assert_eq!((Lease::of(&welcome), lease.max_silence()), (lease, Some(ms(700))));
        let defaults =
            Lease::of(&Welcome { valid_for_ns: nanoseconds(4000), ..Welcome::default() });
        assert_eq!(
            defaults,
            Lease {
                length: Some(ms(4000)),
                renew_every: ms(500),
                stop_max: Some(ms(2500)),
                kill: None
            }
        );
        let endless = Lease::of(&Welcome::default());
        assert_eq!((endless.length, endless.stop_max, endless.max_silence()), (None, None, None));
        assert_eq!(Lease::of(&Welcome { renew_every_ns: Some(0), ..welcome }).renew_every, ms(10));
    }
}
