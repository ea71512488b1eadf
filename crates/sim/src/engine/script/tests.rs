//! The steps of scripts, with a tiny token protocol that uses all of them.

use kgate_core::{
    GrantId, Input, InputOf, NodeId, Notice, Observation, Outbox, Phase, Protocol, Refusal, Setup,
    Span, Time, TransientFaults,
};
use serde::{Deserialize, Serialize};

use super::*;
use crate::Claims;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum TokenMessage {
    Want,
    Token(u32),
}
kgate_core::kinds!(TokenMessage { Want => "want", Token => "token" });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    Again,
}

/// p0 starts with the token and hands it to any process that wants it, at once, even while inside:
/// so two can be inside. A waiting process has a timer to ask again. The number of token transfers
/// is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Careless {
    me: NodeId,
    token: Option<u32>,
    phase: Phase,
}

impl Careless {
    fn enter(&mut self, out: &mut Outbox<Self>) {
        if let (Some(number), Phase::Waiting) = (self.token, self.phase) {
            self.phase = Phase::Holding;
            out.notify(Notice::Granted { grant: GrantId(number.into()), slots: None, fence: None });
        }
    }
}

impl Protocol for Careless {
    const NAME: &'static str = "careless";
    type Message = TokenMessage;
    type Timer = Timer;
    type Durable = Option<u32>;

    fn start(setup: &Setup, restored: Option<Option<u32>>, _out: &mut Outbox<Self>) -> Self {
        let token = restored.unwrap_or_else(|| (setup.me == NodeId(0)).then_some(0));
        Self { me: setup.me, token, phase: Phase::Idle }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { .. } => {
                self.phase = Phase::Waiting;
                if self.token.is_none() {
                    out.send_to(kgate_core::To::All, TokenMessage::Want);
                    out.arm(Timer::Again, Span::UNIT);
                }
                self.enter(out);
            }
            Input::Expire(Timer::Again) => out.send_to(kgate_core::To::All, TokenMessage::Want),
            Input::Withdraw | Input::Release { .. } => self.phase = Phase::Idle,
            Input::Deliver { from, message: TokenMessage::Want } => {
                if let Some(number) = self.token.take() {
                    out.persist(None);
                    out.send(from, TokenMessage::Token(number + 1));
                }
            }
            Input::Deliver { message: TokenMessage::Token(number), .. } => {
                self.token = Some(number);
                out.persist(self.token);
                out.disarm(Timer::Again);
                self.enter(out);
            }
            Input::Resize(_)
            | Input::Reserved(_)
            | Input::Lease(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. } => {
                return Err(Refusal::Malformed("not here"));
            }
            Input::Crashed { .. } | Input::Joined { .. } => {}
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        Observation { phase: self.phase, ..Observation::default() }
    }
}

impl TransientFaults for Careless {}

fn config() -> Config {
    let mut config = Config::new(3, 1);
    config.cost.fifo = true;
    config.claims = Claims { tolerates: 2, detector: Some(Detector::Sparse), ..Claims::default() };
    config
}

fn with(config: Config, lenient: bool, text: &str) -> Result<Played, PlayError> {
    let steps: Vec<Step> = text.lines().map(|line| line.trim().parse().expect(line)).collect();
    let fifo = config.cost.fifo;
    play::<Careless>(
        "careless",
        &Script { config, steps: &steps, fifo, lenient, run_to_rest: true },
        None,
    )
}

fn played(text: &str) -> Played {
    with(config(), false, text).expect("a script")
}

fn impossible(config: Config, text: &str) -> ImpossibleStep {
    match with(config, false, text) {
        Err(PlayError::Impossible(step)) => step,
        other => panic!("{other:?}"),
    }
}

/// Why the last step of that script is refused.
fn reason(text: &str) -> StepError {
    impossible(config(), text).reason
}

fn properties(played: &Played) -> Vec<&str> {
    played.violations.iter().map(|violation| violation.property).collect()
}

/// A correct script is played to its end; the same script has the same hash, another one another.
#[test]
fn a_correct_script() {
    let text = "p1 requests\np1 -> p0: want\np0 -> p1: token\np1 releases";
    let first = played(text);
    assert_eq!((properties(&first), &first.waiting[..], first.quiet), (vec![], &[][..], true));
    assert_eq!(first.steps_after, 1, "the other want");
    assert_eq!(first.hash, played(text).hash);
    assert_ne!(first.hash, played("p1 requests\np1 -> p0: want\np0 -> p1: token").hash);
}

/// The checkers are those of every run: two inside, a refusal, and a request that is never granted.
#[test]
fn violations_are_caught() {
    let two = played("p0 requests\np1 requests\np1 -> p0: want\np0 -> p1: token");
    assert_eq!(properties(&two), ["at most k slots in use"]);
    assert_eq!(properties(&played("p1 learns that k is 2")), ["no input is refused"]);
    let lost = played(
        "p1 requests\np1 -> p0: want\np0 -> p1: token lost\np1: Again expires\np1 withdraws",
    );
    assert_eq!(properties(&lost), [""; 0], "the client has withdrawn");
    let starved = played("p1 requests\np1 -> p0: want\np0 -> p1: token lost");
    assert_eq!(properties(&starved), ["every request of a live process is granted"]);
    assert_eq!(
        (starved.violations[0].at_ns, starved.steps_after),
        (Time::ZERO + Span::UNIT.times(8), 4)
    );
}

/// A duplicated message arrives twice and a lost one never; in FIFO channels the oldest arrives
/// first.
#[test]
fn fates_of_messages() {
    let doubled =
        "p1 requests\np1 -> p0: want duplicated\np1 -> p0: want\np1 -> p0: want\np0 -> p1: token";
    assert_eq!(played(doubled).waiting, []);
    let again = "p1 requests\np1: Again expires\np1 -> p0: want lost\np1 -> p0: want";
    assert_eq!(played(again).waiting, []);
    let no_timer = |timer: &str| StepError::NoSuchTimer { node: NodeId(1), timer: timer.into() };
    let expired = "p1 requests\np1: Again expires\np1: Again expires";
    assert_eq!(reason(expired), no_timer("Again"));
    assert_eq!(reason("p1 requests\np1: Later expires"), no_timer("Later"));
    let overtaken =
        "p0 requests\np1 requests\np1 -> p0: want\np0 releases\np0 requests\np0 -> p1: want";
    assert_eq!(reason(overtaken), StepError::OutOfOrder { from: NodeId(0), to: NodeId(1) });
    let mut unordered = config();
    unordered.cost.fifo = false;
    assert_eq!(with(unordered, false, overtaken).expect("a script").waiting, []);
    let no_message = |(from, to), kind: &str, which| StepError::NoSuchMessage {
        from: NodeId(from),
        to: NodeId(to),
        kind: kind.into(),
        which,
    };
    assert_eq!(reason("p1 requests\np0 -> p1: token"), no_message((0, 1), "token", 1));
    let third = "p1 requests\np1 -> p0: want duplicated\np1 -> p0: want 3 lost";
    assert_eq!(reason(third), no_message((1, 0), "want", 3));
}

/// An impossible step is refused together with the possible ones; in lenient mode it is skipped.
#[test]
fn an_impossible_step_names_the_possible_ones() {
    let wrong = impossible(config(), "p1 requests\np1 releases");
    assert_eq!((wrong.step, wrong.text.as_str()), (1, "p1 releases"));
    assert_eq!(wrong.reason, StepError::NotInside { node: NodeId(1), which: 1 });
    let possible = [
        "p1 -> p0: want",
        "p1 -> p2: want",
        "p1: Again expires",
        "p0 requests",
        "p1 withdraws",
        "p2 requests",
    ];
    assert_eq!(wrong.possible, possible);
    let skipped = with(config(), true, "p1 requests\np1 releases\np7 requests").expect("a script");
    assert_eq!((skipped.skipped, skipped.waiting), (vec![1, 2], vec![]));
    let (p0, p1) = (NodeId(0), NodeId(1));
    let twice = "p1 crashes\np0 learns that p1 crashed\np0 learns that p1 crashed";
    for (text, expected) in [
        ("p1 requests\np1 requests", StepError::AlreadyWaiting(p1)),
        ("p0 requests\np0 requests", StepError::AlreadyInside(p0)),
        ("p1 withdraws", StepError::NotWaiting(p1)),
        ("p3 requests", StepError::UnknownNode { node: NodeId(3), nodes: 3 }),
        ("p1 crashes\np1 requests", StepError::IsDown(p1)),
        ("p1 crashes\np1 recovers", StepError::NoRestart),
        ("p1 recovers", StepError::IsUp(p1)),
        (twice, StepError::AlreadyNotified { node: p0, of: p1 }),
    ] {
        assert_eq!(reason(text), expected, "{text}");
    }
}

/// A crashed process is gone with its request, and messages to it are lost; a false suspicion is
/// caught.
#[test]
fn crashes_and_notifications() {
    let gone = played(
        "p1 requests\np1 -> p0: want\np1 crashes\np0 -> p1: token\np0 learns that p1 crashed",
    );
    assert_eq!((properties(&gone), gone.waiting.len()), (vec![], 0));
    assert_eq!(properties(&played("p0 learns that p1 crashed")), ["no live process is suspected"]);
    let mut deaf = config();
    deaf.claims.detector = None;
    let refused = impossible(deaf, "p1 crashes\np0 learns that p1 crashed");
    assert_eq!(refused.reason, StepError::NoDetector { protocol: "careless".into() });
}

/// A restarted process has what it had stored; messages sent meanwhile are lost, or kept where so
/// configured.
#[test]
fn down_and_back() {
    let mut config = config();
    config.claims.recovers = true;
    let text = "p1 requests\np1 -> p0: want\np1 crashes\np0 -> p1: token\np1 recovers";
    let lost = with(config.clone(), false, text).expect("a script");
    assert_eq!(lost.waiting, [NodeId(1)], "the token is lost, and the request was not stored");
    config.down = Down::Kept;
    assert_eq!(impossible(config.clone(), text).reason, StepError::KeptWhileDown(NodeId(1)));
    let later = "p1 requests\np1 -> p0: want\np1 crashes\np1 recovers\np0 -> p1: token\n\
                 p0 requests\np0 -> p1: want\np1 -> p0: token";
    let kept = with(config, false, later).expect("a script");
    assert_eq!(kept.waiting, [NodeId(1)], "p0 got the token back");
}

/// Where processes restart without state, each is notified of the log in its order, and of nothing
/// else; without a log, of crashes in any order.
#[test]
fn notifications_of_incarnations() {
    let mut config = config();
    (config.claims.returns, config.claims.slots) = (true, true);
    let play = |config: &Config, text: &str| with(config.clone(), false, text);
    let reason = |config: &Config, text: &str| impossible(config.clone(), text).reason;
    let incarnations = "p0 crashes\np0 recovers\np1 crashes\np2 learns that p0 crashed";
    let text = format!(
        "{incarnations}\np2 learns that p0 recovered\np2 learns that p1 crashed\np0 learns that \
         p0 crashed"
    );
    let played = play(&config, &text).expect("a script");
    assert!(played.quiet && played.violations.is_empty(), "{:?}", played.violations);
    let first = Step::NotifyReturn { node: NodeId(2), of: NodeId(0) };
    assert_eq!(
        reason(&config, &format!("{incarnations}\np2 learns that p1 crashed")),
        StepError::LogOutOfOrder { first }
    );
    let nothing = "p0 learns that p1 crashed";
    assert_eq!(reason(&config, nothing), StepError::LogExhausted(NodeId(0)));
    let twice = "p0 crashes\np0 recovers\np1 crashes\np1 recovers\np0 recovers";
    assert_eq!(reason(&config, twice), StepError::IsUp(NodeId(0)));
    config.slots.membership = kgate_core::MembershipSource::Join;
    let any = "p0 crashes\np1 crashes\np2 learns that p1 crashed\np2 learns that p0 crashed";
    assert!(play(&config, any).is_ok());
    let returned = "p0 crashes\np0 recovers\np2 learns that p0 recovered";
    assert_eq!(reason(&config, returned), StepError::NoReturnNotices);
    let again = format!("{any}\np2 learns that p0 crashed");
    assert_eq!(reason(&config, &again), StepError::NoSuchNotice(NodeId(2)));
}

/// Several clients of a process wait and are inside; impossible weights and values of k are
/// refused.
#[test]
fn several_clients() {
    let mut config = config();
    config.claims.slots = true;
    let reason = |text: &str| impossible(config.clone(), text).reason;
    let p0 = NodeId(0);
    assert_eq!(reason("p0 requests 2"), StepError::Weight { node: p0, weight: 2, most: 1 });
    assert_eq!(reason("p0 learns that k is 0"), StepError::ZeroSlots);
    assert_eq!(reason("p0 requests\np0 releases #2"), StepError::NotInside { node: p0, which: 2 });
    let both = with(
        config.clone(),
        false,
        "p0 requests\np1 requests\np1 requests\np1 withdraws\np0 releases",
    )
    .expect("a script");
    assert_eq!(
        (both.waiting, both.inside),
        (vec![NodeId(1)], vec![]),
        "one gave up, and careless forgot the other"
    );
}
