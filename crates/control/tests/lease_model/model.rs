//! The model's actions and properties.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::decide::{self, INCARNATION, P};
use crate::state::{Action, BASE, EVICTIONS, Entry, LeaseModel, NODES, Share, Shares, State};

impl Model for LeaseModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            log: Vec::new(),
            appended: [BASE; NODES],
            applied: [BASE; NODES],
            shares: Default::default(),
            reached: None,
            proposals: BTreeSet::new(),
            scripted: 0,
            changed: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.scripted < self.script.len() {
            actions.push(Action::Script);
        }
        if self.next_voters(state).is_some() {
            actions.push(Action::Change);
        }
        let evictions =
            state.log.iter().filter(|entry| matches!(entry, Entry::Evict { .. })).count();
        if evictions < EVICTIONS {
            actions
                .extend(state.proposals.iter().map(|(at, voters_at)| Action::Log(*at, *voters_at)));
        }
        let committed = self.committed(state);
        for node in 0..NODES {
            if state.appended[node] < Self::length(state) {
                actions.push(Action::Append(node));
            }
            if state.applied[node] < committed.min(state.appended[node]) {
                actions.push(Action::Apply(node));
            }
            let shares = &state.shares[node];
            // A repeated share is the same as one that has not lapsed.
            let is_new = |shown: u64| shares.arrived != Some(Share { shown, before: 0 });
            if shares.flying.is_none() && decide::share(self, state, node).is_some_and(is_new) {
                actions.push(Action::Answer(node));
            }
            if shares.flying.is_some() {
                actions.push(Action::Arrive(node));
            }
            if shares.all().next().is_some() {
                actions.push(Action::Lapse(node));
            }
            if evictions == 0
                && decide::eviction(self, state, node)
                    .is_some_and(|eviction_in| !state.proposals.contains(&eviction_in))
            {
                actions.push(Action::Evict(node));
            }
        }
    }

    fn next_state(&self, last: &State, act: Action) -> Option<State> {
        let mut state = last.clone();
        match act {
            Action::Script => {
                state.log.push(self.script[state.scripted]);
                state.scripted += 1;
            }
            Action::Change => {
                state.log.push(self.next_voters(last)?);
                state.changed += 1;
            }
            Action::Log(at, voters_at) => {
                state.proposals.remove(&(at, voters_at));
                state.log.push(Entry::Evict { at, voters_at });
            }
            Action::Append(node) => self.keep_lease(&mut state, |state| state.appended[node] += 1),
            Action::Apply(node) => self.keep_lease(&mut state, |state| {
                state.applied[node] += 1;
                if self.voters(&state.log, state.applied[node]).at == state.applied[node] as u64 {
                    // E3: every share given before this must lapse before that node evicts with
                    // these voters.
                    for share in state.shares.iter_mut().flat_map(Shares::all_mut) {
                        share.before |= 1 << node;
                    }
                }
            }),
            Action::Answer(node) => {
                let shown = decide::share(self, last, node)?;
                state.shares[node].flying = Some(Share { shown, before: 0 });
                if !self.late_answers {
                    self.keep_lease(&mut state, |state| Self::arrive(state, node));
                }
            }
            Action::Arrive(node) => self.keep_lease(&mut state, |state| Self::arrive(state, node)),
            Action::Lapse(node) => self.lapse(&mut state, node),
            Action::Evict(node) => {
                state.proposals.insert(decide::eviction(self, last, node)?);
            }
        }
        Some(state)
    }

    /// States in which nothing can go wrong any more are not explored: p knows that it is evicted,
    /// or the only eviction had no effect.
    fn within_boundary(&self, state: &State) -> bool {
        let gone =
            |length| self.membership(&state.log, length).incarnation(P, INCARNATION).is_none();
        let decided = state.log.iter().any(|entry| matches!(entry, Entry::Evict { .. }));
        !(decided && !gone(Self::length(state)) || gone(state.applied[P.index()]))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("no lease after the eviction", |model: &LeaseModel, state: &State| {
                !(model.evicted(state) && model.holds(state))
            }),
            Property::sometimes("evicted", |model: &LeaseModel, state: &State| {
                model.evicted(state)
            }),
            Property::sometimes("a lease while suspected", |model: &LeaseModel, state: &State| {
                let suspected = |applied: &usize| {
                    !model.membership(&state.log, *applied).is_trusted(P, INCARNATION)
                };
                model.holds(state) && state.applied.iter().any(suspected)
            }),
        ];
        if self.target.is_some() {
            let by_others = |model: &LeaseModel, state: &State| {
                let newer = |entry: &Entry| match entry {
                    Entry::Evict { voters_at, .. } => *voters_at > 1,
                    Entry::Suspect | Entry::Unsuspect | Entry::Joint | Entry::Final => false,
                };
                model.evicted(state) && state.log.iter().any(newer)
            };
            properties.push(Property::sometimes("evicted by other voters", by_others));
        }
        properties
    }
}
