//! Bytes from the network (laws 4 and 5): a message that no correct peer sends is refused with
//! nothing changed, and no well-formed message does harm.

use alloc::boxed::Box;
use alloc::vec;

use kgate_core::{Incarnation, MembershipSource, NodeId, Outbox, Refusal, Time, ViewId};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, SeqDeserializer};

use super::*;
use crate::slots::{
    About, Answers, Clock, Head, Ranges, Report, Scope, SlotSet, SlotsMessage, SlotsTimer, Stamp,
};

const NODES: u32 = 4;

fn head() -> Head {
    Head { incarnation: Incarnation(0), view: ViewId(0) }
}

fn about(ticks: u64, node: u32) -> About {
    About {
        stamp: Stamp { clock: Clock { view: ViewId(0), ticks }, node: NodeId(node) },
        incarnation: Incarnation(0),
    }
}

fn report(node: u32) -> Report {
    Report {
        node: NodeId(node),
        incarnation: Incarnation(0),
        version: 1,
        holds: slots(&[0]),
        ahead: false,
        idle: false,
    }
}

/// Sets arrive as lists; only so can a malformed one be made.
fn slots(list: &[u32]) -> SlotSet {
    let list: SeqDeserializer<_, Error> = list.to_vec().into_deserializer();
    SlotSet::deserialize(list).expect("a list of numbers")
}

fn ranges(list: &[(u32, u32)]) -> Ranges {
    let list: Vec<_> = list.iter().map(|(start, end)| vec![*start, *end]).collect();
    let list: SeqDeserializer<_, Error> = list.into_deserializer();
    Ranges::deserialize(list).expect("a list of pairs")
}

fn answers(list: &[(u32, u32)], reports: Vec<Report>) -> Box<Answers> {
    Box::new(Answers { empty: ranges(list), reports })
}

/// Every field out of its range is refused, and nothing changes: at a process that waits for the
/// very request that the message is about.
#[test]
fn every_field_out_of_range_is_refused() {
    let mut net = net(NODES, 2, tree());
    acquire(&mut net, 0, 1);
    let far = Clock::LAST_TICK + 1;
    let request = |about, scope| SlotsMessage::Request { head: head(), about, weight: 1, scope };
    let agg = |about, answers| SlotsMessage::Agg { head: head(), about, answers };
    let update =
        |about, report| SlotsMessage::Update { head: head(), about, report: Box::new(report) };
    let mine = about(1, 0);
    let unsorted = Report { holds: slots(&[1, 0]), ..report(1) };
    let twice = Report { holds: slots(&[1, 1]), ..report(1) };
    let ahead_of_view = About {
        stamp: Stamp { clock: Clock { view: ViewId(1), ticks: 1 }, node: NodeId(1) },
        incarnation: Incarnation(0),
    };
    let malformed = vec![
        request(mine, Scope::Yourself),
        request(about(far, 1), Scope::Yourself),
        request(about(1, 1), Scope::Clusters(3)),
        request(ahead_of_view, Scope::Yourself),
        agg(about(far, 0), answers(&[(1, 2)], vec![])),
        agg(mine, answers(&[(1, 5)], vec![])),
        agg(mine, answers(&[(2, 1)], vec![])),
        agg(mine, answers(&[(1, 1)], vec![])),
        agg(mine, answers(&[(2, 3), (1, 2)], vec![])),
        agg(mine, answers(&[(1, 2), (2, 3)], vec![])),
        agg(mine, answers(&[], vec![report(1); 5])),
        agg(mine, answers(&[], vec![unsorted.clone()])),
        agg(mine, answers(&[], vec![twice.clone()])),
        update(about(far, 0), report(1)),
        update(about(1, 2), report(1)),
        update(mine, report(2)),
        update(mine, unsorted),
        update(mine, twice),
        SlotsMessage::Welcome {
            head: head(),
            incarnation: Incarnation(0),
            round: 1,
            clock: Clock { view: ViewId(0), ticks: far },
        },
        SlotsMessage::Welcome {
            head: head(),
            incarnation: Incarnation(0),
            round: 1,
            clock: ahead_of_view.stamp.clock,
        },
        SlotsMessage::Welcome {
            head: head(),
            incarnation: Incarnation(0),
            round: 3,
            clock: Clock::default(),
        },
        SlotsMessage::Join { incarnation: Incarnation(1), round: 0 },
        SlotsMessage::Join { incarnation: Incarnation(1), round: 3 },
    ];
    for message in malformed {
        let input = Input::Deliver { from: NodeId(1), message };
        let refusal = net.refusal(0, input.clone());
        assert!(matches!(refusal, Refusal::Malformed(_)), "{input:?}: {refusal:?}");
    }
    let strange = vec![
        request(about(1, NODES), Scope::Yourself),
        agg(about(1, NODES), answers(&[], vec![])),
        agg(mine, answers(&[], vec![report(NODES)])),
        update(about(1, NODES), report(1)),
    ];
    for message in strange {
        let input = Input::Deliver { from: NodeId(1), message };
        assert_eq!(net.refusal(0, input), Refusal::UnknownNode(NodeId(NODES)));
    }
    for from in [0, NODES] {
        for message in [
            agg(mine, answers(&[(1, 4)], vec![])),
            SlotsMessage::Join { incarnation: Incarnation(1), round: 1 },
        ] {
            let input = Input::Deliver { from: NodeId(from), message };
            assert_eq!(net.refusal(0, input), Refusal::UnknownNode(NodeId(from)));
        }
    }
    assert_eq!(
        net.refusal(0, Input::Crashed { node: NodeId(NODES), incarnation: Incarnation(0) }),
        Refusal::UnknownNode(NodeId(NODES))
    );
}

/// Requests of views that never come are queued, but no more than one of each process by each path.
#[test]
fn stored_messages_are_bounded() {
    let mut net = net(NODES, 1, flat());
    for ticks in (1..200).chain((1..200).rev()) {
        for (from, root) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 3)] {
            let head = Head { incarnation: Incarnation(0), view: ViewId(u32::MAX) };
            let message = SlotsMessage::Request {
                head,
                about: about(ticks, root),
                weight: 1,
                scope: Scope::Yourself,
            };
            net.input(0, Input::Deliver { from: NodeId(from), message }).unwrap();
        }
    }
    assert_eq!(net.nodes[0].queued.len(), 6);
}

fn clocks() -> impl Strategy<Value = Clock> {
    let ticks = prop_oneof![8 => 0u64..6, 1 => Just(Clock::LAST_TICK), 1 => Just(u64::MAX)];
    let view = prop_oneof![6 => Just(0u32), 2 => 1u32..3, 1 => Just(u32::MAX)];
    (view, ticks).prop_map(|(view, ticks)| Clock { view: ViewId(view), ticks })
}

fn heads() -> impl Strategy<Value = Head> {
    let view = prop_oneof![6 => Just(0u32), 2 => 1u32..3, 1 => Just(u32::MAX)];
    (0u32..3, view).prop_map(|(incarnation, view)| Head {
        incarnation: Incarnation(incarnation),
        view: ViewId(view),
    })
}

fn abouts() -> impl Strategy<Value = About> {
    (clocks(), 0..=NODES, 0u32..2).prop_map(|(clock, node, incarnation)| About {
        stamp: Stamp { clock, node: NodeId(node) },
        incarnation: Incarnation(incarnation),
    })
}

fn reports() -> impl Strategy<Value = Report> {
    let holds = prop_oneof![
        Just(&[][..]),
        Just(&[0][..]),
        Just(&[0, 1][..]),
        Just(&[1, 3][..]),
        Just(&[0, u32::MAX][..]),
        Just(&[1, 0][..])
    ];
    let version = prop_oneof![0u64..5, Just(u64::MAX)];
    (0..=NODES, 0u32..2, version, holds, any::<bool>()).prop_map(
        |(node, incarnation, version, holds, ahead)| Report {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            version,
            holds: slots(holds),
            ahead,
            idle: version % 2 == 1,
        },
    )
}

fn messages() -> impl Strategy<Value = SlotsMessage> {
    let scopes = prop_oneof![Just(Scope::Yourself), (0u8..4).prop_map(Scope::Clusters)];
    let several = (
        prop::collection::vec((0..NODES, 1..=NODES + 1), 0..3),
        prop::collection::vec(reports(), 0..3),
    );
    prop_oneof![
        4 => (heads(), abouts(), scopes)
            .prop_map(|(head, about, scope)| {
                SlotsMessage::Request { head, about, weight: u32::MAX, scope }
            }),
        4 => (heads(), abouts(), several).prop_map(|(head, about, (empty, reports))| {
            SlotsMessage::Agg { head, about, answers: answers(&empty, reports) }
        }),
        3 => (heads(), abouts(), reports())
            .prop_map(|(head, about, report)| {
                SlotsMessage::Update { head, about, report: Box::new(report) }
            }),
        1 => ((0u32..4).prop_map(Incarnation), 0u8..4)
            .prop_map(|(incarnation, round)| SlotsMessage::Join { incarnation, round }),
        1 => (heads(), (0u32..4).prop_map(Incarnation), 0u8..4, clocks())
            .prop_map(|(head, incarnation, round, clock)| {
                SlotsMessage::Welcome { head, incarnation, round, clock }
            }),
    ]
}

/// Other inputs between two messages.
fn inputs() -> impl Strategy<Value = Input<SlotsMessage, SlotsTimer>> {
    prop_oneof![
        12 => (0..=NODES, messages())
            .prop_map(|(from, message)| Input::Deliver { from: NodeId(from), message }),
        2 => (0u32..4).prop_map(|weight| Input::Acquire { weight }),
        1 => Just(Input::Withdraw),
        1 => (1u64..5).prop_map(|grant| Input::Release { grant: GrantId(grant) }),
        1 => (0u32..4).prop_map(Input::Resize),
        1 => any::<bool>().prop_map(Input::Lease),
        1 => prop::collection::vec(0u32..4, 0..3).prop_map(|slots| Input::Reserved(slots.into())),
        1 => ((0..=NODES).prop_map(NodeId), (0u32..3).prop_map(Incarnation))
            .prop_map(|(node, incarnation)| Input::Crashed { node, incarnation }),
        1 => ((0..NODES).prop_map(NodeId), 1u32..4).prop_map(|(node, number)| {
            Input::Joined { node, incarnation: Incarnation(number), view: ViewId(number) }
        }),
        1 => Just(Input::Expire(SlotsTimer::AskAgain)),
        1 => Just(Input::Expire(SlotsTimer::PassOn)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Laws 4 and 5: every message in every order is applied or refused, never a panic; a refusal
    /// changes nothing; the queue for later views stays small.
    #[test]
    fn anything_may_arrive(
        dissemination in prop_oneof![Just(Dissemination::Flat), Just(Dissemination::Tree)],
        membership in
            prop_oneof![3 => Just(MembershipSource::Log), 1 => Just(MembershipSource::Join)],
        lossy in any::<bool>(),
        inputs in prop::collection::vec(inputs(), 0..60),
    ) {
        let ask_again = lossy.then_some(kgate_core::Span::UNIT);
        let mut known = setup(NODES, 2, Defects::NONE);
        let options = SlotOptions { batch: 2, ..SlotOptions::default() };
        known.slots = SlotOptions { dissemination, membership, ask_again, ..options };
        let mut out = Outbox::new();
        let mut node = Slots::start(&known, None, &mut out);
        for input in inputs {
            let before = node.clone();
            let done = node.handle(Time::ZERO, input, &mut out);
            if done.is_err() {
                prop_assert!(node == before && out.is_empty());
            }
            while out.pop().is_some() {}
            let _ = node.observe();
            prop_assert!(node.queued.len() <= (NODES * NODES) as usize);
            prop_assert!(node.observe().owing.len() < NODES as usize);
        }
    }
}
