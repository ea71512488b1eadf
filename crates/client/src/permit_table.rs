//! The permits of a session: delivered ones, withheld grants, and permits on their way back. No
//! I/O, no clock.
//!
//! Only the answer to a renewal extends the validity (LEASES S1, S2). A grant that arrives when
//! less time is left than its holder needs to stop is **withheld** until a renewal is answered, and
//! released if none is. Therefore a node that froze between its decision and its message cannot
//! start anything.
//!
//! A lost permit stays in the table until its holder reports that the protected work has ended:
//! only then is it released (S4).

use std::collections::BTreeMap;
use std::time::Duration;

use kgate_api::{LeaseInstant, v1};
use tokio::sync::{oneshot, watch};

use crate::permit::{Grant, LostReason};
use crate::session::{Answer, PendingAcquire};
use crate::{Error, ErrorKind};

/// A permit that the node has granted and that is not released.
#[derive(Debug)]
struct Held {
    /// Why the permit is no longer valid, once it is not.
    lost: watch::Sender<Option<LostReason>>,
    /// Bound to a lock that the holder has: valid whatever happens to the node.
    bound: bool,
}

impl Held {
    /// Only the first reason counts.
    fn lose(&self, reason: LostReason) {
        self.lost.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(reason);
            is_first
        });
    }

    fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }
}

/// A grant that is withheld.
#[derive(Debug)]
struct Withheld {
    grant: Grant,
    pending: PendingAcquire,
    /// Released at this instant unless a renewal was answered.
    give_up_at: LeaseInstant,
}

/// What happened to a grant that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantOutcome {
    /// The client has the permit.
    Delivered,
    /// Too little time is left: the session must be renewed now.
    Withheld,
    /// The client does not wait any more: the permit must be released.
    Cancelled,
}

/// The permits of a session, by request ID.
#[derive(Debug, Default)]
pub(crate) struct PermitTable {
    held: BTreeMap<u64, Held>,
    /// A subset of `held`.
    withheld: BTreeMap<u64, Withheld>,
    /// Bound to a lock, and unknown to the node of the current session.
    orphans: BTreeMap<u64, Held>,
    /// Released; the node has not confirmed it yet.
    releasing: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
}

/// A request that must be sent again, with its ID.
pub(crate) type Retry = (u64, PendingAcquire);

impl PermitTable {
    /// A grant has arrived at `now`, in a session that is valid until `until`. A withheld grant is
    /// given up after `withhold`.
    pub(crate) fn grant(
        &mut self,
        now: LeaseInstant,
        until: LeaseInstant,
        withhold: Duration,
        granted: v1::Granted,
        pending: Option<PendingAcquire>,
    ) -> GrantOutcome {
        // A durable permit does not belong to the session.
        let v1::Granted {
            request_id,
            slots,
            slot_names,
            fence,
            k,
            durable: _,
            lock_files,
            reentry_key,
        } = granted;
        let (lost, lost_view) = watch::channel(None);
        self.held.insert(request_id, Held { lost, bound: false });
        let fence = fence.and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
        let grant = Grant {
            request_id,
            slots,
            slot_names,
            fence,
            k,
            lock_files,
            reentry_key,
            lost: lost_view,
        };
        match pending {
            None => GrantOutcome::Cancelled,
            Some(pending) if has_time(now, until, pending.min_remaining) => {
                deliver(grant, pending.answer)
            }
            Some(pending) => {
                let give_up_at = now + withhold;
                self.withheld.insert(request_id, Withheld { grant, pending, give_up_at });
                GrantOutcome::Withheld
            }
        }
    }

    /// The session is valid until `until`: delivers the withheld grants that have enough time now.
    /// Returns the permits to release.
    pub(crate) fn settle(&mut self, now: LeaseInstant, until: LeaseInstant) -> Vec<u64> {
        let is_over = |withheld: &mut Withheld| {
            has_time(now, until, withheld.pending.min_remaining)
                || now >= withheld.give_up_at
                || withheld.pending.answer.is_closed()
        };
        let over: Vec<_> = self.withheld.extract_if(.., |_, withheld| is_over(withheld)).collect();
        let to_release = over.into_iter().filter_map(|(request_id, withheld)| {
            let PendingAcquire { min_remaining, answer, .. } = withheld.pending;
            if has_time(now, until, min_remaining) {
                let outcome = deliver(withheld.grant, answer);
                return (outcome == GrantOutcome::Cancelled).then_some(request_id);
            }
            let message = "no quorum: the node granted a permit and could not confirm in time \
            that it is valid; the permit was released";
            let _ = answer.send(Err(Error::new(ErrorKind::NoQuorum, message)));
            Some(request_id)
        });
        to_release.collect()
    }

    /// The validity of the session has ended: all delivered permits are lost, even if the node does
    /// not agree.
    pub(crate) fn expire(&self) {
        let delivered =
            self.held.iter().filter(|(request_id, _)| !self.withheld.contains_key(request_id));
        delivered
            .filter(|(_, held)| !held.bound)
            .for_each(|(_, held)| held.lose(LostReason::Expired));
    }

    /// The node revokes a permit. True if it must be released at once, because nobody has used it.
    pub(crate) fn lose(&mut self, request_id: u64, reason: LostReason) -> bool {
        let withheld = self.withheld.remove(&request_id);
        let was_withheld = withheld.is_some();
        if let Some(Withheld { pending, .. }) = withheld {
            let message = format!("no quorum: {reason}");
            let _ = pending.answer.send(Err(Error::new(ErrorKind::NoQuorum, message)));
        }
        if let Some(held) = self.held.get(&request_id) {
            held.lose(reason);
        }
        was_withheld
    }

    /// The holder has a lock on the slot's file.
    pub(crate) fn bind_to_lock(&mut self, request_id: u64) {
        if let Some(held) = self.held.get_mut(&request_id) {
            held.bound = true;
        }
    }

    /// The work that the permit protected has ended. True if the node must be told; `done` is
    /// signalled when it confirms.
    pub(crate) fn release(&mut self, request_id: u64, done: Option<oneshot::Sender<()>>) -> bool {
        self.withheld.remove(&request_id);
        if self.orphans.remove(&request_id).is_some() {
            // The node of the current session learns it from the lock.
            done.into_iter().for_each(confirm);
            return false;
        }
        let is_held = self.held.remove(&request_id).is_some();
        if is_held {
            self.releasing.entry(request_id).or_default().extend(done);
        }
        is_held
    }

    /// The node confirms a release.
    pub(crate) fn on_released(&mut self, request_id: u64) {
        self.releasing.remove(&request_id).unwrap_or_default().into_iter().for_each(confirm);
    }

    /// The session continues on a new connection; the node knows the permits in `known`. Others are
    /// lost, or requested again if they were withheld. Returns the permits to release, and the
    /// requests to send again.
    pub(crate) fn resume(&mut self, known: &[u64]) -> (Vec<u64>, Vec<Retry>) {
        let mut retries = Vec::new();
        let is_unknown = |request_id: &u64| !known.contains(request_id);
        for (request_id, held) in self.held.extract_if(.., |request_id, _| is_unknown(request_id)) {
            if let Some(withheld) = self.withheld.remove(&request_id) {
                retries.push((request_id, withheld.pending));
            } else if held.bound {
                self.orphans.insert(request_id, held);
            } else {
                held.lose(LostReason::SessionLost("the node does not know the permit".into()));
            }
        }
        // Those that are known are released once more below.
        let freed = self.releasing.extract_if(.., |request_id, _| is_unknown(request_id));
        freed.flat_map(|(_, done)| done).for_each(confirm);
        let to_release = known.iter().filter(|request_id| !self.held.contains_key(request_id));
        (to_release.copied().collect(), retries)
    }

    /// The session does not exist any more: all permits are lost, and the node has freed their
    /// slots. Returns the withheld grants, which nobody has used, as requests to send again.
    pub(crate) fn session_lost(&mut self, cause: &str) -> Vec<Retry> {
        let withheld = std::mem::take(&mut self.withheld);
        for (request_id, held) in std::mem::take(&mut self.held) {
            if held.bound {
                self.orphans.insert(request_id, held);
            } else {
                held.lose(LostReason::SessionLost(cause.to_owned()));
            }
        }
        std::mem::take(&mut self.releasing).into_values().flatten().for_each(confirm);
        withheld.into_iter().map(|(request_id, withheld)| (request_id, withheld.pending)).collect()
    }

    /// Whether the client has a valid permit.
    pub(crate) fn has_valid(&self) -> bool {
        !self.orphans.is_empty() || self.held.values().any(|held| held.bound || !held.is_lost())
    }

    /// Whether the node knows of a permit whose release it has not confirmed.
    pub(crate) fn must_release(&self) -> bool {
        !self.held.is_empty() || !self.releasing.is_empty()
    }
}

/// LEASES S2, S3: a holder that needs `margin` to stop may begin only before D - G - K.
fn has_time(now: LeaseInstant, until: LeaseInstant, margin: Duration) -> bool {
    now < until - margin
}

fn deliver(grant: Grant, answer: Answer) -> GrantOutcome {
    match answer.send(Ok(grant)) {
        Ok(()) => GrantOutcome::Delivered,
        Err(_) => GrantOutcome::Cancelled,
    }
}

/// The client may have stopped waiting for the confirmation.
fn confirm(done: oneshot::Sender<()>) {
    let _ = done.send(());
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    const NONE: [u64; 0] = [];
    const MARGIN: Duration = Duration::from_nanos(30);
    const WITHHOLD: Duration = Duration::from_nanos(100);

    type Answered = oneshot::Receiver<Result<Grant, Error>>;

    fn at(instant: u64) -> LeaseInstant {
        LeaseInstant(instant)
    }

    fn pending() -> (Option<PendingAcquire>, Answered) {
        let (answer, answered) = oneshot::channel();
        let request = v1::Acquire { gate: "g".into(), ..v1::Acquire::default() }.into();
        (Some(PendingAcquire { request, min_remaining: MARGIN, answer }), answered)
    }

    fn reason(granted: &Grant) -> Option<LostReason> {
        granted.lost.borrow().clone()
    }

    fn revoked() -> LostReason {
        LostReason::Revoked("the node says so".into())
    }

    /// Grant 1 arrives at `now`, in a session that is valid until `until`.
    fn grant(table: &mut PermitTable, now: u64, until: u64) -> (GrantOutcome, Answered) {
        let (pending, answered) = pending();
        let granted = v1::Granted { request_id: 1, slots: vec![2], k: 3, ..v1::Granted::default() };
        (table.grant(at(now), at(until), WITHHOLD, granted, pending), answered)
    }

    /// S2, S3: to the nanosecond, a grant is delivered before D - G - K and withheld from then on.
    #[test]
    fn a_grant_needs_time_to_stop() {
        for (now, expected) in [
            (0, GrantOutcome::Delivered),
            (69, GrantOutcome::Delivered),
            (70, GrantOutcome::Withheld),
            (500, GrantOutcome::Withheld),
        ] {
            let mut table = PermitTable::default();
            let (got, mut answered) = grant(&mut table, now, 100);
            assert_eq!(got, expected, "at {now}");
            assert_eq!(answered.try_recv().is_ok(), expected == GrantOutcome::Delivered);
        }
        let (got, _answered) = grant(&mut PermitTable::default(), 5, LeaseInstant::FOR_EVER.0);
        assert_eq!(got, GrantOutcome::Delivered, "a session without time limit");
    }

    /// S1: only an answered renewal extends the validity; then a withheld grant is delivered, and
    /// it is valid.
    #[test]
    fn a_renewal_delivers_a_withheld_grant() {
        let mut table = PermitTable::default();
        let (_, mut answered) = grant(&mut table, 90, 100);
        assert_eq!(table.settle(at(95), at(100)), NONE);
        assert!(answered.try_recv().is_err(), "nothing changed");
        assert_eq!(table.settle(at(95), at(126)), NONE);
        let granted = answered.try_recv().unwrap().unwrap();
        assert!(granted.lost.borrow().is_none() && table.has_valid());
    }

    /// S2: without an answered renewal a withheld grant is released, and the request fails with
    /// `NoQuorum`.
    #[test]
    fn a_withheld_grant_is_given_up() {
        let mut table = PermitTable::default();
        let (_, mut answered) = grant(&mut table, 90, 100);
        table.expire();
        assert_eq!(table.settle(at(189), at(100)), NONE);
        assert_eq!(table.settle(at(190), at(100)), [1]);
        let error = answered.try_recv().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        assert!(table.release(1, None), "the node must be told");
        assert!(table.must_release() && !table.has_valid());
    }

    /// A request whose client has gone gets no permit: neither at once nor after a renewal.
    #[test]
    fn a_cancelled_request_releases_its_grant() {
        let mut table = PermitTable::default();
        let (_, answered) = grant(&mut table, 90, 100);
        drop(answered);
        assert_eq!(table.settle(at(91), at(100)), [1]);
        let granted = v1::Granted { request_id: 2, ..v1::Granted::default() };
        assert_eq!(table.grant(at(0), at(100), WITHHOLD, granted, None), GrantOutcome::Cancelled);
    }

    /// S4: a lost permit is released only when its holder reports that its work has ended.
    #[test]
    fn a_lost_permit_is_released_by_its_holder() {
        let mut table = PermitTable::default();
        let (_, mut answered) = grant(&mut table, 0, 100);
        let granted = answered.try_recv().unwrap().unwrap();
        assert!(!table.lose(1, revoked()), "not at once: it was delivered");
        assert_eq!(reason(&granted), Some(revoked()));
        table.expire();
        assert_eq!(reason(&granted), Some(revoked()), "the first reason counts");
        assert!(table.must_release() && !table.has_valid());
        assert_eq!(table.resume(&[1]).0, NONE, "nor by a new connection");
        let (done, mut heard) = oneshot::channel();
        assert!(table.release(1, Some(done)));
        assert!(heard.try_recv().is_err());
        table.on_released(1);
        assert!(heard.try_recv().is_ok() && !table.must_release());
    }

    /// S5: a resumed session keeps the permits that both sides know. Permits that the node does not
    /// know are lost; permits that the client has released meanwhile are released again.
    #[test]
    fn a_session_resumes() {
        let mut table = PermitTable::default();
        let (_, mut answered) = grant(&mut table, 0, 100);
        let granted = answered.try_recv().unwrap().unwrap();
        assert_eq!(table.resume(&[1, 7]).0, [7]);
        assert!(granted.lost.borrow().is_none());
        assert_eq!(table.resume(&[]).0, NONE);
        assert!(granted.lost.borrow().is_some() && !table.must_release());
        let (_, mut answered) = grant(&mut table, 90, 100);
        let (_, again) = table.resume(&[]);
        assert_eq!(
            (again.len(), answered.try_recv().err()),
            (1, Some(TryRecvError::Empty)),
            "a withheld grant is requested again"
        );
    }

    /// A lost session loses its permits; withheld grants were never used, and are requested again.
    #[test]
    fn a_lost_session_loses_its_permits() {
        let mut table = PermitTable::default();
        let (_, mut answered) = grant(&mut table, 90, 100);
        let again = table.session_lost("the node has crashed");
        assert_eq!(again.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
        assert_eq!(
            (answered.try_recv().err(), table.must_release()),
            (Some(TryRecvError::Empty), false),
            "the request still waits"
        );
        let (_, mut answered) = grant(&mut table, 0, 100);
        let granted = answered.try_recv().unwrap().unwrap();
        assert!(table.session_lost("the node has crashed").is_empty());
        assert_eq!(reason(&granted), Some(LostReason::SessionLost("the node has crashed".into())));
    }

    /// A permit that is bound to a lock is valid whatever happens to the node, and its release
    /// needs no confirmation.
    #[test]
    fn a_lock_keeps_its_permit_valid() {
        let mut table = PermitTable::default();
        let (_, mut answered) = grant(&mut table, 0, LeaseInstant::FOR_EVER.0);
        let granted = answered.try_recv().unwrap().unwrap();
        table.bind_to_lock(1);
        table.session_lost("the node has crashed");
        assert!(granted.lost.borrow().is_none() && table.has_valid());
        let (done, mut heard) = oneshot::channel();
        assert!(!table.release(1, Some(done)) && heard.try_recv().is_ok());
    }
}
