//! Measures and checks from the start or the last fault on: when the configuration is normal, when
//! a wave can start cleanly, and when every process has joined; and from the first clean start on,
//! that there are at most l tokens.

use std::collections::BTreeSet;

use kgate_core::{NodeId, Span, Survey, Time};
use kgate_spec::convergence::{AT_MOST_L_TOKENS, SOMEBODY_CAN_MOVE};
use kgate_spec::{AtMostK, Convergence, EveryoneServed, Violation};

/// What was seen since the start or the last fault, from which rounds are counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Episode {
    since: u64,
    is_normal: bool,
    pub(super) normal_at: Option<u64>,
    pub(super) abnormal_again: u64,
    pub(super) abnormal_until: Option<u64>,
    pub(super) start_at: Option<u64>,
    /// Waves begun before every process had joined.
    pub(super) waves_before: Option<u64>,
    pub(super) tokens_max: u32,
    pub(super) inside_max: u32,
}

pub(super) struct Checker {
    k: u32,
    served_within: Option<u64>,
    pub(super) episode: Episode,
    convergence: Convergence,
    pub(super) inside_max: u32,
    pub(super) waves: u64,
    /// The number of privileged actions of each process: overall, since stabilisation; and the wave
    /// of the last one.
    pub(super) served: Vec<u64>,
    pub(super) served_after: Vec<u64>,
    last: Vec<u64>,
    /// The properties already reported: each is reported once between two faults.
    reported: BTreeSet<&'static str>,
    pub(super) violations: Vec<Violation>,
}

impl Checker {
    pub(super) fn new(nodes: usize, k: u32, served_within: Option<u64>) -> Self {
        Self {
            k,
            served_within,
            episode: Episode::default(),
            convergence: Convergence::default(),
            inside_max: 0,
            waves: 0,
            served: vec![0; nodes],
            served_after: vec![0; nodes],
            last: vec![0; nodes],
            reported: BTreeSet::new(),
            violations: Vec::new(),
        }
    }

    /// A fault at the end of round `round`: what was reached before no longer counts.
    pub(super) fn fault(&mut self, round: u64) {
        self.episode = Episode { since: round, ..Episode::default() };
        self.convergence.fault(round);
        self.reported.clear();
    }

    /// Checks a configuration in round `round`.
    pub(super) fn see(&mut self, survey: Survey, round: u64) {
        let after = round - self.episode.since;
        let episode = &mut self.episode;
        self.inside_max = self.inside_max.max(survey.privileged);
        episode.abnormal_again += u64::from(episode.is_normal && !survey.normal);
        episode.is_normal = survey.normal;
        if survey.normal {
            episode.normal_at.get_or_insert(after);
        } else {
            episode.abnormal_until = Some(after);
        }
        if survey.start {
            episode.start_at.get_or_insert(after);
        }
        let before = self.convergence.reached();
        let right = survey.tokens <= self.k && survey.privileged <= self.k;
        let reopened = self.convergence.see(survey.start && survey.joined, right, round);
        if before != self.convergence.reached() {
            episode.waves_before = Some(self.waves);
            self.served_after.fill(0);
            self.last.fill(self.waves);
        }
        if episode.start_at.is_none() {
            return;
        }
        episode.tokens_max = episode.tokens_max.max(survey.tokens);
        episode.inside_max = episode.inside_max.max(survey.privileged);
        let most = self.k;
        if survey.tokens > most {
            let text = format!("{} tokens in the network, l is {most}", survey.tokens);
            self.report(AT_MOST_L_TOKENS, round, Vec::new(), text);
        }
        if survey.privileged > most {
            let text = format!("{} processes have the privilege, l is {most}", survey.privileged);
            self.report(AtMostK::NAME, round, Vec::new(), text);
        }
        if let Some(violation) = reopened {
            self.report(violation.property, round, Vec::new(), violation.text);
        }
    }

    /// The round in which the system stabilised, counted from the start or the last fault.
    pub(super) fn stabilized_at(&self) -> Option<u64> {
        self.convergence.reached()
    }

    /// `node` takes a privileged action.
    pub(super) fn serve(&mut self, node: NodeId) {
        self.served[node.index()] += 1;
        self.served_after[node.index()] += 1;
        self.last[node.index()] = self.waves;
    }

    /// A wave begins: once the system has stabilised, every process must have been served within
    /// the configured number of waves before it.
    pub(super) fn wave(&mut self, round: u64) {
        self.waves += 1;
        let Some(within) = self.served_within.filter(|_| self.stabilized_at().is_some()) else {
            return;
        };
        let before = self.waves - 1;
        let unserved = |node: &u32| before - self.last[*node as usize] >= within;
        let nodes = u32::try_from(self.last.len()).expect("ids have 32 bits");
        let nodes: Vec<NodeId> = (0..nodes).filter(unserved).map(NodeId).collect();
        if !nodes.is_empty() {
            let text = format!("{nodes:?} had no token in {within} waves");
            self.report(EveryoneServed::NAME, round, nodes, text);
        }
    }

    /// No process is enabled.
    pub(super) fn terminal(&mut self, round: u64) {
        self.report(
            SOMEBODY_CAN_MOVE,
            round,
            Vec::new(),
            "no process is enabled: nothing happens any more".into(),
        );
    }

    fn report(&mut self, property: &'static str, round: u64, nodes: Vec<NodeId>, text: String) {
        if self.reported.insert(property) {
            let at_ns = Time::ZERO + Span::UNIT.times(round);
            self.violations.push(Violation {
                property,
                at_ns,
                nodes,
                text: format!("round {round}: {text}"),
            });
        }
    }
}
