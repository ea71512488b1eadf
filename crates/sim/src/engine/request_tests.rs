//! Numbered slots, several clients and new incarnations, with a tiny centralised protocol, and a
//! planted bug for each checker.

use std::collections::VecDeque;

use kgate_core::{
    Fence, GrantId, Incarnation, Input, InputOf, Mechanism, MembershipSource, Never, NodeId,
    Notice, Observation, Outbox, Phase, Protocol, Refusal, Setup, Span, Stamp, Time,
    TransientFaults, ViewId,
};
use kgate_spec::history::NOTHING_FROM_NOTHING;
use kgate_spec::{AtMostK, EveryoneServed, NoResidue, SlotFences, StrictOrder, WithinK};

use super::tests::Accuser;
use super::{Bucket, Heap, RunError, run};
use crate::{
    Chance, Claims, Config, ConfigError, Crash, Detector, Down, Latency, Load, Report, Think,
};

/// What a [`SlotServer`] does wrong.
const HONEST: u8 = 0;
const ONE_SLOT: u8 = 1;
const BEYOND_K: u8 = 2;
const TOO_FEW: u8 = 3;
const OLD_FENCE: u8 = 4;
const OVERTAKES: u8 = 5;
const OWES: u8 = 6;
const STAYS_LARGE: u8 = 7;
const UNASKED: u8 = 8;
const REFUSES: u8 = 9;
const SHOWS_TWICE: u8 = 10;

/// Grants slots as if it were alone, so only p0 asks; and asserts the driver's guarantees about
/// incarnations and notifications.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SlotServer<const BUG: u8> {
    me: NodeId,
    incarnation: u32,
    k: u32,
    waiting: VecDeque<u32>,
    inside: Vec<(GrantId, Vec<u32>)>,
    grants: u64,
    /// The notifications so far: process, incarnation, and whether it joined.
    notifications: Vec<(NodeId, u32, bool)>,
    is_ordered: bool,
}

impl<const BUG: u8> SlotServer<BUG> {
    fn serve(&mut self, out: &mut Outbox<Self>) {
        let k = if BUG == BEYOND_K { self.k + 1 } else { self.k };
        while let Some(&weight) = self.waiting.front() {
            let taken: Vec<u32> = self.inside.iter().flat_map(|(_, slots)| slots.clone()).collect();
            let free = (0..k).rev().filter(|slot| BUG == ONE_SLOT || !taken.contains(slot));
            let count = if BUG == TOO_FEW { 1 } else { weight };
            let slots: Vec<u32> = free.take(count as usize).collect();
            if slots.len() < count as usize {
                return;
            }
            self.waiting.pop_front();
            self.enter(slots, out);
        }
    }

    fn enter(&mut self, slots: Vec<u32>, out: &mut Outbox<Self>) {
        self.grants += 1;
        let grant = GrantId(u64::from(self.incarnation) << 32 | self.grants);
        let ticks = if BUG == OLD_FENCE { 1 } else { self.grants };
        let fence = Some(Fence::of_slot(ViewId(self.incarnation), ticks, self.me, 0));
        self.inside.push((grant, slots.clone()));
        out.notify(Notice::Granted { grant, slots: Some(slots.into()), fence });
    }

    fn resize(&mut self, k: u32, out: &mut Outbox<Self>) {
        self.k = k;
        if BUG != STAYS_LARGE {
            let fits = |weight: &u32| *weight <= k;
            for weight in self.waiting.iter().filter(|weight| !fits(weight)) {
                out.notify(Notice::TooLarge { weight: *weight, most: k });
            }
            self.waiting.retain(fits);
        }
    }

    /// The log reports each incarnation once, its end before the next one begins, and numbers the
    /// returns.
    fn on_membership_notice(&mut self, of: NodeId, incarnation: u32, joined: bool) {
        assert!(
            !self.notifications.contains(&(of, incarnation, joined)),
            "{:?} twice",
            (of, incarnation, joined)
        );
        if self.is_ordered {
            let returns = self.notifications.iter().filter(|(.., joined)| *joined).count();
            let last = self.notifications.iter().rev().find(|(other, ..)| *other == of);
            match last {
                _ if joined => assert_eq!(incarnation as usize, returns + 1, "the next number"),
                None => assert_eq!(incarnation, 0, "its first incarnation"),
                Some(&(_, began, joined)) => {
                    assert_eq!((incarnation, joined), (began, true), "the incarnation that began")
                }
            }
            assert_eq!(
                joined,
                last.is_some_and(|(.., joined)| !joined),
                "it ends before it begins"
            );
        } else {
            assert!(!joined && of != self.me, "no process is notified of returns, nor of itself");
        }
        self.notifications.push((of, incarnation, joined));
    }
}

impl<const BUG: u8> Protocol for SlotServer<BUG> {
    const NAME: &'static str = "slot server";
    const MECHANISM: Mechanism = Mechanism::Slots;
    type Message = Never;
    type Timer = Never;
    type Durable = Never;

    fn start(setup: &Setup, _restored: Option<Never>, _out: &mut Outbox<Self>) -> Self {
        Self {
            me: setup.me,
            incarnation: setup.incarnation.0,
            k: setup.k,
            waiting: VecDeque::new(),
            inside: Vec::new(),
            grants: 0,
            notifications: Vec::new(),
            is_ordered: setup.slots.membership == MembershipSource::Log,
        }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { weight } if weight > self.k => {
                return Err(Refusal::Weight { weight, most: self.k });
            }
            Input::Acquire { weight } if BUG == REFUSES => {
                out.notify(Notice::TooLarge { weight, most: self.k });
            }
            Input::Acquire { weight } => {
                self.waiting.push_back(weight);
                if BUG == UNASKED {
                    self.enter(vec![0], out);
                    self.enter(vec![1], out);
                    self.waiting.clear();
                }
            }
            Input::Withdraw => drop(self.waiting.pop_back().ok_or(Refusal::NoSuchRequest)?),
            Input::Release { grant } => self.inside.retain(|(other, _)| *other != grant),
            Input::Resize(k) => self.resize(k, out),
            Input::Crashed { node: of, incarnation: Incarnation(incarnation) } => {
                self.on_membership_notice(of, incarnation, false)
            }
            Input::Joined { node: of, incarnation: Incarnation(incarnation), .. } => {
                self.on_membership_notice(of, incarnation, true)
            }
            Input::Lease(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. }
            | Input::Deliver { .. }
            | Input::Expire(_) => {
                unreachable!("nobody does that here")
            }
        }
        self.serve(out);
        Ok(())
    }

    fn observe(&self) -> Observation {
        let overtaken = Stamp { clock: 0, node: self.me };
        let shown = if BUG == SHOWS_TWICE { vec![(0, Fence(1))] } else { Vec::new() };
        Observation {
            phase: if self.waiting.is_empty() { Phase::Idle } else { Phase::Waiting },
            stamp: (BUG == OVERTAKES && self.me == NodeId(1)).then_some(overtaken),
            owing: if BUG == OWES { vec![NodeId(0)] } else { Vec::new() },
            slots: shown,
            ..Observation::default()
        }
    }
}

impl<const BUG: u8> TransientFaults for SlotServer<BUG> {}

/// p0 of three has three clients, which ask for weights up to three of four slots and hold them for
/// 2.
fn config() -> Config {
    let mut config = Config::new(3, 4);
    config.cost.latency = Latency::Constant(Span::UNIT);
    config.load = Load {
        requesters: 1,
        hold: Span::UNIT.times(2),
        think: Think::Constant(Span::UNIT),
        clients: 3,
        weight_max: 3,
        ..Load::PLAIN
    };
    config.detection.oracle = Some(Span::UNIT.times(3));
    config.claims = Claims {
        tolerates: 2,
        detector: Some(Detector::Log),
        returns: true,
        slots: true,
        asks_inside: true,
        ..Claims::default()
    };
    config.duration = Span::UNIT.times(60);
    config
}

fn report<const BUG: u8>(config: &Config) -> Report {
    let report =
        run::<SlotServer<BUG>, Accuser<false>, Bucket>("slot server", config, None).expect("a run");
    let again =
        run::<SlotServer<BUG>, Accuser<false>, Heap>("slot server", config, None).expect("a run");
    assert_eq!(report.hash, again.hash);
    report
}

fn properties(report: &Report) -> Vec<&str> {
    report.violations.iter().map(|violation| violation.property).collect()
}

fn first<const BUG: u8>(config: &Config) -> &'static str {
    report::<BUG>(config).violations.first().expect("a violation").property
}

/// Slots are counted, not clients; each client asks on its own; a request issued inside is one more
/// in the queue.
#[test]
fn weights_and_clients() {
    let mut config = config();
    let report = report::<HONEST>(&config);
    assert_eq!((properties(&report), report.max_in_use, report.k_in_use_seen), (vec![], 4, true));
    assert!(report.grants > 25 && report.requests - report.grants <= 3, "{}", report.grants);
    config.load.entries = Some(4);
    config.load.ask_inside = true;
    let inside = self::report::<HONEST>(&config);
    assert_eq!((properties(&inside), inside.requests, inside.grants), (vec![], 12, 12));
}

/// A client that withdraws waits no longer, asks again, and leaves no state behind.
#[test]
fn withdrawals() {
    let mut config = config();
    config.load.withdraw = "0.5".parse().expect("a chance");
    config.load.patience = Span::UNIT;
    let report = report::<HONEST>(&config);
    assert_eq!(properties(&report), [""; 0]);
    assert!(
        report.withdrawals > 5 && report.grants > 20,
        "{} {}",
        report.withdrawals,
        report.grants
    );
}

/// k shrinks and grows: a request that has become too large is refused and the client asks for
/// less, slots beyond k drain, and weights stay within the known k.
#[test]
fn resizes() {
    let mut config = config();
    config.resizes = [(5, 1), (20, 2), (30, 6)].map(|(at, k)| (Span::UNIT.times(at), k)).to_vec();
    config.load.weight_max = 5;
    let report = report::<HONEST>(&config);
    assert_eq!((properties(&report), report.max_in_use), (vec![], 6));
    assert!(report.refused > 0, "{report:?}");
    (config.load.weight_max, config.resizes) = (4, vec![(Span::UNIT.times(5), 1)]);
    assert_eq!(
        properties(&self::report::<STAYS_LARGE>(&config)).last(),
        Some(&EveryoneServed::NAME)
    );
}

fn crashes(list: &[(u32, u64, Option<u64>)]) -> Vec<Crash> {
    let units = |times| Span::UNIT.times(times);
    list.iter()
        .map(|&(node, at, back)| Crash { node: NodeId(node), at: units(at), back: back.map(units) })
        .collect()
}

/// Processes restart without state, even all at once; their clients are gone and ask anew. The
/// server asserts its notifications.
#[test]
fn new_incarnations() {
    let mut config = config();
    config.crashes = crashes(&[
        (0, 5, Some(10)),
        (1, 6, Some(8)),
        (2, 7, Some(9)),
        (0, 20, Some(21)),
        (2, 22, None),
        (0, 40, Some(70)),
    ]);
    config.resizes = vec![(Span::UNIT.times(15), 3)];
    let report = report::<HONEST>(&config);
    assert_eq!((properties(&report), report.recoveries, report.crashes), (vec![], 5, 1));
    assert!(report.grants > 15 && report.undetected == 0, "{}", report.grants);
    config.slots.membership = MembershipSource::Join;
    config.crashes.retain(|crash| crash.node != NodeId(1));
    let report = self::report::<HONEST>(&config);
    assert_eq!((properties(&report), report.recoveries, report.crashes), (vec![], 4, 1));
}

/// Generated crashes keep the same guarantees.
#[test]
fn generated_incarnations() {
    let mut config = config();
    (config.random_recoveries, config.down_for) = (12, Span::UNIT.times(9));
    for seed in 1..=40 {
        config.seed = seed;
        config.slots.membership =
            if seed % 2 == 0 { MembershipSource::Join } else { MembershipSource::Log };
        assert_eq!(properties(&report::<HONEST>(&config)), [""; 0], "seed {seed}");
    }
}

/// Each planted bug is caught by its checker.
#[test]
fn planted_bugs_are_caught() {
    let config = config();
    let mut light = config.clone();
    light.load.weight_max = 1;
    assert_eq!(first::<ONE_SLOT>(&light), SlotFences::NAME);
    assert_eq!(first::<OLD_FENCE>(&light), SlotFences::NAME);
    assert_eq!(first::<BEYOND_K>(&light), WithinK::NAME);
    assert_eq!(first::<TOO_FEW>(&config), NOTHING_FROM_NOTHING);
    assert_eq!(first::<REFUSES>(&light), NOTHING_FROM_NOTHING);
    assert_eq!(first::<OVERTAKES>(&light), StrictOrder::NAME);
    assert_eq!(first::<SHOWS_TWICE>(&light), SlotFences::NAME);
    assert_eq!(properties(&report::<OWES>(&light)), [NoResidue::NAME]);
    assert!(properties(&report::<ONE_SLOT>(&light)).len() < 9, "the list of violations is bounded");
    light.load.entries = Some(2); // Each grant too many would ask again.
    assert_eq!(first::<UNASKED>(&light), NOTHING_FROM_NOTHING);
    light.load.clients = 6;
    assert!(properties(&report::<ONE_SLOT>(&light)).contains(&AtMostK::NAME));
}

/// The same run without audit: the checkers of observed states are silent, and the hash is the
/// same.
#[test]
fn audits_do_not_change_the_run() {
    let mut config = config();
    let seen = report::<OWES>(&config);
    config.audit = crate::Audit::Never;
    let unseen = report::<OWES>(&config);
    assert_eq!((properties(&unseen), &unseen.hash), (vec![], &seen.hash));
}

/// Options that make no sense, or that the protocol does not support, are refused.
#[test]
fn unsupported_options_are_refused() {
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        match run::<SlotServer<HONEST>, Accuser<false>, Bucket>("slot server", &config, None) {
            Err(RunError::Config(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let other = |config: &mut Config| (config.claims.slots, config.nodes) = (false, 8);
    assert!(matches!(refused(&other), ConfigError::NeedsSlots(_)));
    let heavy = ConfigError::WeightTooLarge { weight: 5, most: 4 };
    assert_eq!(refused(&|config| config.load.weight_max = 5), heavy);
    assert_eq!(refused(&|config| config.load.clients = 0), ConfigError::ZeroLoad);
    for (at, k) in [(Span::UNIT.times(61), 2), (Span::UNIT, 0)] {
        let invalid = ConfigError::InvalidResize { k, at, duration: Span::UNIT.times(60) };
        assert_eq!(refused(&|config| config.resizes = vec![(at, k)]), invalid);
    }
    assert_eq!(refused(&|config| config.down = Down::Kept), ConfigError::KeptUnsupported);
    let all = |config: &mut Config| {
        config.crashes = crashes(&[(0, 1, Some(2)), (1, 5, Some(6)), (2, 9, Some(10))]);
        config.slots.membership = MembershipSource::Join;
    };
    assert_eq!(refused(&all), ConfigError::NobodyStaysUp);
    let mut unlucky = config();
    (unlucky.claims.slots, unlucky.nodes) = (false, 8);
    (unlucky.load.clients, unlucky.load.weight_max, unlucky.load.withdraw) = (1, 1, Chance(1));
    assert!(matches!(unlucky.validate(), Err(ConfigError::NeedsSlots(_))));
}
