//! What a session has in hand: permits that its client uses, permits that it does not dare to hand
//! over yet, and those on their way back. No I/O, no clock.
//!
//! Only the answer to a renewal makes time (LEASES S1, S2). A grant that comes when less time is
//! left than its holder needs to stop is **unsure**: it is held back until a renewal is answered,
//! and given back if none is. So a node that froze between its decision and its word cannot start
//! anything.
//!
//! A permit that is lost stays here until its holder says that whatever it did is over: only then
//! is it given back (S4).

use std::collections::BTreeMap;
use std::time::Duration;

use kgate_api::{LeaseInstant, v1};
use tokio::sync::{oneshot, watch};

use crate::permit::Granted;
use crate::session::{Answer, Wish};
use crate::{Error, Refusal};

/// A permit in hand, or on its way to it.
#[derive(Debug)]
struct Held {
    /// Why it no longer counts, once it does not.
    lost: watch::Sender<Option<String>>,
    /// Bound to a lock of its holder's: it counts whatever becomes of the node.
    bound: bool,
}

impl Held {
    fn lose(&self, why: &str) {
        self.lost.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            first
        });
    }

    fn is_lost(&self) -> bool {
        self.lost.borrow().is_some()
    }
}

/// A grant that is held back.
#[derive(Debug)]
struct Unsure {
    granted: Granted,
    wish: Wish,
    answer: Answer,
    /// Given back then, if no renewal was answered.
    give_up_at: LeaseInstant,
}

/// What is to be done with a grant that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Its holder has it.
    HandedOver,
    /// Too little time is left: a renewal is needed, now.
    HeldBack,
    /// Nobody waits for it any more: it goes back.
    Unwanted,
}

/// What a session has in hand.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    held: BTreeMap<u64, Held>,
    unsure: BTreeMap<u64, Unsure>,
    /// Those that are bound to a lock, and of which the node that is there now knows nothing.
    orphans: BTreeMap<u64, Held>,
    releasing: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
}

/// A request under its number, who wants it, and where the answer goes.
pub(crate) type AskedAnew = (u64, (Wish, Answer));

impl Hand {
    /// A grant has come, at `now`, in a session that counts until `until`.
    pub(crate) fn granted(
        &mut self,
        now: LeaseInstant,
        until: LeaseInstant,
        patience: Duration,
        granted: v1::Granted,
        asked: Option<(Wish, Answer)>,
    ) -> Taken {
        // Of what the log holds no session is told: it shows no secret.
        let v1::Granted { request_id: number, slots, fence, k, durable: _ } = granted;
        let (lost, seen) = watch::channel(None);
        self.held.insert(number, Held { lost, bound: false });
        let fence = fence.and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
        let granted = Granted { number, slots, fence, k, lost: seen };
        match asked {
            None => Taken::Unwanted,
            Some((wish, answer)) if has_time(now, until, wish.margin) => hand_over(granted, answer),
            Some((wish, answer)) => {
                let give_up_at = now + patience;
                self.unsure.insert(number, Unsure { granted, wish, answer, give_up_at });
                Taken::HeldBack
            }
        }
    }

    /// The session counts until then: hands over what was held back and has time now. Returns what
    /// is to be given back.
    pub(crate) fn settle(&mut self, now: LeaseInstant, until: LeaseInstant) -> Vec<u64> {
        let is_over = |unsure: &mut Unsure| {
            has_time(now, until, unsure.wish.margin)
                || now >= unsure.give_up_at
                || unsure.answer.is_closed()
        };
        let over: Vec<_> = self.unsure.extract_if(.., |_, unsure| is_over(unsure)).collect();
        let unwanted = over.into_iter().filter_map(|(number, unsure)| {
            if has_time(now, until, unsure.wish.margin) {
                return (hand_over(unsure.granted, unsure.answer) == Taken::Unwanted).then_some(number);
            }
            let text = "no quorum: the node has granted a permit and cannot say in time that it counts; it was given back";
            let _ = unsure.answer.send(Err(no_quorum(text)));
            Some(number)
        });
        unwanted.collect()
    }

    /// The session's time is over: nothing that its client has counts any more, whatever the node
    /// may think.
    pub(crate) fn time_is_over(&self, why: &str) {
        let handed_over = self.held.iter().filter(|(number, _)| !self.unsure.contains_key(number));
        handed_over.filter(|(_, held)| !held.bound).for_each(|(_, held)| held.lose(why));
    }

    /// The node says that a permit no longer counts. True if it goes back at once, since nobody has
    /// used it.
    pub(crate) fn lose(&mut self, number: u64, why: &str) -> bool {
        if let Some(held) = self.held.get(&number) {
            held.lose(why);
        }
        let unsure = self.unsure.remove(&number);
        unsure.is_some_and(|unsure| {
            let _ = unsure.answer.send(Err(no_quorum(&format!("no quorum: {why}"))));
            true
        })
    }

    /// It is bound to a lock that its holder has taken.
    pub(crate) fn bind(&mut self, number: u64) {
        if let Some(held) = self.held.get_mut(&number) {
            held.bound = true;
        }
    }

    /// Whatever was done with a permit is over. True if the node is to be told.
    pub(crate) fn release(&mut self, number: u64, done: Option<oneshot::Sender<()>>) -> bool {
        self.unsure.remove(&number);
        if self.orphans.remove(&number).is_some() {
            // The node that is there now finds out by the lock.
            done.into_iter().for_each(tell_done);
            return false;
        }
        let is_here = self.held.remove(&number).is_some();
        if is_here {
            self.releasing.entry(number).or_default().extend(done);
        }
        is_here
    }

    /// The node has heard of it.
    pub(crate) fn released(&mut self, number: u64) {
        self.releasing.remove(&number).unwrap_or_default().into_iter().for_each(tell_done);
    }

    /// The session goes on by a new line, and the node knows of these. What it does not know is
    /// lost, or, if it was held back, to be asked for anew. Returns what it need not know any more,
    /// and what is asked for anew.
    pub(crate) fn resumed(&mut self, known: &[u64]) -> (Vec<u64>, Vec<AskedAnew>) {
        let mut again = Vec::new();
        for (number, held) in self.held.extract_if(.., |number, _| !known.contains(number)) {
            if let Some(unsure) = self.unsure.remove(&number) {
                again.push((number, (unsure.wish, unsure.answer)));
            } else if held.bound {
                self.orphans.insert(number, held);
            } else {
                held.lose("its node does not know it any more");
            }
        }
        std::mem::take(&mut self.releasing).into_values().flatten().for_each(tell_done);
        (known.iter().filter(|number| !self.held.contains_key(number)).copied().collect(), again)
    }

    /// There is no such session any more: all is lost. Returns what was held back: it was never
    /// used, and is asked for anew.
    pub(crate) fn session_is_gone(&mut self, why: &str) -> Vec<AskedAnew> {
        let unsure = std::mem::take(&mut self.unsure);
        for (number, held) in std::mem::take(&mut self.held) {
            if held.bound {
                self.orphans.insert(number, held);
            } else {
                held.lose(why);
            }
        }
        std::mem::take(&mut self.releasing).into_values().flatten().for_each(tell_done);
        unsure.into_iter().map(|(number, unsure)| (number, (unsure.wish, unsure.answer))).collect()
    }

    /// Whether its client has something that counts, or a lock that does.
    pub(crate) fn counts(&self) -> bool {
        !self.orphans.is_empty() || self.held.values().any(|held| held.bound || !held.is_lost())
    }

    /// Whether the node knows of something that is not given back yet.
    pub(crate) fn owes(&self) -> bool {
        !self.held.is_empty() || !self.releasing.is_empty()
    }
}

/// LEASES S2, S3: whether whoever needs `margin` to stop may still begin: D - G - K is not past.
fn has_time(now: LeaseInstant, until: LeaseInstant, margin: Duration) -> bool {
    now < until - margin
}

fn hand_over(granted: Granted, answer: Answer) -> Taken {
    if answer.send(Ok(granted)).is_ok() { Taken::HandedOver } else { Taken::Unwanted }
}

fn no_quorum(text: &str) -> Error {
    Error::Refused(Refusal { code: v1::ErrorCode::NoQuorum, message: text.to_owned() })
}

/// Whoever waited for that may have gone.
fn tell_done(done: oneshot::Sender<()>) {
    let _ = done.send(());
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    const NONE: [u64; 0] = [];
    const MARGIN: Duration = Duration::from_nanos(30);
    const PATIENCE: Duration = Duration::from_nanos(100);

    type Answered = oneshot::Receiver<Result<Granted, Error>>;

    fn at(instant: u64) -> LeaseInstant {
        LeaseInstant(instant)
    }

    fn asked() -> (Option<(Wish, Answer)>, Answered) {
        let (answer, answered) = oneshot::channel();
        let wish = Wish {
            gate: "g".into(),
            permits: 1,
            k: None,
            no_wait: false,
            process: None,
            margin: MARGIN,
        };
        (Some((wish, answer)), answered)
    }

    /// A grant with number 1 comes at `now`, in a session that counts until `until`.
    fn grant(hand: &mut Hand, now: u64, until: u64) -> (Taken, Answered) {
        let (asked, answered) = asked();
        let granted =
            v1::Granted { request_id: 1, slots: vec![2], fence: None, k: 3, durable: None };
        (hand.granted(at(now), at(until), PATIENCE, granted, asked), answered)
    }

    /// S2, S3: to the nanosecond, a grant is handed over before D - G - K and held back from then
    /// on.
    #[test]
    fn a_grant_needs_time() {
        for (now, taken) in [
            (0, Taken::HandedOver),
            (69, Taken::HandedOver),
            (70, Taken::HeldBack),
            (500, Taken::HeldBack),
        ] {
            let mut hand = Hand::default();
            let (got, mut answered) = grant(&mut hand, now, 100);
            assert_eq!(got, taken, "at {now}");
            assert_eq!(answered.try_recv().is_ok(), taken == Taken::HandedOver);
        }
        let (got, _answered) = grant(&mut Hand::default(), 5, LeaseInstant::FOR_EVER.0);
        assert_eq!(got, Taken::HandedOver, "permits that know no time");
    }

    /// S1: only a renewal that is answered makes time; then what was held back is handed over, and
    /// counts.
    #[test]
    fn a_renewal_makes_time() {
        let mut hand = Hand::default();
        let (_, mut answered) = grant(&mut hand, 90, 100);
        assert_eq!(hand.settle(at(95), at(100)), NONE);
        assert!(answered.try_recv().is_err(), "nothing has changed");
        assert_eq!(hand.settle(at(95), at(126)), NONE);
        let granted = answered.try_recv().unwrap().unwrap();
        assert!(granted.lost.borrow().is_none() && hand.counts());
    }

    /// S2: without a renewal it goes back, and whoever waited hears that there is no quorum.
    #[test]
    fn what_stays_unsure_goes_back() {
        let mut hand = Hand::default();
        let (_, mut answered) = grant(&mut hand, 90, 100);
        hand.time_is_over("late");
        assert_eq!(hand.settle(at(189), at(100)), NONE);
        assert_eq!(hand.settle(at(190), at(100)), [1]);
        let error = answered.try_recv().unwrap().unwrap_err();
        assert!(error.to_string().contains("no quorum"), "{error}");
        assert!(hand.release(1, None), "and the node is told");
        assert!(hand.owes() && !hand.counts());
    }

    /// Who no longer waits gets nothing, neither at once nor when there is time.
    #[test]
    fn nobody_waits_any_more() {
        let mut hand = Hand::default();
        let (_, answered) = grant(&mut hand, 90, 100);
        drop(answered);
        assert_eq!(hand.settle(at(91), at(100)), [1]);
        let granted = v1::Granted { request_id: 2, ..v1::Granted::default() };
        assert_eq!(hand.granted(at(0), at(100), PATIENCE, granted, None), Taken::Unwanted);
    }

    /// S4: a permit that is lost is given back only when its holder says that whatever it did is
    /// over; then the node is told.
    #[test]
    fn a_lost_permit_is_still_given_back() {
        let mut hand = Hand::default();
        let (_, mut answered) = grant(&mut hand, 0, 100);
        let granted = answered.try_recv().unwrap().unwrap();
        assert!(!hand.lose(1, "the node says so"), "not at once");
        assert_eq!(granted.lost.borrow().as_deref(), Some("the node says so"));
        hand.time_is_over("later, and for another reason");
        assert_eq!(
            granted.lost.borrow().as_deref(),
            Some("the node says so"),
            "the first reason counts"
        );
        assert!(hand.owes() && !hand.counts());
        assert_eq!(hand.resumed(&[1]).0, NONE, "nor by a new line");
        let (done, mut heard) = oneshot::channel();
        assert!(hand.release(1, Some(done)));
        assert!(heard.try_recv().is_err());
        hand.released(1);
        assert!(heard.try_recv().is_ok() && !hand.owes());
    }

    /// S5: by a new line the session goes on with what both know; what the node does not know is
    /// lost, what was given back meanwhile is told again.
    #[test]
    fn a_new_line() {
        let mut hand = Hand::default();
        let (_, mut answered) = grant(&mut hand, 0, 100);
        let granted = answered.try_recv().unwrap().unwrap();
        assert_eq!(hand.resumed(&[1, 7]).0, [7]);
        assert!(granted.lost.borrow().is_none());
        assert_eq!(hand.resumed(&[]).0, NONE);
        assert!(granted.lost.borrow().is_some() && !hand.owes());
        let (_, mut answered) = grant(&mut hand, 90, 100);
        let (_, again) = hand.resumed(&[]);
        assert_eq!(
            (again.len(), answered.try_recv().err()),
            (1, Some(TryRecvError::Empty)),
            "what was held back still waits"
        );
    }

    /// A session that is gone takes everything with it; what was held back was never used, and is
    /// asked for anew.
    #[test]
    fn a_session_is_gone() {
        let mut hand = Hand::default();
        let (_, mut answered) = grant(&mut hand, 90, 100);
        let again = hand.session_is_gone("the node has crashed");
        assert_eq!(again.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1]);
        assert_eq!(
            (answered.try_recv().err(), hand.owes()),
            (Some(TryRecvError::Empty), false),
            "it still waits"
        );
        let (_, mut answered) = grant(&mut hand, 0, 100);
        let granted = answered.try_recv().unwrap().unwrap();
        assert!(hand.session_is_gone("the node has crashed").is_empty());
        assert_eq!(granted.lost.borrow().as_deref(), Some("the node has crashed"));
    }

    /// A permit that is bound to a lock counts whatever becomes of the node, and is given back to
    /// nobody.
    #[test]
    fn a_lock_counts() {
        let mut hand = Hand::default();
        let (_, mut answered) = grant(&mut hand, 0, LeaseInstant::FOR_EVER.0);
        let granted = answered.try_recv().unwrap().unwrap();
        hand.bind(1);
        hand.session_is_gone("the node has crashed");
        assert!(granted.lost.borrow().is_none() && hand.counts());
        let (done, mut heard) = oneshot::channel();
        assert!(!hand.release(1, Some(done)) && heard.try_recv().is_ok());
    }
}
