//! Transitions of processes, remembered.
//!
//! A protocol is a function of its state and an input, and in most steps of a search some process
//! is in a state in which it was before and handles an input that it handled there. So the
//! transition is stored with everything that needs to be hashed or observed only once: the process
//! afterwards and its effects. The memo has a fixed size; of two transitions with the same place
//! the later one stays.

use std::sync::{Arc, Mutex, OnceLock};

use kgate_core::{Effect, Explorable, Input, InputOf, Outbox, Protocol, Refusal, Time};

use crate::state::{Hashed, Process, Sent, digest};

/// An input whose message is shared.
pub(crate) type SharedInput<P> = Input<Sent<P>, <P as Protocol>::Timer>;

/// An effect whose message is shared.
type SharedEffect<P> = Effect<Sent<P>, <P as Protocol>::Timer, <P as Protocol>::Durable>;

/// A transition of a process.
#[derive(Debug)]
pub(crate) struct Transition<P: Explorable> {
    /// The process afterwards.
    pub(crate) after: Arc<Process<P>>,
    /// The effects, in order, apart from those on stable storage, which are applied to `after`.
    pub(crate) effects: Box<[SharedEffect<P>]>,
    /// The refusal of the input, if it was refused.
    pub(crate) refused: Option<Refusal>,
}

impl<P: Explorable> Transition<P> {
    /// The transition of a process that has just become `protocol`.
    pub(crate) fn new(mut protocol: P, mut stored: Option<P::Durable>, mut out: Outbox<P>) -> Self {
        protocol.forget_times();
        let mut effects = Vec::new();
        while let Some(effect) = out.pop() {
            match effect {
                Effect::Persist(durable) => stored = Some(durable),
                Effect::Send { to, message } => {
                    effects.push(Effect::Send { to, message: Arc::new(Hashed::new(message)) });
                }
                Effect::Arm { timer, least, most } => {
                    effects.push(Effect::Arm { timer, least, most })
                }
                Effect::Disarm(timer) => effects.push(Effect::Disarm(timer)),
                Effect::Notify(notice) => effects.push(Effect::Notify(notice)),
            }
        }
        let after = Arc::new(Process::new(protocol, stored));
        Self { after, effects: effects.into(), refused: None }
    }

    fn of(before: &Process<P>, input: &SharedInput<P>) -> Self {
        let mut out = Outbox::new();
        let mut protocol = before.protocol().clone();
        let refused = protocol.handle(Time::ZERO, plain::<P>(input), &mut out).err();
        Self { refused, ..Self::new(protocol, before.stored().cloned(), out) }
    }
}

/// The input with its message unshared, as a process handles it.
fn plain<P: Explorable>(input: &SharedInput<P>) -> InputOf<P> {
    match input {
        Input::Deliver { from, message } => {
            Input::Deliver { from: *from, message: message.value.clone() }
        }
        Input::Acquire { weight } => Input::Acquire { weight: *weight },
        Input::Withdraw => Input::Withdraw,
        Input::Release { grant } => Input::Release { grant: *grant },
        Input::Resize(k) => Input::Resize(*k),
        Input::Reserved(slots) => Input::Reserved(slots.clone()),
        Input::Lease(valid) => Input::Lease(*valid),
        Input::Applied(log) => Input::Applied(log.clone()),
        Input::Lapse { grant } => Input::Lapse { grant: *grant },
        Input::Adopt(adoption) => Input::Adopt(adoption.clone()),
        Input::Confirm { grant } => Input::Confirm { grant: *grant },
        Input::Expire(timer) => Input::Expire(timer.clone()),
        Input::Crashed { node, incarnation } => {
            Input::Crashed { node: *node, incarnation: *incarnation }
        }
        Input::Joined { node, incarnation, view } => {
            Input::Joined { node: *node, incarnation: *incarnation, view: *view }
        }
    }
}

/// The number of remembered transitions.
const PLACES: usize = 1 << 16;

#[derive(Debug)]
struct Step<P: Explorable> {
    before: Arc<Process<P>>,
    input: SharedInput<P>,
    transition: Arc<Transition<P>>,
}

/// The remembered transitions, each at the place of its digest.
#[derive(Debug)]
pub(crate) struct Memo<P: Explorable>(OnceLock<Mutex<Vec<Option<Step<P>>>>>);

impl<P: Explorable> Memo<P> {
    pub(crate) fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The transition of `before` by an input.
    pub(crate) fn make(
        &self,
        before: &Arc<Process<P>>,
        input: SharedInput<P>,
    ) -> Arc<Transition<P>> {
        let steps = self.0.get_or_init(|| Mutex::new((0..PLACES).map(|_| None).collect()));
        let lock = || steps.lock().expect("no panic while it is locked");
        let place = usize::try_from(digest(&(&**before, &input)) % PLACES as u64).expect("below");
        // Mostly it is the same allocation, not merely an equal process.
        let is_it = |step: &&Step<P>| {
            (Arc::ptr_eq(&step.before, before) || step.before == *before) && step.input == input
        };
        if let Some(step) = lock()[place].as_ref().filter(is_it) {
            return step.transition.clone();
        }
        let transition = Arc::new(Transition::of(before, &input));
        lock()[place] =
            Some(Step { before: before.clone(), input, transition: transition.clone() });
        transition
    }
}
