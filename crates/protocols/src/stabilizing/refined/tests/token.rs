//! A stabilizing mutex over the layer: Dijkstra's ring of K-state machines, along a ring or around
//! a tree.

use super::*;

/// Dijkstra 1974, the solution with K states: each place of a ring has a number below K. Place 0
/// may move while its number equals its predecessor's, and adds 1; the others may move while it
/// differs, and copy it. With K no less than there are places, one place only may move in the end:
/// it has the token.
///
/// The ring is the graph if that is one, in order of ids; else it leads around the breadth-first
/// tree, so that a process has as many places as neighbours in the tree. Only the first of them is
/// privileged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Dijkstra;

const K: u8 = 16;
/// A process has no more places than this.
const PLACES: usize = 8;

/// The ring: the process of each place.
fn places(graph: &Graph) -> Vec<NodeId> {
    let nodes = graph.nodes();
    let next = |node: u32| NodeId((node + 1) % nodes);
    if nodes == 1 || (0..nodes).all(|node| graph.neighbours(NodeId(node)).contains(&next(node))) {
        return (0..nodes).map(NodeId).collect();
    }
    fn walk(graph: &Graph, node: NodeId, way: &mut Vec<NodeId>) {
        for &child in graph.neighbours(node) {
            if graph.parent(child) == Some(node) {
                way.push(node);
                walk(graph, child, way);
            }
        }
        if node != graph.root() {
            way.push(node);
        }
    }
    let mut way = Vec::new();
    walk(graph, graph.root(), &mut way);
    way
}

/// The moves that are possible at `me`: at which of its places, and to what number.
fn moves(graph: &Graph, me: NodeId, of: impl Fn(NodeId) -> [u8; PLACES]) -> Vec<(usize, u8)> {
    let ring = places(graph);
    let nth = |place: usize| ring[..place].iter().filter(|&&node| node == ring[place]).count();
    let number = |place: usize| of(ring[place])[nth(place)];
    let mine = (0..ring.len()).filter(|&place| ring[place] == me);
    mine.filter_map(|place| {
        let before = number((place + ring.len() - 1) % ring.len());
        match place {
            0 => (number(0) == before).then_some((0, (before + 1) % K)),
            1.. => (number(place) != before).then_some((nth(place), before)),
        }
    })
    .collect()
}

impl Rules for Dijkstra {
    const NAME: &'static str = "dijkstra";
    type State = [u8; PLACES];

    fn clean(_setup: &Setup) -> [u8; PLACES] {
        [0; PLACES]
    }

    fn arbitrary(_setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> [u8; PLACES] {
        [0; PLACES].map(|_| u8::try_from(below(K.into())).unwrap())
    }

    fn in_domain(_setup: &Setup, state: &[u8; PLACES]) -> bool {
        state.iter().all(|&number| number < K)
    }

    fn enabled(view: View<'_, [u8; PLACES]>, steps: &mut Vec<Step<[u8; PLACES]>>) {
        let of = |node| *view.of(node).expect("its places are beside its neighbours'");
        for (nth, number) in moves(view.graph(), view.me(), of) {
            let mut next = *view.own;
            next[nth] = number;
            steps.push(Step { name: "move", next, privileged: nth == 0 });
        }
    }

    fn survey(setups: &[Setup], states: &[[u8; PLACES]]) -> Survey {
        let of = |node: NodeId| states[node.index()];
        let all =
            setups.iter().map(|setup| moves(setup.graph.as_ref().unwrap(), setup.me, of).len());
        Survey { tokens: small(all.sum::<usize>() as u64), ..Survey::default() }
    }
}

/// How long a client stays inside at most.
const HOLD: u64 = 2 * DELAY.0;

/// Clients that request again and again: a client inside releases after a while and requests again
/// at once.
struct Clients {
    leaves: Vec<Option<Time>>,
    served: Vec<u64>,
}

impl Clients {
    fn new(net: &Net<Refined<Dijkstra>>) -> Self {
        Self { leaves: vec![None; net.nodes.len()], served: vec![0; net.nodes.len()] }
    }

    /// Performs one event; then every process that may do so releases or requests. Returns the
    /// processes inside.
    fn step(&mut self, net: &mut Net<Refined<Dijkstra>>, rng: &mut Rng) -> Vec<u32> {
        net.step(Time::NEVER).expect("timers never end");
        for at in 0..net.nodes.len() {
            let id = small(at as u64);
            if self.leaves[at].take_if(|leaves| *leaves <= net.now).is_some() {
                net.release(id);
            }
            if net.nodes[at].phase == Phase::Idle {
                net.acquire(id);
            }
            if net.nodes[at].phase == Phase::Holding && self.leaves[at].is_none() {
                self.leaves[at] = Some(net.now + Span(1 + rng.below(HOLD)));
                self.served[at] += 1;
            }
        }
        net.inside()
    }
}

fn tokens(net: &Net<Refined<Dijkstra>>) -> u32 {
    let setups: Vec<Setup> = net.nodes.iter().map(|node| node.setup.clone()).collect();
    let states: Vec<_> = net.nodes.iter().map(|node| node.state).collect();
    Dijkstra::survey(&setups, &states).tokens
}

/// A stabilizing mutex over the layer stabilizes, from any state with up to 3 malformed messages in
/// every channel: all clocks exceed B in time; N^2 rounds later there is one token (place 0 needs
/// at most N moves, of N rounds each, to reach a number that no other place has). Once the
/// processes that entered without a right to have left, at most one is inside and every request is
/// granted.
#[test]
fn a_stabilizing_mutex_stays_one() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let graph = random_graph(&mut rng);
        let length = places(&graph).len() as u64;
        let (bound, round) = (convergence(&graph), turn(&graph).0 + HOLD + RESEND.0);
        let mut net = net::<Dijkstra>(graph, &mut rng);
        let mut clients = Clients::new(&net);
        while net.now < Time(20 * EXCHANGE) {
            assert!(
                clients.step(&mut net, &mut rng).len() <= 1,
                "seed {seed}: after a clean start"
            );
        }
        let b = strike(&mut net, 3, &mut rng);
        let struck = net.now;
        while net.nodes.iter().any(|node| node.clock <= b) {
            clients.step(&mut net, &mut rng);
            assert!(net.now.since(struck) <= bound, "seed {seed}: not above {b} after {bound}");
        }
        let above = net.now;
        while tokens(&net) != 1 {
            clients.step(&mut net, &mut rng);
            assert!(
                net.now.since(above).0 <= length * length * round,
                "seed {seed}: {} tokens",
                tokens(&net)
            );
        }
        let one = net.now;
        while net.now.since(one).0 <= HOLD + RESEND.0 {
            clients.step(&mut net, &mut rng);
        }
        let served = clients.served.clone();
        let stable = net.now;
        while clients.served.iter().zip(&served).any(|(now, then)| now - then < 3) {
            let inside = clients.step(&mut net, &mut rng);
            assert!(
                inside.len() <= 1 && tokens(&net) == 1,
                "seed {seed}: {inside:?} inside, {} tokens",
                tokens(&net)
            );
            let bound = 4 * length * round;
            assert!(
                net.now.since(stable).0 <= bound,
                "seed {seed}: {:?} since {served:?}",
                clients.served
            );
        }
    }
}

/// The client's side: requested at once, granted at a privileged tick, busy, withdrawn, released;
/// and a release or withdrawal of a request that does not exist is refused.
#[test]
fn requests() {
    let mut net = net::<Dijkstra>(graph(1, &[]), &mut Rng::new(1));
    assert_eq!(
        net.refusal(0, Input::Acquire { weight: 2 }),
        Refusal::Weight { weight: 2, most: 1 }
    );
    assert_eq!(
        net.refusal(0, Input::Acquire { weight: 0 }),
        Refusal::Weight { weight: 0, most: 1 }
    );
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
    net.acquire(0);
    assert_eq!(net.inside(), [0], "alone, it always has the token");
    let notices: Vec<_> = net.notices.drain(..).map(|(_, _, notice)| notice).collect();
    assert_eq!(
        notices,
        [Notice::Asked, Notice::Granted { grant: GrantId(1), slots: None, fence: None }]
    );
    let number = net.nodes[0].state;
    net.run_until(Time(RESEND.0 * 5));
    assert_eq!(net.nodes[0].state, number, "no privileged step while the client is inside");
    assert_eq!(net.refusal(0, Input::Acquire { weight: 1 }), Refusal::Busy);
    assert_eq!(net.refusal(0, Input::Withdraw), Refusal::NoSuchRequest);
    assert_eq!(net.refusal(0, Input::Release { grant: GrantId(2) }), Refusal::NoSuchRequest);
    net.release(0);
    assert_ne!(net.nodes[0].state, number, "the token has passed on");
    assert_eq!(net.refusal(0, Input::Release { grant: GrantId(1) }), Refusal::NoSuchRequest);
    let incarnation = Incarnation::default();
    for input in [
        Input::Resize(2),
        Input::Lease(true),
        Input::Crashed { node: NodeId(0), incarnation },
        Input::Joined { node: NodeId(0), incarnation, view: kgate_core::ViewId(incarnation.0) },
    ] {
        assert!(matches!(net.refusal(0, input), Refusal::Unsupported { .. }));
    }
}

/// A request that is withdrawn is not granted, and the token goes on without it.
#[test]
fn withdrawn() {
    let mut net = net::<Dijkstra>(ring(3), &mut Rng::new(1));
    net.acquire(1);
    net.acquire(2);
    assert_eq!(net.nodes[1].observe().phase, Phase::Waiting);
    net.input(1, Input::Withdraw).unwrap();
    net.run_until(Time(EXCHANGE * 10));
    assert_eq!(net.inside(), [2]);
    assert!(net.notices.iter().all(|(_, node, _)| *node != NodeId(1) || net.nodes[1].grants == 0));
}

/// A privilege that has gone without its step does not cost the client its next one.
#[test]
fn spent_on_what_has_gone() {
    let mut net = net::<Dijkstra>(ring(3), &mut Rng::new(1));
    net.nodes[2].spent = true;
    net.acquire(2);
    let start = net.nodes[2].state;
    while net.inside().is_empty() {
        net.step(Time(EXCHANGE * 10)).expect("granted by then");
        assert_eq!(net.nodes[2].state, start, "the first token of all has passed");
    }
}
