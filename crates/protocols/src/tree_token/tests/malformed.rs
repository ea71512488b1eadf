//! What no correct peer or client says is refused, and nothing has changed.

use super::*;

fn deliver(from: u32, message: TreeTokenMessage) -> InputOf<TreeToken> {
    Input::Deliver { from: NodeId(from), message }
}

fn said(epoch: u32, version: u64) -> Said {
    Said { side: Side::Mine, revision: Revision { epoch, version } }
}

fn statement(tokens: &[Said], lost: &[u32]) -> Statement {
    let lost = lost.iter().map(|&node| NodeId(node)).collect();
    Statement { initialized: true, lost, tokens: tokens.into() }
}

/// Laws 4 and 5: a process in the middle of a recovery and of requests refuses malformed messages
/// of every kind.
#[test]
fn malformed_messages_are_refused() {
    use TreeTokenMessage::{Advise, Initialize, Request, Restart, Token};
    let mut net = path(4, 2, Defects::NONE);
    net.acquire(1);
    net.acquire(2);
    net.acquire(3);
    let incarnations = Incarnations { mine: 1, yours: 1 };
    let none = NodeList::default;
    let token = |slot, epoch, version, incarnations, served, lost| Token {
        slot,
        revision: Revision { epoch, version },
        incarnations,
        served,
        lost,
    };
    let fine = [said(0, 0), said(0, 0)];
    let restart = |incarnation, statement| Restart { incarnation, statement };
    let advise =
        |incarnations, asks, heard, statement| Advise { incarnations, asks, heard, statement };
    let unlived = Incarnations { mine: 1, yours: 2 };
    let unborn = Incarnations { mine: 0, yours: 1 };
    let unknown_nodes = NodeList::from_iter([NodeId(9)]);
    let itself = NodeList::from_iter([NodeId(0)]);
    let malformed = [
        token(2, 0, 1, incarnations, 1, none()),
        token(u32::MAX, 0, 1, incarnations, 1, none()),
        token(0, 1, 1, incarnations, 1, none()),
        token(0, 0, u64::MAX, incarnations, 1, none()),
        token(0, 0, 1, incarnations, u64::MAX, none()),
        token(0, 0, 1, unlived, 1, none()),
        token(0, 0, 1, unborn, 1, none()),
        token(0, 0, 1, incarnations, 1, unknown_nodes.clone()),
        token(0, 0, 1, incarnations, 1, itself),
        Request { incarnations, asks: 4 },
        Request { incarnations, asks: u64::MAX },
        Request { incarnations: unlived, asks: 1 },
        Request { incarnations: unborn, asks: 1 },
        Request { incarnations: Incarnations { mine: 2, yours: 1 }, asks: u64::MAX },
        restart(0, statement(&fine, &[])),
        restart(2, statement(&fine[..1], &[])),
        restart(2, statement(&[fine[0], fine[0], fine[0]], &[])),
        restart(2, statement(&[fine[0], said(1, 0)], &[])),
        restart(2, statement(&[fine[0], said(0, u64::MAX)], &[])),
        restart(2, statement(&fine, &[0])),
        restart(2, statement(&fine, &[4])),
        advise(incarnations, 4, 0, statement(&fine, &[])),
        advise(incarnations, u64::MAX, 0, statement(&fine, &[])),
        advise(incarnations, 0, u64::MAX, statement(&fine, &[])),
        advise(incarnations, 0, 0, statement(&[], &[])),
        advise(incarnations, 0, 0, statement(&fine, &[0])),
        advise(incarnations, 0, 0, statement(&fine, &[u32::MAX])),
        advise(unlived, 0, 0, statement(&fine, &[])),
        advise(unborn, 0, 0, statement(&fine, &[])),
    ];
    net.deliver(2, 1); // p1 has an ask of p2 and one of its own.
    for message in malformed {
        net.refusal(1, deliver(0, message));
    }
    for unknown in [1, 4, u32::MAX] {
        assert_eq!(
            net.refusal(1, deliver(unknown, Initialize)),
            Refusal::UnknownNode(NodeId(unknown))
        );
        let crashed = Input::Crashed {
            node: NodeId(unknown),
            incarnation: kgate_core::Incarnation::default(),
        };
        assert_eq!(net.refusal(1, crashed), Refusal::UnknownNode(NodeId(unknown)));
    }
    assert_eq!(
        net.refusal(1, Input::Acquire { weight: 2 }),
        Refusal::Weight { weight: 2, most: 1 }
    );
    assert_eq!(
        net.refusal(1, Input::Acquire { weight: 0 }),
        Refusal::Weight { weight: 0, most: 1 }
    );
    assert_eq!(net.refusal(1, Input::Acquire { weight: 1 }), Refusal::Busy);
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
    assert_eq!(net.refusal(1, Input::Release { grant: GrantId(0) }), Refusal::NoSuchRequest);
    for input in [
        Input::Resize(3),
        Input::Lease(true),
        Input::Joined {
            node: NodeId(0),
            incarnation: Default::default(),
            view: Default::default(),
        },
    ] {
        assert!(matches!(net.refusal(1, input), Refusal::Unsupported { .. }));
    }
    net.deliver_all();
    assert_eq!(net.inside().len(), 2, "and everything goes on");
}

/// A message is ignored if its sender is not a neighbour, is lost, or has declared this process
/// lost.
#[test]
fn unknown_nodes_are_refused() {
    let mut net = path(5, 1, Defects::NONE);
    net.crash(4);
    net.notify_crashed([3], 4);
    let incarnations = Incarnations { mine: 1, yours: 1 };
    let revision = Revision { epoch: 0, version: 9 };
    let token = |lost: &[u32]| TreeTokenMessage::Token {
        slot: 0,
        revision,
        incarnations,
        served: 1,
        lost: lost.iter().map(|&node| NodeId(node)).collect(),
    };
    let before = net.nodes[3].clone();
    for from in [0, 1, 4] {
        net.input(3, deliver(from, token(&[]))).unwrap();
        net.input(3, deliver(from, TreeTokenMessage::Request { incarnations, asks: 1 })).unwrap();
        net.input(3, deliver(from, TreeTokenMessage::Initialize)).unwrap();
    }
    net.input(3, deliver(2, token(&[3]))).unwrap();
    assert_eq!(net.nodes[3], before);
}
