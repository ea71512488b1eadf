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

/// Laws 4 and 5: junk of every kind is refused by a process that is in the middle of things.
#[test]
fn junk_is_refused() {
    use TreeTokenMessage::{Advise, Initialize, Request, Restart, Token};
    let mut net = path(4, 2, Printed::NONE);
    net.acquire(1);
    net.acquire(2);
    net.acquire(3);
    let lives = Lives { mine: 1, yours: 1 };
    let none = NodeList::default;
    let token = |slot, epoch, version, lives, served, lost| Token {
        slot,
        revision: Revision { epoch, version },
        lives,
        served,
        lost,
    };
    let fine = [said(0, 0), said(0, 0)];
    let restart = |life, statement| Restart { life, statement };
    let advise = |lives, asks, heard, statement| Advise { lives, asks, heard, statement };
    let unlived = Lives { mine: 1, yours: 2 };
    let unborn = Lives { mine: 0, yours: 1 };
    let strangers = NodeList::from_iter([NodeId(9)]);
    let itself = NodeList::from_iter([NodeId(0)]);
    let junk = [
        token(2, 0, 1, lives, 1, none()),
        token(u32::MAX, 0, 1, lives, 1, none()),
        token(0, 1, 1, lives, 1, none()),
        token(0, 0, u64::MAX, lives, 1, none()),
        token(0, 0, 1, lives, u64::MAX, none()),
        token(0, 0, 1, unlived, 1, none()),
        token(0, 0, 1, unborn, 1, none()),
        token(0, 0, 1, lives, 1, strangers.clone()),
        token(0, 0, 1, lives, 1, itself),
        Request { lives, asks: 4 },
        Request { lives, asks: u64::MAX },
        Request { lives: unlived, asks: 1 },
        Request { lives: unborn, asks: 1 },
        Request { lives: Lives { mine: 2, yours: 1 }, asks: u64::MAX },
        restart(0, statement(&fine, &[])),
        restart(2, statement(&fine[..1], &[])),
        restart(2, statement(&[fine[0], fine[0], fine[0]], &[])),
        restart(2, statement(&[fine[0], said(1, 0)], &[])),
        restart(2, statement(&[fine[0], said(0, u64::MAX)], &[])),
        restart(2, statement(&fine, &[0])),
        restart(2, statement(&fine, &[4])),
        advise(lives, 4, 0, statement(&fine, &[])),
        advise(lives, u64::MAX, 0, statement(&fine, &[])),
        advise(lives, 0, u64::MAX, statement(&fine, &[])),
        advise(lives, 0, 0, statement(&[], &[])),
        advise(lives, 0, 0, statement(&fine, &[0])),
        advise(lives, 0, 0, statement(&fine, &[u32::MAX])),
        advise(unlived, 0, 0, statement(&fine, &[])),
        advise(unborn, 0, 0, statement(&fine, &[])),
    ];
    net.deliver(2, 1); // p1 has an ask of p2 and one of its own.
    for message in junk {
        net.refusal(1, deliver(0, message));
    }
    for stranger in [1, 4, u32::MAX] {
        assert_eq!(net.refusal(1, deliver(stranger, Initialize)), Refusal::Stranger(NodeId(stranger)));
        let crashed = Input::Crashed(NodeId(stranger), kgate_core::Incarnation::default());
        assert_eq!(net.refusal(1, crashed), Refusal::Stranger(NodeId(stranger)));
    }
    assert_eq!(net.refusal(1, Input::Acquire { weight: 2 }), Refusal::Weight { weight: 2, most: 1 });
    assert_eq!(net.refusal(1, Input::Acquire { weight: 0 }), Refusal::Weight { weight: 0, most: 1 });
    assert_eq!(net.refusal(1, Input::Acquire { weight: 1 }), Refusal::Busy);
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
    assert_eq!(net.refusal(1, Input::Release { grant: GrantId(0) }), Refusal::NoSuchRequest);
    for input in [Input::Resize(3), Input::Lease(true), Input::Joined(NodeId(0), Default::default())] {
        assert!(matches!(net.refusal(1, input), Refusal::Unsupported { .. }));
    }
    net.deliver_all();
    assert_eq!(net.inside().len(), 2, "and everything goes on");
}

/// Who is no neighbour, or lost, or holds us for lost, is not listened to.
#[test]
fn strangers_are_not_listened_to() {
    let mut net = path(5, 1, Printed::NONE);
    net.crash(4);
    net.tell_crash([3], 4);
    let lives = Lives { mine: 1, yours: 1 };
    let revision = Revision { epoch: 0, version: 9 };
    let token = |lost: &[u32]| TreeTokenMessage::Token {
        slot: 0,
        revision,
        lives,
        served: 1,
        lost: lost.iter().map(|&node| NodeId(node)).collect(),
    };
    let before = net.nodes[3].clone();
    for from in [0, 1, 4] {
        net.input(3, deliver(from, token(&[]))).unwrap();
        net.input(3, deliver(from, TreeTokenMessage::Request { lives, asks: 1 })).unwrap();
        net.input(3, deliver(from, TreeTokenMessage::Initialize)).unwrap();
    }
    net.input(3, deliver(2, token(&[3]))).unwrap();
    assert_eq!(net.nodes[3], before);
}
