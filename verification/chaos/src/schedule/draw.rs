//! Draws a plan.

use kgate_sim::Rng;

use super::{Action, Fault, Frame, Kind, Part, Plan, Way};

/// Time before the first fault.
const QUIET_MS: u64 = 1_500;

pub(super) fn plan(frame: &Frame) -> Plan {
    let mut rng = Rng::fork(frame.seed, "chaos plan");
    let nodes = frame.nodes.unwrap_or_else(|| small(rng.within(5, 7)));
    let voters = if nodes >= 5 && rng.below(2) == 0 { 5 } else { 3.min(nodes) };
    let gates = (0..rng.within(1, 2))
        .map(|number| (format!("gate-{number}"), small(rng.within(1, 3))))
        .collect();
    let kinds = swarm(&frame.kinds, &mut rng);
    let spread = i64::from(frame.clock_error_ppm);
    let mut each = |kind: Kind, mut draw: Box<dyn FnMut(&mut Rng) -> u64>| -> Vec<u64> {
        (0..nodes).map(|_| if kinds.contains(&kind) { draw(&mut rng) } else { 0 }).collect()
    };
    let width = 2 * u64::from(frame.clock_error_ppm);
    // The ends of the range are what a bound must hold for.
    let skewed =
        each(Kind::Skew, Box::new(move |rng| [0, width, rng.within(0, width)][index(rng, 3)]));
    let skew = kinds.contains(&Kind::Skew);
    let clock_ppm =
        skewed.iter().map(|drawn| if skew { drawn.cast_signed() - spread } else { 0 }).collect();
    let sync_ms = each(
        Kind::SlowDisk,
        Box::new(|rng| [0, rng.within(5, 60), rng.within(60, 400)][index(rng, 3)]),
    );
    let faults = Draw::new(frame, nodes).faults(&kinds, &mut rng);
    Plan { nodes, voters, gates, kinds, faults, clock_ppm, sync_ms }
}

/// Each kind is in the plan with a probability of one half; at least one kind that happens at a
/// time is.
fn swarm(allowed: &[Kind], rng: &mut Rng) -> Vec<Kind> {
    let standing = |kind: &Kind| matches!(kind, Kind::Skew | Kind::SlowDisk);
    let mut chosen: Vec<Kind> = allowed.iter().copied().filter(|_| rng.below(2) == 0).collect();
    let happening: Vec<Kind> = allowed.iter().copied().filter(|kind| !standing(kind)).collect();
    if chosen.iter().all(standing) && !happening.is_empty() {
        chosen.push(happening[index(rng, happening.len())]);
        chosen.sort_unstable();
    }
    chosen
}

struct Draw<'a> {
    frame: &'a Frame,
    nodes: u32,
    end_ms: u64,
    /// When the last fault of each node's process ends.
    nodes_free: Vec<u64>,
    /// When the last fault of each node's clients ends.
    clients_free: Vec<u64>,
    /// When the last disturbance of each node's network ends.
    lines_free: Vec<u64>,
}

impl<'a> Draw<'a> {
    fn new(frame: &'a Frame, nodes: u32) -> Self {
        let free = vec![0; nodes as usize];
        let (nodes_free, clients_free, lines_free) = (free.clone(), free.clone(), free);
        Self { frame, nodes, end_ms: frame.seconds * 1000, nodes_free, clients_free, lines_free }
    }

    fn faults(mut self, kinds: &[Kind], rng: &mut Rng) -> Vec<Fault> {
        let happening: Vec<Kind> = kinds
            .iter()
            .copied()
            .filter(|kind| !matches!(kind, Kind::Skew | Kind::SlowDisk))
            .collect();
        let mut faults = Vec::new();
        let mut now = QUIET_MS;
        while now < self.end_ms && !happening.is_empty() {
            let kind = happening[index(rng, happening.len())];
            self.add(kind, now, rng, &mut faults);
            now += rng.within(self.frame.lease_ms / 4, self.frame.lease_ms * 3 / 2);
        }
        faults.retain(|fault| fault.begin_ms < fault.end_ms && fault.end_ms <= self.end_ms);
        faults.sort_by_key(|fault| fault.begin_ms);
        faults
    }

    fn add(&mut self, kind: Kind, now: u64, rng: &mut Rng, faults: &mut Vec<Fault>) {
        let end = now + self.span(rng);
        let mut fault =
            |begin_ms, end_ms, action| faults.push(Fault { kind, begin_ms, end_ms, action });
        match kind {
            Kind::Partition => fault(now, end, Action::Cut(self.parts(rng))),
            Kind::OneWay => {
                let side = self.some(rng, 2);
                let deaf = rng.below(2) == 0;
                let ways =
                    self.across(&side).into_iter().filter(|(from, _)| side.contains(from) != deaf);
                fault(now, end, Action::Cut(ways.collect()));
            }
            Kind::Bridge => {
                let order = self.shuffled(rng);
                let (_, others) = order.split_at(1);
                let (left, right) = others.split_at(others.len() / 2);
                let both =
                    left.iter().flat_map(|a| right.iter().flat_map(move |b| [(*a, *b), (*b, *a)]));
                fault(now, end, Action::Cut(both.collect()));
            }
            Kind::Flap => {
                let ways = self.parts(rng);
                let mut at = now;
                for _ in 0..rng.within(3, 8) {
                    let closed = rng.within(self.frame.lease_ms / 10, self.frame.lease_ms / 2);
                    fault(at, at + closed, Action::Cut(ways.clone()));
                    at += closed + rng.within(self.frame.lease_ms / 20, self.frame.lease_ms / 2);
                }
            }
            Kind::Pause if rng.below(2) == 0 => {
                let chosen = self.some(rng, 2);
                if self.take_nodes(&chosen, now, end) {
                    fault(now, end, Action::PauseNodes(chosen));
                }
            }
            Kind::Pause => {
                let (node, part) = (self.one(rng), part(rng));
                if self.take_clients(node, now, end) {
                    fault(now, end, Action::PauseClients(node, part));
                }
            }
            Kind::Kill => {
                let chosen = self.some(rng, 2);
                if self.take_nodes(&chosen, now, end) {
                    fault(now, end, Action::KillNodes(chosen));
                }
            }
            Kind::Stop => {
                let node = self.one(rng);
                // Most operators start it again at once.
                let end = if rng.below(3) == 0 { end } else { now + rng.within(20, 200) };
                if self.take_nodes(&[node], now, end) {
                    fault(now, end, Action::StopNode(node));
                }
            }
            Kind::RestartAll => {
                let all: Vec<u32> = (0..self.nodes).collect();
                let begin = self.nodes_free.iter().copied().max().unwrap_or(now).max(now) + 1;
                let end = begin + rng.within(50, self.frame.lease_ms);
                if self.take_nodes(&all, begin, end) {
                    fault(begin, end, Action::KillNodes(all));
                }
            }
            Kind::Clients => {
                let (node, part) = (self.one(rng), part(rng));
                if self.take_clients(node, now, now + 1) {
                    fault(now, now + 1, Action::KillClients(node, part));
                }
            }
            Kind::SlowPeer | Kind::Loss | Kind::Delay => {
                let node = self.one(rng);
                if self.lines_free[node as usize] <= now {
                    self.lines_free[node as usize] = end + 1;
                    let mut within = |low, high| small(rng.within(low, high));
                    let action = if kind == Kind::Loss {
                        Action::Lose(node, within(20, 400))
                    } else if kind == Kind::Delay {
                        Action::Delay(node, within(20, 400))
                    } else {
                        Action::Narrow(node, within(64, 512))
                    };
                    fault(now, end, action);
                }
            }
            Kind::Skew | Kind::SlowDisk => {}
        }
    }

    /// Much shorter than the lease, about as long, or longer.
    fn span(&self, rng: &mut Rng) -> u64 {
        let lease = self.frame.lease_ms;
        let (low, high) =
            [(lease / 20, lease / 2), (lease * 4 / 5, lease * 8 / 5), (lease * 2, lease * 4)]
                [index(rng, 3)];
        let span = rng.within(low.max(1), high.max(1));
        self.frame.silence_max_ms.map_or(span, |most| span.min(rng.within(1, most)))
    }

    /// Two parts of any size, as often as not halves.
    fn parts(&self, rng: &mut Rng) -> Vec<Way> {
        let order = self.shuffled(rng);
        let size =
            if rng.below(2) == 0 { order.len() / 2 } else { 1 + index(rng, order.len() - 1) };
        self.across(&order[..size])
    }

    /// All ways between these and the others, both directions.
    fn across(&self, side: &[u32]) -> Vec<Way> {
        let all = || 0..self.nodes;
        let ways = all().flat_map(|from| all().map(move |to| (from, to)));
        ways.filter(|(from, to)| side.contains(from) != side.contains(to)).collect()
    }

    fn one(&self, rng: &mut Rng) -> u32 {
        small(rng.below(u64::from(self.nodes)))
    }

    /// One to so many.
    fn some(&self, rng: &mut Rng, most: usize) -> Vec<u32> {
        let count = 1 + index(rng, most);
        let mut chosen: Vec<u32> = self.shuffled(rng).into_iter().take(count).collect();
        chosen.sort_unstable();
        chosen
    }

    fn shuffled(&self, rng: &mut Rng) -> Vec<u32> {
        let mut left: Vec<u32> = (0..self.nodes).collect();
        (0..self.nodes).map(|_| left.remove(index(rng, left.len()))).collect()
    }

    fn take_nodes(&mut self, nodes: &[u32], begin: u64, end: u64) -> bool {
        let free = nodes.iter().all(|node| self.nodes_free[*node as usize] <= begin);
        if free && end <= self.end_ms {
            nodes.iter().for_each(|node| self.nodes_free[*node as usize] = end + 1);
        }
        free && end <= self.end_ms
    }

    /// The rest of a `kgate run` after one fault must be able to end before the next fault: losing
    /// both of its supervisors at once is more than it tolerates.
    fn take_clients(&mut self, node: u32, begin: u64, end: u64) -> bool {
        let free = &mut self.clients_free[node as usize];
        let may = *free <= begin && end <= self.end_ms;
        if may {
            *free = end + self.frame.lease_ms + 1_000;
        }
        may
    }
}

fn part(rng: &mut Rng) -> Part {
    [Part::Api, Part::Fronts, Part::Guards, Part::Trees][index(rng, 4)]
}

fn index(rng: &mut Rng, count: usize) -> usize {
    usize::try_from(rng.below(count as u64)).unwrap_or(0)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
