//! Mutual exclusion by tokens in a tree: Raymond 1989 as in tree-token-2019, with k tokens,
//! recovery, and permanent loss of processes.
//!
//! Processes exchange messages with their neighbours in a tree only. Each process knows where each
//! token is: at itself, or in the direction of one neighbour. It keeps a queue of the entries that
//! want a token: its neighbours, on behalf of all processes behind them, and itself. A process
//! whose queue is not empty sends REQUEST in the direction of a token; the neighbour queues that
//! and requests further. A token that is here and not in use goes to the first of the queue: the
//! own client, which enters, or a neighbour, by TOKEN, followed by a REQUEST if others wait.
//!
//! *Exclusion.* A token is at one process or in transit, and a process that is inside has it. Each
//! hop and each grant increases its [`Revision`], which is stored with its place before the token
//! leaves. So a stale copy is recognised, and the revision of a grant is its fence.
//!
//! *How many tokens to request, and where (k > 1).* Let E entries wait, e(d) of them from neighbour
//! d; let T(d) tokens be in direction d, and o(d) the number requested there and not received. A
//! request in direction d is of use to entries of others than d. As long as fewer than E requests
//! are of use, the process requests more where o(d) < T(d) and o(d) < E - e(d), first where most
//! are left. If that leaves it with fewer than E requests, it requests more wherever o(d) < T(d),
//! if need be back where the entries came from. It does not request on behalf of its own client
//! while that is inside. With k = 1 all this is Raymond's `asked`.
//!
//! *No starvation.* Lemma: if all processes are up and no message is in transit, no client waits
//! while a token is idle, even if clients stay inside with the k-1 others for ever. For suppose one
//! does. The requests of neighbours to each other are the entries in their queues, and clients'
//! entries are there besides, so some process z has requested fewer than E. So it has requested all
//! tokens in every direction. On the path from z to the idle token, the next process y has e(z)
//! entries from z, no fewer than there are tokens on its side. Let the idle token be in direction d
//! from y. If y requests no more there though o(d) < T(d), then either o(d) >= E - e(d) >= e(z) >=
//! T(d), which is false; or E requests are of use, at most E - e(z) of them in direction z, so e(z)
//! or more in other directions, which is all that T allows, those of d included. So y has requested
//! all tokens in direction d as well, and so on to the process of the idle token: it has an entry,
//! and would have served it. A queue is served in order, so no entry is overtaken for ever.
//!
//! *Recovery* is described in `recovery.rs`, *permanent loss* in `mending.rs`, the *session* with a
//! neighbour in `link.rs`.
//!
//! Cost: with k = 1, an entry in a quiet system costs exactly two messages for each edge between
//! requester and token, and as many delays; nothing if the token is here. (The paper says 2(D-1) at
//! most, and counts D in processes; it is 2D with D in edges.) The recovery of a process with K
//! neighbours costs 2K messages in a quiet system, as the paper says; a permanent loss costs 4 for
//! each new edge. State of an idle process: O(k + neighbours).
//!
//! Source: Raymond, A tree-based algorithm for distributed mutual exclusion, ACM TOCS 7(1), 1989;
//! Tupini and Berti, Distributed Mutual Exclusion: Implementation of Raymond's Tree-Based
//! Algorithm, 2019 ("the paper").
//!
//! Deviations from the paper:
//! - R1 to R6: Algorithms 1 to 4 as Raymond has them ([`defects`] has the printed versions);
//! - R7: as printed, recovery is not safe: two neighbours that recover together, or a token in
//!   transit to or from one that recovers, give two tokens, none, or holders in a cycle. Here the
//!   place of a token is on stable storage, and the answers of neighbours only decide whether to
//!   send it again;
//! - R8 to R11: a recovered process continues at once, remembers its client's request, recognises
//!   old requests by the incarnations in them, and treats a neighbour's RESTART as a sign that it
//!   is back;
//! - no stash and no end of recovery: each edge recovers by itself, and messages may overtake each
//!   other;
//! - a client may request its next entry while it is inside;
//! - k tokens, and permanent losses; the paper has one token, and no losses.
//!
//! To see it: `kgate sim --protocol tree-token -n 22 --graph radial`, with `--crash 4@10..12 --down
//! lost` for a crash with recovery, `--crash 4@10` for a permanent loss; and `-n 8 -k 1 --load high
//! --hold 2 --duration 200 --latency uniform=0.1..2 --random-recoveries 40 --down-for 5 --runs 50
//! --as-printed R7` for recovery as printed.

mod checks;
pub mod defects;
mod exclusion;
mod link;
mod mending;
mod message;
mod place;
mod printed;
mod recovery;
mod renaming;

pub use message::{Incarnations, Said, Side, Statement, TreeTokenMessage};
pub use place::{Place, Revision};

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use kgate_core::{
    Defects, GrantId, Graph, Input, InputOf, Mechanism, Never, NodeId, Observation, Outbox, Phase,
    Protocol, Refusal, Setup, Suspend, Time, TransientFaults,
};
use serde::{Deserialize, Serialize};

use crate::collections::NodeList;
use defects::{R7, R9, R11};
use link::Link;
use mending::{Mended, Question};
use printed::AsPrinted;

/// The state that survives a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Durable {
    /// The number of this incarnation, from 1.
    incarnation: u32,
    /// Whether the client waits.
    requesting: bool,
    initialized: bool,
    places: Box<[Place]>,
    lost: NodeList,
}

/// A grant that the client has not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    grant: GrantId,
    slot: u32,
}

/// One process of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TreeToken {
    me: NodeId,
    graph: Arc<Graph>,
    defects: Defects,
    incarnation: u32,
    /// INITIALIZE has arrived; until then the process requests nothing.
    initialized: bool,
    /// Whether the client waits; if so, the queue has an entry for it.
    requesting: bool,
    held: Option<Held>,
    /// The number of the next grant.
    grants: u64,
    /// The place of each token.
    places: Box<[Place]>,
    /// The next receivers of a token: the process itself, or a neighbour, which may be there
    /// several times (Raymond's REQUEST_Q).
    queue: VecDeque<NodeId>,
    /// The neighbours, in the order of ids.
    links: Vec<Link>,
    /// The processes that are lost permanently.
    lost: NodeList,
    /// The tokens that may have been lost with them.
    questions: Vec<Question>,
    /// Only for runs as printed that need it.
    as_printed: Option<Box<AsPrinted>>,
}

impl TreeToken {
    fn k(&self) -> u32 {
        u32::try_from(self.places.len()).expect("k has 32 bits")
    }

    fn link_at(&self, node: NodeId) -> Option<usize> {
        self.links.binary_search_by_key(&node, |link| link.node).ok()
    }

    fn link(&self, node: NodeId) -> Option<&Link> {
        self.link_at(node).map(|at| &self.links[at])
    }

    fn link_mut(&mut self, node: NodeId) -> Option<&mut Link> {
        self.link_at(node).map(|at| &mut self.links[at])
    }

    fn incarnations(&self, link: &Link) -> Incarnations {
        Incarnations { mine: self.incarnation, yours: link.incarnation }
    }

    /// The session that a message belongs to; `None` if it belongs to an earlier one. The message
    /// may be the first of its session.
    fn session(&mut self, from: NodeId, incarnations: Incarnations) -> Option<&mut Link> {
        let current = incarnations.yours == self.incarnation;
        let r11 = self.defects.has(R11);
        let link =
            self.link_mut(from).filter(|link| current && incarnations.mine >= link.incarnation)?;
        if incarnations.mine > link.incarnation {
            if r11 && !link.is_known() {
                return None;
            }
            link.adopt_unconfirmed(incarnations.mine);
        }
        Some(link)
    }

    fn durable(&self) -> Durable {
        Durable {
            incarnation: self.incarnation,
            requesting: self.requesting,
            initialized: self.initialized,
            places: self.places.clone(),
            lost: self.lost.clone(),
        }
    }

    fn store(&self, out: &mut Outbox<Self>) {
        out.persist(self.durable());
    }

    /// Every token is in its initial direction, unless a later place is known already.
    fn on_initialize(&mut self, from: NodeId, out: &mut Outbox<Self>) {
        if self.initialized || from != self.me && self.link(from).is_none() {
            return;
        }
        self.initialized = true;
        self.store(out);
        for link in self.links.iter().filter(|link| link.node != from) {
            out.send(link.node, TreeTokenMessage::Initialize);
        }
        self.progress(out);
    }

    fn on_crashed(&mut self, node: NodeId, out: &mut Outbox<Self>) {
        self.learn(&NodeList::from_iter([node]), out);
    }

    fn first_incarnation(setup: &Setup, graph: &Arc<Graph>) -> Self {
        let me = setup.me;
        let towards = graph.parent(me).unwrap_or(me);
        let places =
            (0..setup.k).map(|_| Place { towards, revision: Revision::default() }).collect();
        let links = graph.neighbours(me).iter().map(|&node| Link::new(node, 1)).collect();
        let durable = Durable {
            incarnation: 1,
            requesting: false,
            initialized: false,
            places,
            lost: NodeList::default(),
        };
        Self::with(setup, graph, durable, links)
    }

    fn later_incarnation(setup: &Setup, graph: &Arc<Graph>, mut durable: Durable) -> Self {
        durable.incarnation = durable.incarnation.checked_add(1).expect("2^32 incarnations");
        assert_eq!(durable.places.len(), setup.k as usize, "stored by the same system");
        let neighbours = Mended::new(graph, &durable.lost).neighbours(setup.me);
        let links = neighbours.into_iter().map(|node| Link::new(node, 0)).collect();
        // R9: as printed, the client has to request again.
        durable.requesting &= !setup.defects.has(R9);
        let mut process = Self::with(setup, graph, durable, links);
        process.turn();
        process.wonder();
        if setup.defects.has(R7)
            && !process.links.is_empty()
            && let Some(defects) = &mut process.as_printed
        {
            defects.forget(&mut process.places);
        }
        process
    }

    fn with(setup: &Setup, graph: &Arc<Graph>, durable: Durable, links: Vec<Link>) -> Self {
        let Durable { incarnation, requesting, initialized, places, lost } = durable;
        Self {
            me: setup.me,
            graph: graph.clone(),
            defects: setup.defects,
            incarnation,
            initialized,
            requesting,
            held: None,
            grants: u64::from(incarnation) << 32,
            places,
            queue: requesting.then_some(setup.me).into_iter().collect(),
            links,
            lost,
            questions: Vec::new(),
            as_printed: AsPrinted::wanted(setup.defects).then(Box::default),
        }
    }
}

impl Protocol for TreeToken {
    const NAME: &'static str = "tree-token";
    const MECHANISM: Mechanism = Mechanism::Tokens;
    type Message = TreeTokenMessage;
    type Timer = Never;
    type Durable = Durable;

    fn start(setup: &Setup, restored: Option<Durable>, out: &mut Outbox<Self>) -> Self {
        let graph = setup.graph.as_ref().expect("tree-token runs on a graph");
        assert!(graph.is_tree(), "tree-token runs on a tree");
        assert!(setup.k > 0, "k is at least 1");
        let Some(durable) = restored else {
            let mut process = Self::first_incarnation(setup, graph);
            process.store(out);
            if process.me == graph.root() {
                process.on_initialize(process.me, out);
            }
            return process;
        };
        let mut process = Self::later_incarnation(setup, graph, durable);
        process.store(out);
        process.links.iter().for_each(|link| process.send_restart(link.node, out));
        process.decide(out);
        process.progress(out);
        process
    }

    fn handle(
        &mut self,
        _now: Time,
        input: InputOf<Self>,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        use TreeTokenMessage::{Advise, Initialize, Request, Restart, Token};
        let unsupported = |what| Err(Refusal::Unsupported { protocol: Self::NAME, what });
        match input {
            Input::Deliver { from, .. } if from == self.me || from.0 >= self.graph.nodes() => {
                Err(Refusal::UnknownNode(from))
            }
            // A lost process does not count any more.
            Input::Deliver { from, .. } if self.lost.contains(from) => Ok(()),
            Input::Deliver { from, message: Initialize } => {
                self.on_initialize(from, out);
                Ok(())
            }
            Input::Deliver { from, message: Request { incarnations, asks } } => {
                self.on_request(from, incarnations, asks, out)
            }
            Input::Deliver {
                from,
                message: Token { slot, revision, incarnations, served, lost },
            } => self.on_token(from, slot, revision, incarnations, served, &lost, out),
            Input::Deliver { from, message: Restart { incarnation, statement } } => {
                self.on_restart(from, incarnation, &statement, out)
            }
            Input::Deliver { from, message: Advise { incarnations, asks, heard, statement } } => {
                self.on_advise(from, incarnations, asks, heard, &statement, out)
            }
            Input::Acquire { weight } => self.on_acquire(weight, out),
            Input::Withdraw => self.on_withdraw(out),
            Input::Release { grant } => self.on_release(grant, out),
            Input::Crashed { node, .. } if node == self.me || node.0 >= self.graph.nodes() => {
                Err(Refusal::UnknownNode(node))
            }
            Input::Crashed { node, .. } => {
                self.on_crashed(node, out);
                Ok(())
            }
            Input::Resize(_) => unsupported("a change of k"),
            Input::Reserved(_) => unsupported("slots that a log holds"),
            Input::Lease(_) => unsupported("leases"),
            Input::Applied(_) => unsupported("snapshots of a log"),
            Input::Lapse { .. } => unsupported("clients that leave without a release"),
            Input::Adopt(_) | Input::Confirm { .. } => unsupported("adoptions"),
            Input::Joined { .. } => {
                unsupported("news of who is back: it says so itself, with RESTART")
            }
            Input::Expire(never) => match never {},
        }
    }

    fn observe(&self) -> Observation {
        let phase = match (&self.held, self.requesting) {
            (Some(_), _) => Phase::Holding,
            (None, true) => Phase::Waiting,
            (None, false) => Phase::Idle,
        };
        let asked =
            self.links.iter().filter(|link| link.outstanding() > 0 && phase == Phase::Waiting);
        let used = self.held.map(|held| held.slot);
        let tokens = (0..).zip(&self.places);
        let here = tokens.filter(|(slot, place)| place.towards == self.me || used == Some(*slot));
        Observation {
            phase,
            grant: self.held.map(|held| held.grant),
            lacking: asked.map(|link| link.node).collect(),
            owing: self.queue.iter().copied().filter(|&entry| entry != self.me).collect(),
            crashed: self.lost.iter().collect(),
            tokens: here.map(|(slot, place)| place.revision.of(slot)).collect(),
            ..Observation::default()
        }
    }
}

impl Suspend for TreeToken {}
impl TransientFaults for TreeToken {}

#[cfg(test)]
mod tests;
