//! A protocol with numbered slots that needs no messages, with a switch for each bug.

use kgate_core::{
    Defects, Explorable, Fence, GrantId, Input, InputOf, Mechanism, NodeId, Notice, Observation,
    Outbox, Phase, Protocol, Refusal, Setup, Span, Stamp, Time, ViewId,
};
use serde::{Deserialize, Serialize};

/// Grants slots that other processes grant too.
pub(super) const SHARES: Defects = Defects::bit(0);
/// Fences of a new incarnation start where those of the first one started.
pub(super) const FORGETS: Defects = Defects::bit(1);
/// Shows slots that it has released.
pub(super) const CLINGS: Defects = Defects::bit(2);
/// Grants two slots to a request of weight 1.
pub(super) const TAKES_MORE: Defects = Defects::bit(11);
/// p0 waits forever, and others overtake it.
pub(super) const OVERTAKES: Defects = Defects::bit(3);
/// The same, with slots that were handed over.
pub(super) const HANDS_OVER: Defects = Defects::bit(4);
/// Grants its highest slot, whatever k is.
pub(super) const GRASPS: Defects = Defects::bit(5);
/// Owes an answer forever.
pub(super) const OWES: Defects = Defects::bit(6);
/// A request that has become too large waits on.
pub(super) const WAITS_ON: Defects = Defects::bit(7);
/// A timer is re-armed forever while a request waits.
pub(super) const TICKS: Defects = Defects::bit(8);
/// Refuses the first message, or the second one, if it arrives before the other.
pub(super) const REFUSES_FIRST: Defects = Defects::bit(9);
pub(super) const REFUSES_SECOND: Defects = Defects::bit(10);

/// Process p owns the slots p and n + p. A request of weight 1 is granted at once; a larger one
/// waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Toy {
    me: NodeId,
    nodes: u32,
    k: u32,
    printed: Defects,
    pub(super) incarnation: u32,
    granted: u64,
    held: Vec<(GrantId, u32)>,
    clings_to: Vec<u32>,
    waiting: Vec<u32>,
    /// The notifications in order: process, incarnation, and whether it returned.
    pub(super) notifications: Vec<(NodeId, u32, bool)>,
    notes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Note {
    Note(u8),
}
kgate_core::kinds!(Note { Note => "note" });

impl Toy {
    fn has(&self, switch: Defects) -> bool {
        self.printed.has(switch)
    }

    fn slots(&self) -> [u32; 2] {
        let first = if self.has(SHARES) { 0 } else { self.me.0 };
        if self.has(GRASPS) { [first + self.nodes, first] } else { [first, first + self.nodes] }
    }

    fn fence(&self) -> Fence {
        let view = if self.has(FORGETS) { 0 } else { self.incarnation };
        Fence::of_slot(ViewId(view), 5 + self.granted, self.me, u16::from(self.has(HANDS_OVER)))
    }

    fn ask(&mut self, weight: u32, out: &mut Outbox<Self>) {
        let stands = self.me.0 == 0 && (self.has(OVERTAKES) || self.has(HANDS_OVER));
        let fits = |slot: &u32| *slot < self.k || self.has(GRASPS);
        let free = |slot: &u32| self.held.iter().all(|held| held.1 != *slot);
        let slot = self.slots().into_iter().filter(fits).find(free);
        let (1, false, Some(slot)) = (weight, stands, slot) else {
            self.waiting.push(weight);
            return;
        };
        self.granted += 1;
        let grant = GrantId(u64::from(self.incarnation) << 32 | self.granted);
        self.held.push((grant, slot));
        let fence = Some(self.fence());
        let slots = Some(if self.has(TAKES_MORE) { self.slots().into() } else { [slot].into() });
        out.notify(Notice::Granted { grant, slots, fence });
    }

    fn resize(&mut self, k: u32, out: &mut Outbox<Self>) {
        self.k = k;
        if self.waiting.first().is_some_and(|weight| *weight > k) && !self.has(WAITS_ON) {
            let weight = self.waiting.remove(0);
            out.notify(Notice::TooLarge { weight, most: k });
        }
    }

    fn note(&mut self, note: u8) -> Result<(), Refusal> {
        let refused = [REFUSES_FIRST, REFUSES_SECOND][usize::from(note)];
        if self.has(refused) && self.notes.is_empty() {
            return Err(Refusal::Malformed("out of order"));
        }
        self.notes.push(note);
        Ok(())
    }
}

impl Protocol for Toy {
    const NAME: &'static str = "toy";
    const MECHANISM: Mechanism = Mechanism::Slots;
    type Message = Note;
    type Timer = ();
    type Durable = ();

    fn start(setup: &Setup, stored: Option<()>, _out: &mut Outbox<Self>) -> Self {
        assert_eq!(stored, None, "a restarted process has no state");
        Self {
            me: setup.me,
            nodes: setup.nodes,
            k: setup.k,
            printed: setup.defects,
            incarnation: setup.incarnation.0,
            granted: 0,
            held: Vec::new(),
            clings_to: Vec::new(),
            waiting: Vec::new(),
            notifications: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        match input {
            Input::Acquire { weight } => {
                self.ask(weight, out);
                if self.has(TICKS) && !self.waiting.is_empty() {
                    out.arm((), Span::UNIT);
                }
                if self.has(REFUSES_FIRST) || self.has(REFUSES_SECOND) {
                    out.send(NodeId(1), Note::Note(0));
                    out.send(NodeId(1), Note::Note(1));
                }
            }
            Input::Withdraw => drop(self.waiting.pop()),
            Input::Release { grant } => {
                let given_back =
                    self.held.extract_if(.., |held| held.0 == grant).map(|held| held.1);
                let given_back: Vec<u32> =
                    given_back.filter(|_| self.printed.has(CLINGS)).collect();
                self.clings_to.extend(given_back);
            }
            Input::Resize(k) => self.resize(k, out),
            Input::Expire(()) => out.arm((), Span::UNIT),
            Input::Deliver { message: Note::Note(note), .. } => return self.note(note),
            Input::Crashed { node, incarnation } => {
                self.notifications.push((node, incarnation.0, false))
            }
            Input::Joined { node, incarnation, .. } => {
                self.notifications.push((node, incarnation.0, true))
            }
            Input::Lease(_)
            | Input::Reserved(_)
            | Input::Applied(_)
            | Input::Lapse { .. }
            | Input::Adopt(_)
            | Input::Confirm { .. } => {}
        }
        Ok(())
    }

    fn observe(&self) -> Observation {
        let held = self.held.iter().map(|held| held.1);
        let clings_to = self.clings_to.iter().copied();
        Observation {
            phase: match (self.waiting.is_empty(), self.held.is_empty()) {
                (false, _) => Phase::Waiting,
                (true, false) => Phase::Holding,
                (true, true) => Phase::Idle,
            },
            stamp: (!self.waiting.is_empty()).then_some(Stamp::in_view(ViewId(0), 1, self.me)),
            slots: held.chain(clings_to).map(|slot| (slot, self.fence())).collect(),
            owing: if self.has(OWES) { vec![NodeId(1)] } else { Vec::new() },
            ..Observation::default()
        }
    }
}

impl Explorable for Toy {}
