//! What can happen in the room, what it does, and what must never be.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::decide::{self, INCARNATION, P};
use crate::state::{Act, BASE, EVICTIONS, Entry, NODES, Room, Share, State};

impl Model for Room {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            log: Vec::new(),
            appended: [BASE; NODES],
            applied: [BASE; NODES],
            shares: Default::default(),
            reached: None,
            wishes: BTreeSet::new(),
            scripted: 0,
            changed: 0,
        }]
    }

    fn actions(&self, state: &State, acts: &mut Vec<Act>) {
        if state.scripted < self.script.len() {
            acts.push(Act::Script);
        }
        if self.next_voters(state).is_some() {
            acts.push(Act::Change);
        }
        let evictions =
            state.log.iter().filter(|entry| matches!(entry, Entry::Evict { .. })).count();
        if evictions < EVICTIONS {
            acts.extend(state.wishes.iter().map(|(at, voters_at)| Act::Log(*at, *voters_at)));
        }
        let committed = self.committed(state);
        for node in 0..NODES {
            if state.appended[node] < Self::length(state) {
                acts.push(Act::Append(node));
            }
            if state.applied[node] < committed.min(state.appended[node]) {
                acts.push(Act::Apply(node));
            }
            let shares = &state.shares[node];
            // The same share once more is the same as one that has not lapsed.
            let news = |shown: u64| shares.arrived != Some(Share { shown, before: 0 });
            if shares.flying.is_none() && decide::share(self, state, node).is_some_and(news) {
                acts.push(Act::Answer(node));
            }
            if shares.flying.is_some() {
                acts.push(Act::Arrive(node));
            }
            if shares.all().next().is_some() {
                acts.push(Act::Lapse(node));
            }
            if evictions == 0
                && decide::eviction(self, state, node)
                    .is_some_and(|wish| !state.wishes.contains(&wish))
            {
                acts.push(Act::Evict(node));
            }
        }
    }

    fn next_state(&self, last: &State, act: Act) -> Option<State> {
        let mut state = last.clone();
        match act {
            Act::Script => {
                state.log.push(self.script[state.scripted]);
                state.scripted += 1;
            }
            Act::Change => {
                state.log.push(self.next_voters(last)?);
                state.changed += 1;
            }
            Act::Log(at, voters_at) => {
                state.wishes.remove(&(at, voters_at));
                state.log.push(Entry::Evict { at, voters_at });
            }
            Act::Append(node) => self.keep_lease(&mut state, |state| state.appended[node] += 1),
            Act::Apply(node) => self.keep_lease(&mut state, |state| {
                state.applied[node] += 1;
                if self.voters(&state.log, state.applied[node]).at == state.applied[node] as u64 {
                    // What was given before this has to lapse before that node evicts by these
                    // voters.
                    for shares in &mut state.shares {
                        for share in [&mut shares.kept, &mut shares.arrived, &mut shares.flying]
                            .into_iter()
                            .flatten()
                        {
                            share.before |= 1 << node;
                        }
                    }
                }
            }),
            Act::Answer(node) => {
                let shown = decide::share(self, last, node)?;
                state.shares[node].flying = Some(Share { shown, before: 0 });
                if !self.late_answers {
                    self.keep_lease(&mut state, |state| Self::arrive(state, node));
                }
            }
            Act::Arrive(node) => self.keep_lease(&mut state, |state| Self::arrive(state, node)),
            Act::Lapse(node) => self.lapse(&mut state, node),
            Act::Evict(node) => {
                state.wishes.insert(decide::eviction(self, last, node)?);
            }
        }
        Some(state)
    }

    /// Where nothing can go wrong any more is not looked at: p knows that it is evicted, or the
    /// only eviction was void.
    fn within_boundary(&self, state: &State) -> bool {
        let gone =
            |length| self.membership(&state.log, length).incarnation(P, INCARNATION).is_none();
        let decided = state.log.iter().any(|entry| matches!(entry, Entry::Evict { .. }));
        !(decided && !gone(Self::length(state)) || gone(state.applied[P.index()]))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no lease after the eviction", |room: &Room, state: &State| {
                !(room.evicted(state) && room.holds(state))
            }),
            Property::sometimes("evicted", |room: &Room, state: &State| room.evicted(state)),
            Property::sometimes("a lease while suspected", |room: &Room, state: &State| {
                let suspected = |applied: &usize| {
                    !room.membership(&state.log, *applied).is_trusted(P, INCARNATION)
                };
                room.holds(state) && state.applied.iter().any(suspected)
            }),
        ];
        if self.target.is_some() {
            properties.push(Property::sometimes("evicted by other voters", |room: &Room, state: &State| {
                room.evicted(state)
                    && state
                        .log
                        .iter()
                        .any(|entry| matches!(entry, Entry::Evict { voters_at, .. } if *voters_at > 1))
            }));
        }
        properties
    }
}
