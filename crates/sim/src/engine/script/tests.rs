//! What a script can make happen, with a tiny token protocol that shows all of it.

use kgate_core::{
    GrantId, Input, InputOf, NodeId, Notice, Observation, Outbox, Phase, Protocol, Refusal, Setup,
    Span, Time, TransientFaults,
};
use serde::{Deserialize, Serialize};

use super::*;
use crate::Claims;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Say {
    Want,
    Token(u32),
}
kgate_core::kinds!(Say { Want => "want", Token => "token" });

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Timer {
    Again,
}

/// p0 has the token at first and hands it to whoever wants it, at once, and even while it is
/// inside; so two can be inside, if p0 is. A process that waits has a timer to ask once more. The
/// number of tokens seen is stored.
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
    type Message = Say;
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
                    out.send_to(kgate_core::To::All, Say::Want);
                    out.arm(Timer::Again, Span::UNIT);
                }
                self.enter(out);
            }
            Input::Expire(Timer::Again) => out.send_to(kgate_core::To::All, Say::Want),
            Input::Withdraw | Input::Release { .. } => self.phase = Phase::Idle,
            Input::Deliver { from, message: Say::Want } => {
                if let Some(number) = self.token.take() {
                    out.persist(None);
                    out.send(from, Say::Token(number + 1));
                }
            }
            Input::Deliver { message: Say::Token(number), .. } => {
                self.token = Some(number);
                out.persist(self.token);
                out.disarm(Timer::Again);
                self.enter(out);
            }
            Input::Resize(_) | Input::Reserved(_) | Input::Lease(_) => {
                return Err(Refusal::Malformed("not here"));
            }
            Input::Crashed(..) | Input::Joined(..) => {}
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
        &Script { config, steps: &steps, fifo, lenient, go_on: true },
        None,
    )
}

fn played(text: &str) -> Played {
    with(config(), false, text).expect("a script")
}

fn why(text: &str) -> Impossible {
    match with(config(), false, text) {
        Err(PlayError::Impossible(impossible)) => impossible,
        other => panic!("{other:?}"),
    }
}

fn properties(played: &Played) -> Vec<&str> {
    played.violations.iter().map(|violation| violation.property).collect()
}

/// What goes right is played to its end; the same script twice has the same hash, another one
/// another.
#[test]
fn a_quiet_script() {
    let text = "p1 asks\np1 -> p0: want\np0 -> p1: token\np1 comes out";
    let first = played(text);
    assert_eq!((properties(&first), &first.waiting[..], first.quiet), (vec![], &[][..], true));
    assert_eq!(first.steps_after, 1, "the other want");
    assert_eq!(first.hash, played(text).hash);
    assert_ne!(first.hash, played("p1 asks\np1 -> p0: want\np0 -> p1: token").hash);
}

/// The checkers are those of every run: two inside, a refusal, and a request that nobody grants.
#[test]
fn the_checkers_see_it() {
    let two = played("p0 asks\np1 asks\np1 -> p0: want\np0 -> p1: token");
    assert_eq!(properties(&two), ["at most k slots in use"]);
    assert_eq!(properties(&played("p1 sets k to 2")), ["no input is refused"]);
    let lost =
        played("p1 asks\np1 -> p0: want\np0 -> p1: token lost\np1: Again runs out\np1 gives up");
    assert_eq!(properties(&lost), [""; 0], "it has given up");
    let starved = played("p1 asks\np1 -> p0: want\np0 -> p1: token lost");
    assert_eq!(properties(&starved), ["every request of a live process is granted"]);
    assert_eq!(
        (starved.violations[0].at_ns, starved.steps_after),
        (Time::ZERO + Span::UNIT.times(8), 4)
    );
}

/// A doubled message arrives twice, and a lost one never; where channels are in order, the oldest
/// arrives first.
#[test]
fn fates_of_messages() {
    let doubled =
        "p1 asks\np1 -> p0: want doubled\np1 -> p0: want\np1 -> p0: want\np0 -> p1: token";
    assert_eq!(played(doubled).waiting, []);
    let again = "p1 asks\np1: Again runs out\np1 -> p0: want lost\np1 -> p0: want";
    assert_eq!(played(again).waiting, []);
    assert!(why("p1 asks\np1: Again runs out\np1: Again runs out").why.contains("no such timer"));
    assert!(why("p1 asks\np1: Later runs out").why.contains("no such timer"));
    let overtaken = "p0 asks\np1 asks\np1 -> p0: want\np0 comes out\np0 asks\np0 -> p1: want";
    assert!(why(overtaken).why.contains("an earlier message"));
    let mut unordered = config();
    unordered.cost.fifo = false;
    assert_eq!(with(unordered, false, overtaken).expect("a script").waiting, []);
    assert!(why("p1 asks\np0 -> p1: token").why.contains("no token"));
    assert!(why("p1 asks\np1 -> p0: want doubled\np1 -> p0: want 3 lost").why.contains("not 3"));
}

/// A step that cannot be is refused with what can; leniently it is skipped.
#[test]
fn what_is_possible_instead() {
    let wrong = why("p1 asks\np1 comes out");
    assert_eq!(
        (wrong.step, wrong.text.as_str(), wrong.why.as_str()),
        (1, "p1 comes out", "no client of p1 is inside")
    );
    let possible = [
        "p1 -> p0: want",
        "p1 -> p2: want",
        "p1: Again runs out",
        "p0 asks",
        "p1 gives up",
        "p2 asks",
    ];
    assert_eq!(wrong.possible, possible);
    let skipped = with(config(), true, "p1 asks\np1 comes out\np7 asks").expect("a script");
    assert_eq!((skipped.skipped, skipped.waiting), (vec![1, 2], vec![]));
    for (text, part) in [
        ("p1 asks\np1 asks", "waits already"),
        ("p0 asks\np0 asks", "is inside"),
        ("p1 gives up", "no client of p1 waits"),
        ("p3 asks", "there is no p3"),
        ("p1 crashes\np1 asks", "p1 is down"),
        ("p1 crashes\np1 is back", "do not come back"),
        ("p1 is back", "p1 is up"),
        (
            "p1 crashes\np0 learns that p1 has crashed\np0 learns that p1 has crashed",
            "knows it already",
        ),
    ] {
        assert!(why(text).why.contains(part), "{text}: {}", why(text).why);
    }
}

/// Who crashes is gone with its wish; what comes to it is lost; a suspicion of the living is seen.
#[test]
fn crashes_and_news() {
    let gone = played(
        "p1 asks\np1 -> p0: want\np1 crashes\np0 -> p1: token\np0 learns that p1 has crashed",
    );
    assert_eq!((properties(&gone), gone.waiting.len()), (vec![], 0));
    assert_eq!(
        properties(&played("p0 learns that p1 has crashed")),
        ["no live process is suspected"]
    );
    let mut deaf = config();
    deaf.claims.detector = None;
    let told = with(deaf, false, "p1 crashes\np0 learns that p1 has crashed");
    assert!(matches!(told, Err(PlayError::Impossible(error)) if error.why.contains("from nobody")));
}

/// Who comes back has what it had stored; what came meanwhile is lost, or waits for it where that
/// is kept.
#[test]
fn down_and_back() {
    let mut config = config();
    config.claims.recovers = true;
    let text = "p1 asks\np1 -> p0: want\np1 crashes\np0 -> p1: token\np1 is back";
    let lost = with(config.clone(), false, text).expect("a script");
    assert_eq!(lost.waiting, [NodeId(1)], "the token is lost, and the wish was not stored");
    config.down = Down::Kept;
    let kept = with(config.clone(), false, text);
    assert!(matches!(kept, Err(PlayError::Impossible(error)) if error.why.contains("is kept")));
    let later = "p1 asks\np1 -> p0: want\np1 crashes\np1 is back\np0 -> p1: token\np0 asks\np0 -> p1: want\np1 -> p0: token";
    let kept = with(config, false, later).expect("a script");
    assert_eq!(kept.waiting, [NodeId(1)], "p0 got the token back");
}

/// Where processes come back with nothing, the log is told to each in its order, and nothing else;
/// without one, crashes in any order.
#[test]
fn news_of_incarnations() {
    let mut config = config();
    (config.claims.returns, config.claims.slots) = (true, true);
    let play = |config: &Config, text: &str| with(config.clone(), false, text);
    let why = |config: &Config, text: &str| match play(config, text) {
        Err(PlayError::Impossible(impossible)) => impossible.why,
        other => panic!("{other:?}"),
    };
    let incarnations = "p0 crashes\np0 is back\np1 crashes\np2 learns that p0 has crashed";
    let told = format!(
        "{incarnations}\np2 learns that p0 is back\np2 learns that p1 has crashed\np0 learns that p0 has crashed"
    );
    let played = play(&config, &told).expect("a script");
    assert!(played.quiet && played.violations.is_empty(), "{:?}", played.violations);
    assert!(
        why(&config, &format!("{incarnations}\np2 learns that p1 has crashed"))
            .contains("`p2 learns that p0 is back` comes first")
    );
    assert!(why(&config, "p0 learns that p1 has crashed").contains("the whole log"));
    assert!(
        why(&config, "p0 crashes\np0 is back\np1 crashes\np1 is back\np0 is back")
            .contains("p0 is up")
    );
    config.slots.membership = kgate_core::MembershipSource::Join;
    let any =
        "p0 crashes\np1 crashes\np2 learns that p1 has crashed\np2 learns that p0 has crashed";
    assert!(play(&config, any).is_ok());
    assert!(
        why(&config, "p0 crashes\np0 is back\np2 learns that p0 is back")
            .contains("membership=join")
    );
    assert!(
        why(&config, &format!("{any}\np2 learns that p0 has crashed")).contains("every such crash")
    );
}

/// Several clients of a process wait and are inside; weights and another k are taken as they can
/// be.
#[test]
fn several_clients() {
    let mut config = config();
    config.claims.slots = true;
    let why = |text: &str| match with(config.clone(), false, text) {
        Err(PlayError::Impossible(impossible)) => impossible.why,
        other => panic!("{other:?}"),
    };
    assert!(why("p0 asks for 2").contains("ask for 1 .. 1"));
    assert!(why("p0 sets k to 0").contains("at least 1"));
    assert!(why("p0 asks\np0 comes out 2").contains("not 2 clients"));
    let both = with(config.clone(), false, "p0 asks\np1 asks\np1 asks\np1 gives up\np0 comes out")
        .expect("a script");
    assert_eq!(
        (both.waiting, both.inside),
        (vec![NodeId(1)], vec![]),
        "one gave up, and careless forgot the other"
    );
}
