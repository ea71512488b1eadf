//! Quotas of one client: sessions, waiting requests, connections, requests per second.
//!
//! ```toml
//! [limits]                        # per certificate, token, user or address
//! sessions = 20_000
//! waiting = 50_000
//! connections = 10_000
//! unfinished = 256               # messages of which a part has arrived
//! requests_per_second = 20_000    # 0: no limit
//! burst = 40_000
//! message_bytes = 65_536          # maximum size of a message
//! ```
//!
//! Only messages that ask for more resources are refused; renewals and releases never are, so that
//! a client can always keep or release what it holds. This module reads no clock: callers pass the
//! time.

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
    /// A waiting request.
    pub waiting: usize,
    /// Open connections.
    pub connections: usize,
    /// Messages of gRPC or frames of which only a part has arrived. Each takes memory, up to
    /// `message_bytes`.
    pub unfinished: usize,
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
            unfinished: 256,
            requests_per_second: 20_000,
            burst: 40_000,
            message_bytes: 65_536,
        }
    }
}

/// A token bucket in the form of GCRA: one instant, up to which the requests so far have used the
/// rate.
///
/// Each request moves the instant by one interval. A request that would move it more than a burst
/// of intervals ahead of the clock is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    paid_until: Time,
}

impl Bucket {
    /// Takes one token. The error is the time until one is available.
    pub fn take(&mut self, now: Time, per_second: u32, burst: u32) -> Result<(), Span> {
        if per_second == 0 {
            return Ok(());
        }
        let each = Span((1_000_000_000 / u64::from(per_second)).max(1));
        let begins = self.paid_until.max(now);
        let ahead = begins.since(now) + each;
        let max = each.times(u64::from(burst.max(1)));
        if ahead > max {
            return Err(Span(ahead.0 - max.0));
        }
        self.paid_until = begins + each;
        Ok(())
    }

    fn is_full(&self, now: Time) -> bool {
        self.paid_until <= now
    }
}

/// A resource that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An open session.
    Session,
    /// A waiting request.
    Waiting,
    /// An open connection.
    Connection,
    /// A message of which a part has arrived.
    Unfinished,
}

/// The resources of one client.
#[derive(Debug, Default)]
struct Account {
    used: [usize; 4],
    bucket: Bucket,
}

/// A client has exhausted a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaExceeded {
    /// The maximum number of these resources.
    Count(Kind, usize),
    /// The maximum rate: the time until a retry succeeds, and the rate per second.
    Rate(Span, u32),
}

impl QuotaExceeded {
    /// The message for the client: whose quota, which one, and what to do.
    pub fn message(&self, who: &Identity) -> String {
        let (what, field, max) = match self {
            Self::Count(Kind::Session, max) => ("sessions", "sessions", *max),
            Self::Count(Kind::Waiting, max) => ("waiting requests", "waiting", *max),
            Self::Count(Kind::Connection, max) => ("connections", "connections", *max),
            Self::Count(Kind::Unfinished, max) => ("unfinished messages", "unfinished", *max),
            Self::Rate(retry, rate) => {
                let wait = retry.0.div_ceil(1_000_000);
                return format!(
                    "{who} exceeds {rate} requests per second: retry in {wait} ms, or raise \
                     requests_per_second in [limits] of this node"
                );
            }
        };
        format!(
            "{who} has reached its limit of {max} {what}: end some, or raise {field} in [limits] \
             of this node"
        )
    }
}

/// Number of accounts at which unused ones are removed.
const SWEEP_AT: usize = 1024;

/// The resources of all clients.
#[derive(Clone, Debug)]
pub struct Accounts {
    limits: Limits,
    used: Arc<Mutex<BTreeMap<Identity, Account>>>,
}

impl Accounts {
    /// No client uses anything.
    pub fn new(limits: Limits) -> Self {
        Self { limits, used: Arc::default() }
    }

    /// The limits of each client.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Counts a resource until the result is dropped.
    pub fn reserve(&self, now: Time, who: &Identity, kind: Kind) -> Result<Counted, QuotaExceeded> {
        let max = match kind {
            Kind::Session => self.limits.sessions,
            Kind::Waiting => self.limits.waiting,
            Kind::Connection => self.limits.connections,
            Kind::Unfinished => self.limits.unfinished,
        };
        let mut used = self.lock(now, who);
        let account = used.entry(who.clone()).or_default();
        let count = &mut account.used[kind as usize];
        if *count >= max {
            return Err(QuotaExceeded::Count(kind, max));
        }
        *count += 1;
        Ok(Counted { used: self.used.clone(), who: who.clone(), kind })
    }

    /// Counts one request towards the rate.
    pub fn count_request(&self, now: Time, who: &Identity) -> Result<(), QuotaExceeded> {
        let Limits { requests_per_second: rate, burst, .. } = self.limits;
        if rate == 0 {
            return Ok(());
        }
        let mut used = self.lock(now, who);
        let account = used.entry(who.clone()).or_default();
        account.bucket.take(now, rate, burst).map_err(|retry| QuotaExceeded::Rate(retry, rate))
    }

    fn lock(&self, now: Time, who: &Identity) -> MutexGuard<'_, BTreeMap<Identity, Account>> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // A client with many addresses could otherwise fill the memory with unused accounts.
        if used.len() >= SWEEP_AT && !used.contains_key(who) {
            used.retain(|_, account| account.used != [0; 4] || !account.bucket.is_full(now));
        }
        used
    }
}

/// A resource that is counted until this is dropped.
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

    fn client(last: u8) -> Identity {
        Identity::Anonymous([10, 0, 0, last].into())
    }

    /// A full bucket gives its burst at once and then one token per interval; unused tokens add up
    /// to one burst and no more.
    #[test]
    fn a_bucket_refills_to_one_burst() {
        let mut bucket = Bucket::default();
        let mut now = Time(7 * SECOND);
        let mut take = |now| bucket.take(now, 10, 3);
        assert_eq!([take(now), take(now), take(now)], [Ok(()), Ok(()), Ok(())]);
        assert_eq!(take(now), Err(Span(SECOND / 10)));
        now += Span(SECOND / 20);
        assert_eq!(
            take(now),
            Err(Span(SECOND / 20)),
            "the time announced before, less the time that has passed"
        );
        now += Span(SECOND / 20);
        assert_eq!([take(now), take(now)], [Ok(()), Err(Span(SECOND / 10))]);
        now += Span(3600 * SECOND);
        let got = (0..10).filter(|_| take(now).is_ok()).count();
        assert_eq!(got, 3, "an idle hour gives one burst");
    }

    /// In any time T at most burst + T * rate requests are admitted, whenever they arrive; and a
    /// retry after the announced time is admitted.
    #[test]
    fn a_bucket_bounds_any_arrivals() {
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
                    assert_eq!(
                        later.take(now + wait, rate, burst),
                        Ok(()),
                        "a retry after the announced time"
                    );
                }
            }
            assert!(got <= u64::from(burst) + now.since(begun).0 * u64::from(rate) / SECOND + 1);
        }
        let fair = now.since(begun).0 * u64::from(rate) / SECOND;
        assert!(got >= fair * 9 / 10, "{got} of {fair}");
    }

    /// A rate of 0 means no limit; the greatest values do not overflow.
    #[test]
    fn extreme_rates_are_safe() {
        let mut bucket = Bucket::default();
        assert!((0..1000).all(|_| bucket.take(Time::ZERO, 0, 0).is_ok()));
        assert_eq!(bucket.take(Time::NEVER, u32::MAX, u32::MAX), Ok(()));
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(Time::ZERO, 1, 0), Ok(()), "a burst of 0 counts as 1");
        assert!(bucket.take(Time::ZERO, 1, 0).is_err());
    }

    /// Each client has its own limits; a dropped resource is free again; the message names client,
    /// resource and limit.
    #[test]
    fn quotas_are_per_client() {
        let accounts = Accounts::new(Limits { sessions: 2, waiting: 1, ..Limits::default() });
        let now = Time(SECOND);
        let first = accounts.reserve(now, &client(1), Kind::Session).unwrap();
        let _second = accounts.reserve(now, &client(1), Kind::Session).unwrap();
        let refused = accounts.reserve(now, &client(1), Kind::Session).unwrap_err();
        assert!(
            refused.message(&client(1)).contains("10.0.0.1")
                && refused.message(&client(1)).contains("2 sessions")
        );
        assert!(accounts.reserve(now, &client(2), Kind::Session).is_ok());
        assert!(
            accounts.reserve(now, &client(1), Kind::Waiting).is_ok(),
            "each kind has its own limit"
        );
        drop(first);
        assert!(accounts.reserve(now, &client(1), Kind::Session).is_ok());
    }

    /// The number of unused accounts is bounded, however many addresses have sent requests.
    #[test]
    fn unused_accounts_are_removed() {
        let accounts = Accounts::new(Limits::default());
        let held = accounts.reserve(Time::ZERO, &client(1), Kind::Connection).unwrap();
        for address in 0..5000_u32 {
            let who = Identity::Anonymous(std::net::Ipv4Addr::from(address).into());
            accounts.count_request(Time(u64::from(address) * SECOND), &who).unwrap();
        }
        let used = accounts.used.lock().unwrap();
        assert!(used.len() <= SWEEP_AT + 1, "{}", used.len());
        assert!(used.contains_key(&client(1)), "a used account stays");
        drop(used);
        drop(held);
    }
}
