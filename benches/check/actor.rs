//! The same protocol as an actor of `stateright`: what one would write without an explorer of our
//! own.
//!
//! A client that may ask and a client that is inside are timers that may run out at any time, so
//! that every step of our world is a step here. What an actor remembers besides its process follows
//! from the process or is counted in our world too, so the states are the same as well.

use std::borrow::Cow;

use kgate_core::{
    Effect, GrantId, Input, InputOf, NodeId, Notice, Outbox, Phase, Protocol, Setup, Time, To,
};
use kgate_protocols::broadcast::{Direct, DirectMessage};
use kgate_protocols::permission::{Permission, PermissionMessage};
use stateright::actor::{Actor, ActorModel, ActorModelState, Id, Network, Out, model_timeout};
use stateright::{Checker, Expectation, Model};

use crate::Found;

/// `raymond`.
pub(crate) type Process = Permission<Direct>;

/// `stateright` sorts messages; the protocol's own have no order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Message {
    Request(u64),
    Reply(u64),
}

impl From<PermissionMessage<DirectMessage>> for Message {
    fn from(message: PermissionMessage<DirectMessage>) -> Self {
        match message {
            PermissionMessage::Broadcast(DirectMessage { clock }) => Self::Request(clock),
            PermissionMessage::Reply { clock } => Self::Reply(clock),
        }
    }
}

impl From<Message> for PermissionMessage<DirectMessage> {
    fn from(message: Message) -> Self {
        match message {
            Message::Request(clock) => Self::Broadcast(DirectMessage { clock }),
            Message::Reply(clock) => Self::Reply { clock },
        }
    }
}

/// What a client may do next, at any time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Client {
    Acquire,
    ComeOut,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    process: Process,
    asked: u32,
    inside: Option<GrantId>,
}

#[derive(Clone)]
struct Node {
    setup: Setup,
    entries: u32,
}

impl Node {
    fn handle(&self, me: Id, state: &mut State, input: InputOf<Process>, out: &mut Out<Self>) {
        let mut effects = Outbox::new();
        state.process.handle(Time::ZERO, input, &mut effects).expect("nothing is refused");
        while let Some(effect) = effects.pop() {
            match effect {
                Effect::Send { to: To::One(to), message } => {
                    out.send(Id::from(to.index()), message.into())
                }
                Effect::Send { to: To::Many(nodes), message } => {
                    nodes.iter().for_each(|to| out.send(Id::from(to.index()), message.into()));
                }
                Effect::Send { to: To::All, message } => {
                    let others =
                        (0..self.setup.nodes as usize).map(Id::from).filter(|&to| to != me);
                    others.for_each(|to| out.send(to, message.into()));
                }
                Effect::Notify(notice) => match *notice {
                    Notice::Granted { grant, .. } => {
                        state.inside = Some(grant);
                        out.set_timer(Client::ComeOut, model_timeout());
                    }
                    Notice::Asked
                    | Notice::Lost { .. }
                    | Notice::Adopted { .. }
                    | Notice::AdoptionRefused { .. }
                    | Notice::TooLarge { .. }
                    | Notice::Suspected { .. } => {}
                },
                Effect::Arm { timer, .. } | Effect::Disarm(timer) => match timer {},
                Effect::Persist(durable) => match durable {},
            }
        }
    }

    fn may_ask(&self, state: &State, out: &mut Out<Self>) {
        if state.asked < self.entries {
            out.set_timer(Client::Acquire, model_timeout());
        }
    }
}

impl Actor for Node {
    type Msg = Message;
    type Timer = Client;
    type State = State;
    type Storage = ();
    type Random = ();

    fn on_start(&self, id: Id, _storage: &Option<()>, out: &mut Out<Self>) -> State {
        let me = NodeId(u32::try_from(usize::from(id)).expect("few"));
        let process = Process::start(&Setup { me, ..self.setup.clone() }, None, &mut Outbox::new());
        let state = State { process, asked: 0, inside: None };
        self.may_ask(&state, out);
        state
    }

    fn on_msg(
        &self,
        id: Id,
        state: &mut Cow<'_, State>,
        from: Id,
        message: Message,
        out: &mut Out<Self>,
    ) {
        let from = NodeId(u32::try_from(usize::from(from)).expect("few"));
        self.handle(id, state.to_mut(), Input::Deliver { from, message: message.into() }, out);
    }

    fn on_timeout(&self, id: Id, state: &mut Cow<'_, State>, timer: &Client, out: &mut Out<Self>) {
        let state = state.to_mut();
        match timer {
            Client::Acquire => {
                state.asked += 1;
                self.handle(id, state, Input::Acquire { weight: 1 }, out);
            }
            Client::ComeOut => {
                let grant = state.inside.take().expect("a client comes out that is inside");
                self.handle(id, state, Input::Release { grant }, out);
                self.may_ask(state, out);
            }
        }
    }
}

type System = ActorModel<Node, Setup>;

fn inside(state: &ActorModelState<Node>) -> usize {
    state.actor_states.iter().filter(|actor| actor.inside.is_some()).count()
}

fn nothing_under_way(state: &ActorModelState<Node>) -> bool {
    matches!(&state.network, Network::Ordered(channels) if channels.is_empty())
}

/// All states, with the properties of `kgate_check::properties`.
pub(crate) fn search(nodes: u32, k: u32, entries: u32) -> Found {
    let setup = Setup::new(nodes, k);
    let system: System = ActorModel::new(setup.clone(), ())
        .actors((0..nodes).map(|_| Node { setup: setup.clone(), entries }))
        .init_network(Network::new_ordered([]))
        .property(Expectation::Always, "at most k slots in use", |system, state| {
            inside(state) <= system.cfg.k as usize
        })
        .property(Expectation::Always, "everyone served", |_, state| {
            let waits = |state: &State| state.process.observe().phase == Phase::Waiting;
            let stuck = nothing_under_way(state) && inside(state) == 0;
            !(stuck && state.actor_states.iter().any(|actor| waits(actor)))
        })
        .property(Expectation::Sometimes, "k inside", |system, state| {
            inside(state) == system.cfg.k as usize
        });
    let checker = system.checker().threads(1).spawn_dfs().join();
    checker.assert_properties();
    Found { unique: checker.unique_state_count(), generated: checker.state_count() }
}
