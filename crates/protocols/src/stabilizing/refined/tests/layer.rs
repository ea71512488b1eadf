//! Freshness, exclusion, convergence and pace of the layer itself, and what it refuses.

use super::*;

/// What a process saw at a tick.
struct Sight {
    me: NodeId,
    around: Vec<u8>,
}

std::thread_local! {
    /// What was seen since the test last looked.
    static SEEN: RefCell<Vec<Sight>> = const { RefCell::new(Vec::new()) };
}

/// Every process counts its ticks, so that a state is never the same as at the tick before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Count;

const STATES: u8 = 200;

impl Rules for Count {
    const NAME: &'static str = "count";
    type State = u8;

    fn clean(setup: &Setup) -> u8 {
        u8::try_from(setup.me.0 % 7).unwrap()
    }

    fn arbitrary(_setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> u8 {
        u8::try_from(below(STATES.into())).unwrap()
    }

    fn in_domain(_setup: &Setup, state: &u8) -> bool {
        *state < STATES
    }

    fn enabled(view: View<'_, u8>, steps: &mut Vec<Step<u8>>) {
        SEEN.with_borrow_mut(|seen| {
            seen.push(Sight { me: view.me(), around: view.neighbours.to_vec() })
        });
        steps.push(Step { name: "count", next: (view.own + 1) % STATES, privileged: false });
    }

    fn survey(_setups: &[Setup], _states: &[u8]) -> Survey {
        Survey::default()
    }
}

/// What [`watch`] saw.
#[derive(Default)]
struct Watched {
    /// How often each process ticked at a clock that is right.
    ticks: Vec<u64>,
    /// How many of these did not see their neighbours' present states.
    stale: u64,
    /// The same of those at smaller clocks, which need not.
    stale_before: u64,
}

/// Runs for a while and looks at every tick; those at clocks of `right_from` and more should be
/// right.
fn watch(net: &mut Net<Refined<Count>>, span: Span, right_from: u64) -> Watched {
    watch_losses(net, span, right_from, &mut || false)
}

/// The same, where messages get lost.
fn watch_losses(
    net: &mut Net<Refined<Count>>,
    span: Span,
    right_from: u64,
    lost: &mut dyn FnMut() -> bool,
) -> Watched {
    SEEN.take();
    let end = net.now + span;
    let mut seen = Watched { ticks: vec![0; net.nodes.len()], ..Watched::default() };
    while let Some(at) = net.step(end) {
        if lost() {
            net.flights.pop_last();
        }
        let node = &net.nodes[at.index()];
        let truth = node.neighbours().iter().map(|node| net.nodes[node.index()].state);
        if let [sight] = &SEEN.take()[..] {
            assert_eq!(sight.me, at);
            let stale = u64::from(!truth.eq(sight.around.iter().copied()));
            if node.clock > right_from {
                seen.ticks[at.index()] += 1;
                seen.stale += stale;
            } else {
                seen.stale_before += stale;
            }
        }
        check_neighbours(net, right_from);
    }
    net.now = end;
    seen
}

/// The head of the layer: neighbours' clocks above B differ by at most 1.
fn check_neighbours(net: &Net<Refined<Count>>, right_from: u64) {
    for node in net.nodes.iter().filter(|node| node.clock >= right_from) {
        for &other in node.neighbours() {
            let other = net.nodes[other.index()].clock;
            assert!(
                other < right_from || node.clock.abs_diff(other) <= 1,
                "{} {other}",
                node.clock
            );
        }
    }
}

/// Freshness and exclusion after a clean start: from the first tick on every process sees the
/// present states of its neighbours, with any reordering or loss; and every process ticks.
#[test]
fn clean_starts_are_right_at_once() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut net = net::<Count>(random_graph(&mut rng), &mut rng);
        let one_in = 3 + rng.below(6);
        let lost = |rng: &mut Rng| seed % 2 == 0 && rng.below(one_in) == 0;
        let Watched { ticks, stale, .. } =
            watch_losses(&mut net, Span(EXCHANGE * 60), 0, &mut || lost(&mut rng));
        assert_eq!(stale, 0, "seed {seed}");
        assert!(ticks.iter().all(|&ticks| ticks >= 3), "seed {seed}: {ticks:?}");
    }
}

/// Freshness and convergence from any state, with any malformed messages in transit: from the first
/// one on, each tick above B is right; all clocks exceed B within the time that the layer's module
/// head states, and then every process ticks.
#[test]
fn any_state_becomes_right() {
    let mut harmed = 0;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let graph = random_graph(&mut rng);
        let (bound, turn) = (convergence(&graph), turn(&graph));
        let mut net = net::<Count>(graph, &mut rng);
        net.run_until(Time(rng.below(20 * EXCHANGE)));
        let b = strike(&mut net, seed % 4, &mut rng);
        let Watched { stale, stale_before, .. } = watch(&mut net, bound, b + 1);
        assert_eq!(stale, 0, "seed {seed}, while it converged");
        harmed += u64::from(stale_before > 0);
        let lowest = net.nodes.iter().map(|node| node.clock).min().unwrap();
        assert!(lowest > b, "seed {seed}: {lowest} is not above {b} after {bound}");
        let Watched { ticks, stale, .. } = watch(&mut net, turn, b + 1);
        assert_eq!(stale, 0, "seed {seed}, afterwards");
        assert!(ticks.iter().all(|&ticks| ticks >= 1), "seed {seed}: {ticks:?}");
    }
    assert!(harmed > 300, "the faults were harmless but {harmed} times");
}

/// The same for a fault of one process only, in the midst of a right run, and another one soon
/// after.
#[test]
fn one_scrambled_process() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let graph = random_graph(&mut rng);
        let (bound, nodes) = (convergence(&graph), u64::from(graph.nodes()));
        let mut net = net::<Count>(graph, &mut rng);
        for _ in 0..3 {
            net.run_until(net.now + Span(rng.below(5 * EXCHANGE)));
            let struck = usize::try_from(rng.below(nodes)).unwrap();
            net.nodes[struck].scramble(&mut |bound| rng.below(bound));
        }
        let b = highest(&net);
        let Watched { stale, .. } = watch(&mut net, bound, b + 1);
        assert_eq!(stale, 0, "seed {seed}");
        assert!(net.nodes.iter().all(|node| node.clock > b), "seed {seed}: above {b}?");
    }
}

/// With no message in flight and no process that may tick, the timer alone restarts the system.
#[test]
fn an_empty_network_wakes_up() {
    let mut net = net::<Count>(ring(5), &mut Rng::new(1));
    net.flights.clear();
    for node in &mut net.nodes {
        node.clock = 9;
        node.clocks.fill(3);
        assert!(!node.comes_first());
    }
    let Watched { ticks, stale, .. } = watch(&mut net, Span(EXCHANGE * 5), 10);
    assert!(stale == 0 && ticks.iter().all(|&ticks| ticks > 0), "{ticks:?}");
}

/// The checker of freshness sees a planted bug: if neighbours with equal clocks tick both, they see
/// states that are gone. (On an odd ring; without an odd cycle neighbours might take turns for
/// ever.)
#[test]
fn the_checker_sees_neighbours_that_tick_together() {
    for seed in 0..50 {
        let mut net = net::<Count>(ring(5), &mut Rng::new(seed));
        assert_eq!(watch(&mut net, Span(EXCHANGE * 20), 0).stale, 0, "seed {seed}");
        net.nodes.iter_mut().for_each(|node| node.careless = true);
        assert_ne!(watch(&mut net, Span(EXCHANGE * 20), 0).stale, 0, "seed {seed}");
    }
}

/// Ties by scattered ids: on a ring numbered in order, processes tick side by side, as often as on
/// any other; by plain ids it would be one at a time, once in n delays each.
#[test]
fn a_ring_in_order_is_not_slow() {
    let mut net = net::<Count>(ring(60), &mut Rng::new(7));
    net.delay = Box::new(|| DELAY);
    let Watched { ticks, stale, .. } = watch(&mut net, Span(DELAY.0 * 300), 0);
    assert_eq!(stale, 0);
    assert!(ticks.iter().all(|&ticks| ticks >= 75), "once in 4 delays: {ticks:?}");
}

/// A process without neighbours ticks by its timer and when its client calls, and never in a loop.
#[test]
fn a_process_alone() {
    let mut net = net::<Count>(graph(1, &[]), &mut Rng::new(1));
    net.run_until(Time(RESEND.0 * 10));
    assert_eq!(net.nodes[0].clock, 11, "at the start, and ten times");
    assert!(net.flights.is_empty() && net.sent.is_empty());
}

/// Laws 4 and 5: a message that no neighbour can have sent is refused and changes nothing; the
/// greatest well-formed clocks do no harm.
#[test]
fn malformed_messages_are_refused() {
    let mut net = net::<Count>(ring(5), &mut Rng::new(1));
    let tell = |from, clock, state| Input::Deliver {
        from: NodeId(from),
        message: RefinedMessage { clock, state },
    };
    assert_eq!(net.refusal(1, tell(1, 5, 5)), Refusal::UnknownNode(NodeId(1)));
    assert_eq!(net.refusal(1, tell(5, 5, 5)), Refusal::UnknownNode(NodeId(5)));
    assert!(matches!(net.refusal(1, tell(3, 5, 5)), Refusal::Malformed(_)), "no neighbour");
    assert!(matches!(net.refusal(1, tell(2, 5, STATES)), Refusal::Malformed(_)), "no state");
    assert!(matches!(net.refusal(1, tell(2, LIMIT, 5)), Refusal::Malformed(_)), "no clock");
    assert!(matches!(net.refusal(1, tell(2, u64::MAX, 5)), Refusal::Malformed(_)), "no clock");
    for from in [0, 2] {
        net.input(1, tell(from, LIMIT - 1, 5)).unwrap();
    }
    assert!(net.nodes[1].clock >= LIMIT - 1);
    net.input(1, Input::Expire(RefinedTimer::Resend)).unwrap();
    assert!(
        Refined::<Count>::forge(&net.nodes[1].setup, NodeId(3), &mut |_| 0).is_none(),
        "no neighbour"
    );
}

/// A state is believed unless a newer one has been received; a state that memory cannot have is
/// folded at once.
#[test]
fn newest_heard_and_own_state() {
    let mut net = net::<Count>(ring(4), &mut Rng::new(1));
    let tell =
        |clock, state| Input::Deliver { from: NodeId(1), message: RefinedMessage { clock, state } };
    for (clock, state, heard) in
        [(7, 70, (7, 70)), (6, 60, (7, 70)), (7, 71, (7, 71)), (8, 80, (8, 80))]
    {
        net.input(0, tell(clock, state)).unwrap();
        assert_eq!((net.nodes[0].clocks[0], net.nodes[0].states[0]), heard);
    }
    net.nodes[3].state = STATES;
    net.input(3, Input::Expire(RefinedTimer::Resend)).unwrap();
    assert!(net.nodes[3].state < STATES);
}

/// A process waits for a clock that is one ahead. It adopts one that is further ahead without a
/// step, and sends it on.
#[test]
fn catching_up() {
    let mut net = net::<Count>(ring(4), &mut Rng::new(1));
    net.run_until(Time(EXCHANGE));
    let (clock, state) = (net.nodes[0].clock, net.nodes[0].state);
    net.nodes[0].clocks.copy_from_slice(&[clock - 1, clock - 1]);
    let tell =
        |clock| Input::Deliver { from: NodeId(1), message: RefinedMessage { clock, state: 0 } };
    net.input(0, tell(clock + 1)).unwrap();
    assert_eq!((net.nodes[0].clock, net.nodes[0].state), (clock, state));
    net.sent.clear();
    net.input(0, tell(clock + 2)).unwrap();
    assert_eq!((net.nodes[0].clock, net.nodes[0].state), (clock + 2, state));
    assert_eq!(net.sent("state"), [(0, 1), (0, 3)]);
}

/// Faults leave clocks at both ends and near the neighbours', all below 2^62; the client does not
/// notice.
#[test]
fn scrambled_clocks() {
    let mut rng = Rng::new(3);
    let mut net = net::<Count>(ring(4), &mut rng);
    net.run_until(Time(EXCHANGE * 10));
    net.acquire(0);
    let near = net.nodes[0].clocks[0];
    let mut clocks = Vec::new();
    for _ in 0..100 {
        let mut node = net.nodes[0].clone();
        assert!(node.scramble(&mut |bound| rng.below(bound)));
        assert_eq!((node.phase, node.grants), (Phase::Waiting, 0));
        clocks.push(node.clock);
    }
    assert!(clocks.iter().all(|&clock| clock < FAULTY));
    for wanted in [0..8, near - 4..near + 6, FAULTY - 8..FAULTY, FAULTY / 8..FAULTY / 8 * 7] {
        assert!(clocks.iter().any(|clock| wanted.contains(clock)), "{wanted:?}");
    }
}
