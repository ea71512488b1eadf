//! What one client may use of a node at once: sessions, waiting requests, connections, requests a
//! second.
//!
//! ```toml
//! [limits]                        # of each certificate, token, user or address by itself
//! sessions = 20_000
//! waiting = 50_000
//! connections = 10_000
//! requests_per_second = 20_000    # 0: as many as it likes
//! burst = 40_000
//! message_bytes = 65_536          # the longest message that is read
//! ```
//!
//! What gives back is never refused, or a client could neither renew nor release what it holds:
//! only what asks for more is. Here is no clock: whoever calls says the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kgate_core::{Span, Time};
use serde::Deserialize;

use super::authorisation::Identity;

/// The limits of each client.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Sessions, including those that may still reconnect.
    pub sessions: usize,
    /// Waiting requests.
    pub waiting: usize,
    /// Open connections.
    pub connections: usize,
    /// Sustained requests per second; 0 disables the limit.
    pub requests_per_second: u32,
    /// Requests that may come at once after an idle time.
    pub burst: u32,
    /// Maximum size of a message to the API, in bytes; at least 1024.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 20_000,
            waiting: 50_000,
            connections: 10_000,
            requests_per_second: 20_000,
            burst: 40_000,
            message_bytes: 65_536,
        }
    }
}

/// A bucket of tokens, as the one instant up to which what was taken has been paid for (GCRA).
///
/// Each request costs one interval; whoever would be more than a burst of intervals ahead of the
/// clock is too early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    paid_until: Time,
}

impl Bucket {
    /// Takes one, or says in how long there will be one.
    pub fn take(&mut self, now: Time, per_second: u32, burst: u32) -> Result<(), Span> {
        if per_second == 0 {
            return Ok(());
        }
        let each = Span((1_000_000_000 / u64::from(per_second)).max(1));
        let begins = self.paid_until.max(now);
        let ahead = begins.since(now) + each;
        let most = each.times(u64::from(burst.max(1)));
        if ahead > most {
            return Err(Span(ahead.0 - most.0));
        }
        self.paid_until = begins + each;
        Ok(())
    }

    fn is_full(&self, now: Time) -> bool {
        self.paid_until <= now
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sessions.
    Session,
    /// Waiting requests.
    Waiting,
    /// Connections.
    Connection,
}

/// What one client uses.
#[derive(Debug, Default)]
struct Account {
    used: [usize; 3],
    bucket: Bucket,
}

/// A client would use too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TooMuch {
    /// Of this, with the limit.
    Of(Kind, usize),
    /// Requests a second; in so long it may ask again.
    Fast(Span, u32),
}

impl TooMuch {
    /// For people: whose limit, which, and what to do.
    pub fn text(&self, who: &Identity) -> String {
        let (what, field, most) = match self {
            Self::Of(Kind::Session, most) => ("sessions", "sessions", *most),
            Self::Of(Kind::Waiting, most) => ("requests that wait", "waiting", *most),
            Self::Of(Kind::Connection, most) => ("connections", "connections", *most),
            Self::Fast(again, rate) => {
                let wait = again.0.div_ceil(1_000_000);
                return format!(
                    "{who} asks more than {rate} times a second: ask again in {wait} ms, or raise requests_per_second in [limits] of this node"
                );
            }
        };
        format!(
            "{who} has {most} {what}, its most: end some, or raise {field} in [limits] of this node"
        )
    }
}

/// So many idle accounts are kept before they are cleared away.
const IDLE: usize = 1024;

/// What all clients use.
#[derive(Clone, Debug)]
pub struct Accounts {
    limits: Limits,
    used: Arc<Mutex<BTreeMap<Identity, Account>>>,
}

impl Accounts {
    /// Nobody uses anything.
    pub fn new(limits: Limits) -> Self {
        Self { limits, used: Arc::default() }
    }

    /// The limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts one more, until what is returned is dropped.
    pub fn enter(&self, now: Time, who: &Identity, kind: Kind) -> Result<Counted, TooMuch> {
        let most = match kind {
            Kind::Session => self.limits.sessions,
            Kind::Waiting => self.limits.waiting,
            Kind::Connection => self.limits.connections,
        };
        let mut used = self.lock(now, who);
        let account = used.entry(who.clone()).or_default();
        let count = &mut account.used[kind as usize];
        if *count >= most {
            return Err(TooMuch::Of(kind, most));
        }
        *count += 1;
        Ok(Counted { used: self.used.clone(), who: who.clone(), kind })
    }

    /// One request.
    pub fn ask(&self, now: Time, who: &Identity) -> Result<(), TooMuch> {
        let Limits { requests_per_second: rate, burst, .. } = self.limits;
        if rate == 0 {
            return Ok(());
        }
        let mut used = self.lock(now, who);
        let account = used.entry(who.clone()).or_default();
        account.bucket.take(now, rate, burst).map_err(|again| TooMuch::Fast(again, rate))
    }

    fn lock(&self, now: Time, who: &Identity) -> MutexGuard<'_, BTreeMap<Identity, Account>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // Who can come from many addresses could fill the memory with accounts of nobody.
        if used.len() >= IDLE && !used.contains_key(who) {
            used.retain(|_, account| account.used != [0; 3] || !account.bucket.is_full(now));
        }
        used
    }
}

/// One that is counted until this is dropped.
#[derive(Debug)]
pub struct Counted {
    used: Arc<Mutex<BTreeMap<Identity, Account>>>,
    who: Identity,
    kind: Kind,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = used.get_mut(&self.who) {
            account.used[self.kind as usize] -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn somebody(last: u8) -> Identity {
        Identity::Stranger([10, 0, 0, last].into())
    }

    /// A full bucket gives its burst at once and then one an interval; what is not taken is kept up
    /// to the burst and no further.
    #[test]
    fn the_bucket() {
        let mut bucket = Bucket::default();
        let mut now = Time(7 * SECOND);
        let mut take = |now| bucket.take(now, 10, 3);
        assert_eq!([take(now), take(now), take(now)], [Ok(()), Ok(()), Ok(())]);
        assert_eq!(take(now), Err(Span(SECOND / 10)));
        now += Span(SECOND / 20);
        assert_eq!(take(now), Err(Span(SECOND / 20)), "what it said, less what has passed");
        now += Span(SECOND / 20);
        assert_eq!([take(now), take(now)], [Ok(()), Err(Span(SECOND / 10))]);
        now += Span(3600 * SECOND);
        let got = (0..10).filter(|_| take(now).is_ok()).count();
        assert_eq!(got, 3, "an hour of silence is worth one burst");
    }

    /// In any time T no more than burst + T * rate get through, however they come; and whoever
    /// comes when it was told gets through.
    #[test]
    fn the_bucket_under_any_arrivals() {
        let (rate, burst) = (1000, 20);
        let mut seed = 1_u64;
        let mut bucket = Bucket::default();
        let (mut now, mut got, begun) = (Time(SECOND), 0_u64, Time(SECOND));
        for _ in 0..100_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            now += Span((seed >> 33) % 1_000_000);
            match bucket.take(now, rate, burst) {
                Ok(()) => got += 1,
                Err(wait) => {
                    let mut later = bucket;
                    assert_eq!(later.take(now + wait, rate, burst), Ok(()), "it kept its word");
                }
            }
            assert!(got <= u64::from(burst) + now.since(begun).0 * u64::from(rate) / SECOND + 1);
        }
        let fair = now.since(begun).0 * u64::from(rate) / SECOND;
        assert!(got >= fair * 9 / 10, "{got} of {fair}: it gives what it promises");
    }

    /// No limit, and the greatest of all values, are no trouble.
    #[test]
    fn the_edges_of_the_bucket() {
        let mut bucket = Bucket::default();
        assert!((0..1000).all(|_| bucket.take(Time::ZERO, 0, 0).is_ok()));
        assert_eq!(bucket.take(Time::NEVER, u32::MAX, u32::MAX), Ok(()));
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(Time::ZERO, 1, 0), Ok(()), "a burst of none is one");
        assert!(bucket.take(Time::ZERO, 1, 0).is_err());
    }

    /// Each client has limits of its own; what is dropped may be used again; the text names who,
    /// what and how many.
    #[test]
    fn accounts() {
        let accounts = Accounts::new(Limits { sessions: 2, waiting: 1, ..Limits::default() });
        let now = Time(SECOND);
        let first = accounts.enter(now, &somebody(1), Kind::Session).unwrap();
        let _second = accounts.enter(now, &somebody(1), Kind::Session).unwrap();
        let refused = accounts.enter(now, &somebody(1), Kind::Session).unwrap_err();
        assert!(
            refused.text(&somebody(1)).contains("10.0.0.1")
                && refused.text(&somebody(1)).contains("2 sessions")
        );
        assert!(accounts.enter(now, &somebody(2), Kind::Session).is_ok());
        assert!(accounts.enter(now, &somebody(1), Kind::Waiting).is_ok(), "each kind by itself");
        drop(first);
        assert!(accounts.enter(now, &somebody(1), Kind::Session).is_ok());
    }

    /// However many addresses ask, what is kept of them is bounded once they are quiet.
    #[test]
    fn accounts_of_nobody_go() {
        let accounts = Accounts::new(Limits::default());
        let held = accounts.enter(Time::ZERO, &somebody(1), Kind::Connection).unwrap();
        for address in 0..5000_u32 {
            let who = Identity::Stranger(std::net::Ipv4Addr::from(address).into());
            accounts.ask(Time(u64::from(address) * SECOND), &who).unwrap();
        }
        let used = accounts.used.lock().unwrap();
        assert!(used.len() <= IDLE + 1, "{}", used.len());
        assert!(used.contains_key(&somebody(1)), "somebody is still there");
        drop(used);
        drop(held);
    }
}
