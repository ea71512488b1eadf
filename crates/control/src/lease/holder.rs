//! The holder of a lease: pings the voters (N1), adds up their shares (N2, N4), keeps an eye on
//! what it may not know yet (N6), and asks to be cleared of a suspicion (E5).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kgate_core::{NodeId, Span, Time};

use super::known::Known;
use super::message::{Proposal, Refusal};
use super::retry::Retry;
use super::voter;
use crate::membership::StoreId;
use crate::voters::Voters;

/// N6: so long a node may be behind an index that it has heard of.
const BEHIND_MAX: Span = Span(1_000_000_000);
/// So many pings are remembered at most; more than fit into a lease are of no use.
const PINGS_MAX: usize = 256;

/// What a voter said last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Said {
    /// When the newest ping with an answer was sent (N1).
    pub(super) answered: Option<Time>,
    /// The newest refusal, and when its ping was sent.
    pub(super) refused: Option<(Time, Refusal)>,
    /// The voter's store; the same voter with another one has forgotten what it promised (R4).
    store: Option<StoreId>,
    /// An answer came from another store.
    pub(super) foreign: bool,
}

/// An index of the log that was heard of, and when first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    index: u64,
    heard: Time,
}

/// A suspicion of this node that it wants to be cleared of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Clearing {
    at: u64,
    since: Time,
    retry: Retry,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    next_ping: Time,
    seq: u64,
    sent: VecDeque<(u64, Time)>,
    said: BTreeMap<NodeId, Said>,
    /// The newest voters that an answer has shown. They are committed: the voter had applied them
    /// (N4).
    shown: Option<Voters>,
    /// Voters that a refusal has named: pinged, never counted.
    named: Option<Voters>,
    /// N2: the greatest t such that a quorum has answered pings sent at or after t.
    since: Option<Time>,
    /// No grant before a quorum has answered a ping sent at or after this.
    doubt: Option<Time>,
    /// N6: the oldest index heard of that is not applied yet, and the newest.
    marks: Option<(Mark, Mark)>,
    clearing: Option<Clearing>,
}

impl Holder {
    pub(super) fn new(now: Time, seq: u64) -> Self {
        Self {
            next_ping: now,
            seq,
            sent: VecDeque::new(),
            said: BTreeMap::new(),
            shown: None,
            named: None,
            since: None,
            doubt: None,
            marks: None,
            clearing: None,
        }
    }

    /// Whom to ping: whoever votes by anything that this node has heard of.
    pub(super) fn targets(&self, known: &Known) -> BTreeSet<NodeId> {
        let mut all = known.all_voters();
        all.extend(self.shown.iter().chain(&self.named).flat_map(Voters::all));
        all
    }

    /// N4: a quorum is needed in each of these. The newest voters known to be committed, and the
    /// newest of the own log if they are newer: those may never be committed, so they add to the
    /// others and do not replace them.
    fn binding<'a>(&'a self, known: &'a Known) -> impl Iterator<Item = &'a Voters> {
        let committed =
            self.shown.as_ref().filter(|shown| shown.at > known.voters.at).unwrap_or(&known.voters);
        let appended = known.appended.as_ref().filter(|appended| appended.at > committed.at);
        std::iter::once(committed).chain(appended)
    }

    /// N1: a number for pings sent now, if it is time.
    pub(super) fn ping(&mut self, known: &Known, now: Time) -> Option<u64> {
        if now < self.next_ping {
            return None;
        }
        self.next_ping = now + known.timing.node_ping;
        self.seq += 1;
        self.sent.push_back((self.seq, now));
        let lease = known.own_terms().map_or(known.timing.lease, |terms| terms.lease);
        while self.sent.len() > PINGS_MAX
            || self.sent.front().is_some_and(|(_, sent)| now.since(*sent) > lease)
        {
            self.sent.pop_front();
        }
        Some(self.seq)
    }

    /// The next ping has a greater number than this. (Halved: there is always a greater one.)
    pub(super) fn number_from(&mut self, seq: u64) {
        self.seq = seq / 2;
    }

    /// Pings as soon as can be: there is somebody new to ask, or a doubt.
    pub(super) fn hurry(&mut self, now: Time) {
        self.next_ping = self.next_ping.min(now);
    }

    fn sent(&self, seq: u64) -> Option<Time> {
        let found = self.sent.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        self.sent.get(found).map(|(_, sent)| *sent)
    }

    /// What that voter said before. None: nobody asks it, so nothing is kept of it.
    fn entry(&mut self, known: &Known, from: NodeId) -> Option<&mut Said> {
        let nothing = Said { answered: None, refused: None, store: None, foreign: false };
        let asked = known.is_voter(from)
            || self.shown.iter().chain(&self.named).any(|voters| voters.has(from));
        asked.then(|| self.said.entry(from).or_insert(nothing))
    }

    /// A share (N1, N2, N4, N6).
    pub(super) fn on_answer(
        &mut self,
        known: &Known,
        now: Time,
        from: NodeId,
        (seq, store, voters, committed): (u64, StoreId, Voters, u64),
    ) {
        let Some(sent) = self.sent(seq) else { return };
        if !voters.is_plausible() {
            return;
        }
        let Some(said) = self.entry(known, from) else { return };
        if *said.store.get_or_insert(store) != store {
            said.foreign = true;
            return;
        }
        said.answered = said.answered.max(Some(sent));
        if self.shown.as_ref().is_none_or(|shown| shown.at < voters.at) {
            let before = self.targets(known);
            let news = !voters.all().is_subset(&before);
            self.shown = Some(voters);
            if news {
                self.hurry(now);
            }
        }
        self.heard_of(known, now, committed);
        self.renew(known);
    }

    /// No share, and why (E5).
    pub(super) fn on_refusal(
        &mut self,
        known: &Known,
        now: Time,
        from: NodeId,
        seq: u64,
        why: Refusal,
    ) {
        let Some(sent) = self.sent(seq) else { return };
        let Some(said) = self.entry(known, from) else { return };
        if said.refused.as_ref().is_none_or(|(before, _)| *before <= sent) {
            said.refused = Some((sent, why.clone()));
        }
        match why {
            Refusal::Suspected(at) => self.suspected(known, now, at),
            Refusal::NotVoter(voters) => {
                let newer = self.named.as_ref().is_none_or(|named| named.at < voters.at);
                if newer && voters.is_plausible() {
                    self.named = Some(voters);
                    self.hurry(now);
                }
            }
            Refusal::NotMember | Refusal::Behind => {}
        }
    }

    /// E5: asks to be cleared once a quorum has heard this node lately: else it would be suspected
    /// again at once.
    fn suspected(&mut self, known: &Known, now: Time, at: u64) {
        let lately = |node: NodeId| {
            let said = self.said.get(&node)?;
            let refused = said.refused.as_ref().map(|(sent, _)| *sent);
            let sent = said.answered.max(refused)?;
            (now.since(sent) <= known.timing.suspect_after).then_some(())
        };
        let heard = self.binding(known).all(|voters| voters.reached(lately).is_some());
        if heard && self.clearing.is_none_or(|clearing| clearing.at < at) {
            let retry = Retry::at(now, known.timing.node_ping.times(2));
            self.clearing = Some(Clearing { at, since: now, retry });
        }
    }

    /// E5: to be cleared, if it is time to ask for it.
    pub(super) fn clear(&mut self, known: &Known, now: Time) -> Option<Proposal> {
        let clearing = self.clearing.as_mut()?;
        let at = clearing.at;
        clearing.retry.take(now).then_some(Proposal::Unsuspect {
            node: known.me,
            incarnation: known.incarnation,
            at,
        })
    }

    /// The suspicion has ended this way or that, or another one has come.
    pub(super) fn stop_clearing(&mut self) {
        self.clearing = None;
    }

    /// N2: adds up the shares. What was reached once is never taken back: it was a lease by the
    /// voters of then.
    pub(super) fn renew(&mut self, known: &Known) {
        let answered = |node: NodeId| self.said.get(&node).and_then(|said| said.answered);
        let reached = self.binding(known).map(|voters| voters.reached(answered)).min().flatten();
        self.since = self.since.max(reached);
        if self.clearing.is_some_and(|clearing| self.since > Some(clearing.since)) {
            self.clearing = None;
        }
    }

    /// The own vote is all that is needed, and it is given: the lease does not end (one voter, this
    /// node).
    pub(super) fn is_alone(&self, known: &Known) -> bool {
        self.binding(known).all(|voters| voters.is_quorum(|node| node == known.me))
            && voter::refusal(known, known.me, known.incarnation).is_none()
    }

    /// A lease from now, by the own vote alone.
    pub(super) fn renew_alone(&mut self, now: Time) {
        self.since = self.since.max(Some(now));
    }

    /// N2: when the lease ends. Not a member, no lease.
    pub(super) fn end(&self, known: &Known) -> Time {
        match (known.own_terms(), self.since) {
            (Some(_), _) if self.is_alone(known) => Time::NEVER,
            (Some(terms), Some(since)) => since + terms.lease,
            (None, _) | (Some(_), None) => Time::ZERO,
        }
    }

    /// From now on a quorum must answer before anything is granted.
    pub(super) fn doubt(&mut self, now: Time) {
        self.doubt = Some(now);
        self.hurry(now);
    }

    pub(super) fn in_doubt(&self, known: &Known) -> bool {
        !self.is_alone(known) && self.doubt.is_some_and(|doubt| self.since < Some(doubt))
    }

    /// N6: the log is decided up to there, somebody says.
    fn heard_of(&mut self, known: &Known, now: Time, index: u64) {
        if index <= known.applied {
            return;
        }
        let mark = Mark { index, heard: now };
        self.marks = match self.marks {
            None => Some((mark, mark)),
            Some((oldest, newest)) if newest.index < index => Some((oldest, mark)),
            Some(both) => Some(both),
        };
    }

    /// N6: the log was applied up to there.
    pub(super) fn applied(&mut self, index: u64) {
        self.marks = match self.marks {
            Some((_, newest)) if newest.index <= index => None,
            Some((oldest, newest)) if oldest.index <= index => Some((newest, newest)),
            others => others,
        };
    }

    /// N6: the index that this node should have applied long ago.
    pub(super) fn behind(&self, now: Time) -> Option<u64> {
        self.marks
            .filter(|(oldest, _)| now.since(oldest.heard) > BEHIND_MAX)
            .map(|(oldest, _)| oldest.index)
    }

    /// Forgets voters who are none any more.
    pub(super) fn prune(&mut self, known: &Known) {
        let targets = self.targets(known);
        self.said.retain(|node, _| targets.contains(node));
    }

    /// Those whose shares are needed, and what each said last.
    pub(super) fn voters(&self, known: &Known) -> Vec<(NodeId, Option<&Said>)> {
        let needed: BTreeSet<NodeId> = self.binding(known).flat_map(Voters::all).collect();
        needed.into_iter().map(|node| (node, self.said.get(&node))).collect()
    }

    pub(super) fn next_due(&self) -> Time {
        self.clearing.map_or(self.next_ping, |clearing| clearing.retry.next().min(self.next_ping))
    }
}
