//! Without a log: a returning process announces itself (`docs/internals/slots.md` section 5, S3 and
//! S5).

use kgate_core::{Incarnation, MembershipSource, ViewId};

use super::*;
use crate::slots::defects::S3;
use crate::slots::{Clock, Head, SlotsMessage};

fn options() -> SlotOptions {
    SlotOptions { membership: MembershipSource::Join, ..plain() }
}

/// Section 5: JOIN to all, then a second round; the joiner requests only when all have answered
/// both.
#[test]
fn a_joiner_requests_after_two_rounds() {
    let mut net = net(3, 1, options());
    enter(&mut net, 0, 1, &[0]);
    let (_, before) = last(&net, 0);
    net.crash(1);
    net.notify_gone([0, 2], 1, 0);
    net.sent.clear();
    net.return_in(1, 1);
    acquire(&mut net, 1, 1);
    for round in 1..=2 {
        assert_eq!(net.sent("join").len(), 2 * round);
        net.deliver_kind(1, 0, "join");
        net.deliver_kind(0, 1, "welcome");
        net.deliver_kind(1, 2, "join");
        assert!(net.sent("request").is_empty(), "p2 has not answered in round {round}");
        net.deliver_kind(2, 1, "welcome");
    }
    assert_eq!(net.sent("request"), [(1, 0), (1, 2)]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
    assert!(last(&net, 1).1 > before);
}

/// S3: one round.
#[test]
fn s3_as_it_was() {
    let mut net = defects(3, 1, options(), S3);
    net.crash(1);
    net.return_in(1, 1);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert_eq!(net.sent("join").len(), 2);
    assert_eq!(net.inside(), [1]);
}

/// A joiner does not wait for a crashed process.
#[test]
fn a_joiner_does_not_wait_for_crashed_processes() {
    let mut net = net(3, 1, options());
    net.crash(1);
    net.crash(2);
    net.return_in(1, 1);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert!(net.sent("request").is_empty());
    net.notify_gone([0, 1], 2, 0);
    net.notify_gone([0], 1, 0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// A joining process holds nothing and reports so; its own request is ordered behind.
#[test]
fn a_joiner_answers() {
    let mut net = net(3, 1, options());
    net.crash(1);
    net.notify_gone([0, 2], 1, 0);
    net.return_in(1, 1);
    net.deliver(1, 0);
    acquire(&mut net, 0, 1);
    net.deliver(0, 1);
    net.deliver(0, 1);
    assert_eq!(net.sent("agg"), [(1, 0)]);
    acquire(&mut net, 1, 1);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
    net.release(0);
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// S5: the first JOIN exempts the joiner from a request that is out. A copy of it that arrives when
/// the joiner is a member does not.
#[test]
fn a_second_copy_of_join_does_not_exempt() {
    let mut net = net(3, 1, options());
    net.crash(1);
    net.notify_gone([0, 2], 1, 0);
    net.return_in(1, 1);
    net.deliver_all();
    enter(&mut net, 1, 1, &[0]);
    acquire(&mut net, 0, 1);
    net.deliver_kind(0, 2, "request");
    net.deliver_kind(2, 0, "agg");
    for round in [1, 2] {
        let message = SlotsMessage::Join { incarnation: Incarnation(1), round };
        net.input(0, Input::Deliver { from: kgate_core::NodeId(1), message }).unwrap();
    }
    assert_eq!(net.inside(), [1], "p1 has slot 0 and was not heard");
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
}

/// The same if its new incarnation was first seen in another message, and it was asked since: it
/// may hold what it was granted before.
#[test]
fn a_late_join_does_not_exempt_a_process_that_was_asked() {
    let mut net = net(3, 1, options());
    net.crash(1);
    net.notify_gone([0, 2], 1, 0);
    // Its JOIN to p0 is slow; p0 crashes meanwhile, so that p1 does not wait for it.
    net.return_in(1, 1);
    net.deliver_kind(1, 2, "join");
    net.crash(0);
    net.notify_gone([1, 2], 0, 0);
    net.deliver_kind(2, 1, "welcome");
    net.deliver_kind(1, 2, "join");
    net.deliver_kind(2, 1, "welcome");
    acquire(&mut net, 1, 1);
    net.deliver_kind(1, 2, "request");
    net.deliver_kind(2, 1, "agg");
    assert_eq!(net.inside(), [1]);
    net.return_in(0, 1);
    for _ in 0..4 {
        for other in [1, 2] {
            if net.flights.values().any(|copy| (copy.from.0, copy.to.0) == (0, other)) {
                net.deliver(0, other);
                net.deliver_kind(other, 0, "welcome");
            }
        }
    }
    acquire(&mut net, 0, 1);
    net.deliver_kind(0, 2, "request");
    net.deliver_kind(2, 0, "agg");
    net.deliver_kind(1, 0, "join");
    assert_eq!(net.inside(), [1], "p1 was asked and has not answered");
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
    net.release(1);
    net.deliver_all();
    assert_eq!(net.inside(), [0]);
}

/// A joiner learns from the answer of the last process it waits for that this is in a new
/// incarnation: the end of the earlier incarnation ends no round.
#[test]
fn a_new_incarnation_ends_no_round() {
    let mut net = net(2, 1, options());
    net.crash(0);
    net.notify_gone([1], 0, 0);
    net.return_in(0, 1);
    net.deliver_all();
    enter(&mut net, 1, 1, &[0]);
    let (_, before) = last(&net, 1);
    net.crash(1);
    net.notify_gone([0], 1, 0);
    net.sent.clear();
    net.return_in(1, 1); // It believes that p0 is in its first incarnation.
    acquire(&mut net, 1, 1);
    net.deliver(1, 0);
    net.deliver(0, 1);
    assert_eq!((net.inside().len(), net.sent("request").len()), (0, 0));
    net.deliver_all();
    assert_eq!(net.inside(), [1]);
    assert!(last(&net, 1).1 > before);
}

/// A relay forwards a request of an incarnation that is unknown here: it shows that incarnation as
/// a message of its own would, and is answered.
#[test]
fn a_forwarded_message_shows_a_new_incarnation() {
    let mut net = net(3, 1, SlotOptions { dissemination: Dissemination::Tree, ..options() });
    net.crash(2);
    net.notify_gone([0, 1], 2, 0);
    net.return_in(2, 1);
    net.deliver_all();
    net.crash(0);
    net.notify_gone([1, 2], 0, 0);
    net.return_in(0, 1); // It believes that p2 is in its first incarnation.
    net.deliver(0, 1);
    acquire(&mut net, 2, 1);
    net.deliver_kind(2, 1, "request");
    net.deliver_kind(1, 0, "request");
    assert_eq!(net.sent("agg"), [(0, 1)]);
    net.deliver_all();
    assert_eq!(net.inside(), [2]);
    nothing_is_left(&net);
}

/// An answer to a JOIN of an earlier incarnation does not count.
#[test]
fn a_welcome_for_a_former_incarnation_does_not_count() {
    let mut net = net(2, 1, options());
    net.crash(1);
    net.return_in(1, 2);
    acquire(&mut net, 1, 1);
    let head = Head { incarnation: Incarnation(0), view: ViewId(0) };
    for (incarnation, round) in [(1, 1), (1, 2), (2, 2), (0, 1)] {
        let message = SlotsMessage::Welcome {
            head,
            incarnation: Incarnation(incarnation),
            round,
            clock: Clock::default(),
        };
        net.input(1, Input::Deliver { from: kgate_core::NodeId(0), message }).unwrap();
        assert!(net.sent("request").is_empty());
    }
    assert_eq!(net.sent("join"), [(1, 0)]);
}
