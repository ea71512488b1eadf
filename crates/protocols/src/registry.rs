//! The protocols by name, and how a driver obtains one.
//!
//! Drivers are generic and never name a protocol. A driver is a [`Visitor`]: [`visit`] calls it
//! back with the types of the mutex and of its detector.

#[cfg(feature = "defects")]
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use kgate_core::{Explorable, Mechanism, Protocol, Rules, Suspend, TransientFaults};

use crate::broadcast::{Direct, Sta, Tree};
use crate::defects::{self, Defect};
use crate::detect::{Heartbeat, HiAdsd, NoDetector, VCube};
use crate::gates::Gates;
use crate::home::Home;
use crate::permission::Permission;
use crate::slots::Lanes;
use crate::stabilizing::Exclusion;
use crate::stabilizing::refined::Refined;
use crate::timer_free::TimerFree;
use crate::topology::graphs::Shape;
use crate::tree_token::TreeToken;

/// The facts by which a reader chooses a protocol.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one line.
    pub title: &'static str,
    /// Dissemination of a request.
    pub broadcast: &'static str,
    /// The detector it is paired with.
    pub detector: Option<&'static str>,
    /// Whether each process of that detector exchanges messages with every other one and keeps
    /// state about each.
    pub all_to_all: bool,
    /// The crashes it tolerates.
    pub tolerates: &'static str,
    /// Messages per entry, without the detector's.
    pub messages: &'static str,
    /// Delays from request to entry when no other process requests.
    pub delays: &'static str,
    /// The publication that describes it.
    pub citation: &'static str,
    /// The numbers of its published defects.
    pub defects: &'static [&'static str],
    /// The network it runs on.
    pub network: Network,
    /// Whether its processes return from a crash with the state that they had stored.
    pub recovers: bool,
    /// Whether its processes return from a crash without state, in a new incarnation that every
    /// process learns of.
    pub returns: bool,
    /// Whether it recovers from transient faults, whatever they have left in memory and channels.
    pub heals: bool,
    /// Whether a client may request again while it holds a grant.
    pub asks_inside: bool,
    /// Whether it tolerates processes that pause and messages that are delayed without bound (its
    /// detector may not).
    pub tolerates_delay: bool,
    /// Whether it tolerates lost messages.
    pub tolerates_loss: bool,
    /// Whether it tolerates duplicated messages. All present protocols do when repaired: answers
    /// name their request, permissions and ACKs are sets, tokens and requests carry their numbers,
    /// states their clocks.
    pub tolerates_duplicates: bool,
    /// Whether it grants numbered slots: several at once, of a k that may change, with options
    /// ([`kgate_core::SlotOptions`]).
    pub slots: bool,
    /// Whether it follows the agreed log by snapshots ([`kgate_core::Input::Applied`]): the log
    /// decides the members, which of them are fit to be home, k, and the reserved slots.
    pub follows_log: bool,
    /// Whether it must know the number of crashes to tolerate beforehand.
    pub needs_crash_bound: bool,
    crashes: Crashes,
}

/// The network that a protocol runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Every process is connected to every other one.
    Complete,
    /// A tree.
    Tree,
    /// Any connected graph.
    Graph,
}

impl Network {
    /// The shape of the graph unless another one is requested; none for a complete network.
    pub fn usual_shape(self) -> Option<Shape> {
        match self {
            Self::Complete => None,
            Self::Tree => Some(Shape::Radial),
            Self::Graph => Some(Shape::Grid),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Crashes {
    /// As long as a slot is left for each live process.
    LessThanK,
    /// As long as one process is alive.
    AllButOne,
    /// None: every process must participate.
    None,
}

impl Entry {
    /// The number of crashes that leave no live process waiting for ever.
    pub fn tolerates(&self, nodes: u32, k: u32) -> u32 {
        match self.crashes {
            Crashes::LessThanK => k - 1,
            Crashes::AllButOne => nodes - 1,
            Crashes::None => 0,
        }
    }
}

impl Entry {
    /// The mechanism by which it excludes.
    pub fn mechanism(&self) -> Mechanism {
        struct MechanismOf;
        impl Visitor for MechanismOf {
            type Output = Mechanism;
            fn visit<M: MutexProtocol, D: Protocol>(self) -> Mechanism {
                M::MECHANISM
            }
        }
        visit(self, false, MechanismOf)
    }

    /// Whether it grants in the order of the requests' stamps, if k is 1. vcube-2018, Lemma 7.3,
    /// claims it for any k; that is D10.
    pub fn in_order(&self, k: u32) -> bool {
        k == 1 && self.mechanism() == Mechanism::Permissions
    }
}

const BAS: &str = "Bouillaguet, Arantes, Sens: Fault tolerant k-mutual exclusion algorithm using \
    failure detector, ISPDC 2008";
const VCUBE: &str = "Rodrigues, Duarte Jr., Arantes: A distributed k-mutual exclusion algorithm \
    based on autonomic spanning trees, JPDC 2018";
const ROBUST: &str = "Rodrigues, Duarte Jr., Arantes: Exclusao mutua distribuida e robusta para k \
    recursos compartilhados, 2012";
const RAYMOND: &str = "Raymond: A distributed algorithm for multiple entries to a critical \
    section, IPL 30, 1989";

const TIMER_FREE: &str = "Bouillaguet, Arantes, Sens: A timer-free fault tolerant k-mutual \
    exclusion algorithm, INRIA research report (inria-00394918), 2009";

const STABILIZING: &str = "Hadid, Karaata: A stabilizing l-exclusion algorithm in arbitrary rooted \
    networks, 2014";

const TREE_TOKEN: &str = "Raymond: A tree-based algorithm for distributed mutual exclusion, ACM \
    TOCS 7(1), 1989, as in Tupini, Berti: Distributed mutual exclusion, 2019";

const SLOTS: &str = "kgate: docs/internals/slots.md";

const HOME: &str = "kgate: docs/internals/home.md";

/// The "detector" of protocols that have none: an agreed log decides losses and announces them to
/// every process in one order.
pub const LOG: &str = "log";

/// The entry of a protocol that tolerates nothing, on a complete network. Every other entry states
/// what it adds, so that a forgotten line never claims that a protocol tolerates a fault.
const NO_CLAIM: Entry = Entry {
    name: "",
    title: "",
    broadcast: "",
    detector: None,
    all_to_all: false,
    tolerates: "",
    messages: "",
    delays: "",
    citation: "",
    defects: &[],
    network: Network::Complete,
    recovers: false,
    returns: false,
    heals: false,
    asks_inside: false,
    tolerates_delay: false,
    tolerates_loss: false,
    tolerates_duplicates: false,
    slots: false,
    follows_log: false,
    needs_crash_bound: false,
    crashes: Crashes::None,
};

/// Every protocol, in the order of `kgate protocols`.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "raymond",
        title: "permissions of all but k, asked for directly",
        broadcast: "direct",
        tolerates: "k-1 crashes, each costing a unit",
        messages: "2(n-1)",
        delays: "2",
        citation: RAYMOND,
        tolerates_delay: true,
        tolerates_duplicates: true,
        crashes: Crashes::LessThanK,
        ..NO_CLAIM
    },
    Entry {
        name: "bas",
        title: "raymond with a failure detector",
        broadcast: "direct",
        detector: Some("heartbeat"),
        all_to_all: true,
        tolerates: "n-1 crashes",
        messages: "2(n-1)",
        delays: "2",
        citation: BAS,
        defects: &["D4"],
        tolerates_delay: true,
        tolerates_duplicates: true,
        crashes: Crashes::AllButOne,
        ..NO_CLAIM
    },
    Entry {
        name: "vcube",
        title: "permissions asked for along trees in a virtual hypercube, ACKs back up the tree",
        broadcast: "tree",
        detector: Some("vcube"),
        tolerates: "n-1 crashes",
        messages: "3(n-1)",
        delays: "log2(n) + 1",
        citation: VCUBE,
        defects: &["D1", "D2", "D3", "D4", "D5"],
        tolerates_delay: true,
        tolerates_duplicates: true,
        crashes: Crashes::AllButOne,
        ..NO_CLAIM
    },
    Entry {
        name: "robust",
        title: "permissions asked for along trees over Hi-ADSD clusters, ACKs straight to the root",
        broadcast: "sta",
        detector: Some("hi-adsd"),
        tolerates: "n-1 crashes",
        messages: "3(n-1)",
        delays: "log2(n) + 1",
        citation: ROBUST,
        defects: &["D4", "D6", "D7", "D8", "D9"],
        tolerates_delay: true,
        tolerates_duplicates: true,
        crashes: Crashes::AllButOne,
        ..NO_CLAIM
    },
    Entry {
        name: "timer-free",
        title: "raymond whose requests and replies find crashes by themselves, without timers",
        broadcast: "direct",
        tolerates: "f < k crashes, where answers of neighbours always come among the first n-f \
            (responsiveness)",
        messages: "2(n-1)",
        delays: "2",
        citation: TIMER_FREE,
        defects: &["T1", "T2", "T3", "T4", "T7"],
        tolerates_duplicates: true,
        needs_crash_bound: true,
        crashes: Crashes::LessThanK,
        ..NO_CLAIM
    },
    Entry {
        name: "tree-token",
        title: "k numbered tokens that are asked for and passed along a tree",
        broadcast: "along the tree",
        detector: Some(LOG),
        tolerates: "any number of crashes with recovery, and n-1 permanent ones that every process \
            learns of in one order",
        messages: "2 x distance to the token",
        delays: "2 x distance to the token",
        citation: TREE_TOKEN,
        defects: &["R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11"],
        network: Network::Tree,
        recovers: true,
        asks_inside: true,
        tolerates_delay: true,
        tolerates_duplicates: true,
        crashes: Crashes::AllButOne,
        ..NO_CLAIM
    },
    Entry {
        name: "stabilizing",
        title: "waves of l tokens and a cleaning broadcast on any graph, recovering from any \
            transient fault",
        broadcast: "waves from the root",
        tolerates: "any corruption of memory and channels; no permanent crash",
        messages: "every neighbour's state, all the time",
        delays: "a wave or more",
        citation: STABILIZING,
        defects: &["C1", "C3", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C14"],
        network: Network::Graph,
        heals: true,
        tolerates_delay: true,
        tolerates_loss: true,
        tolerates_duplicates: true,
        ..NO_CLAIM
    },
    Entry {
        name: "slots",
        title: "numbered, fenced slots in the order of requests: weights, resizing, answers \
            combined on a tree",
        broadcast: "direct up to 128 processes, beyond along trees in a virtual hypercube",
        detector: Some(LOG),
        tolerates: "any number of crashes and returns that every process learns of in one order",
        messages: "2(n-1)",
        delays: "2, on the tree 2 log2(n); 0 to re-use a cached slot",
        citation: SLOTS,
        defects: &[
            "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13",
            "S15", "SP1", "SP2",
        ],
        returns: true,
        asks_inside: true,
        tolerates_delay: true,
        tolerates_loss: true,
        tolerates_duplicates: true,
        slots: true,
        crashes: Crashes::AllButOne,
        ..NO_CLAIM
    },
    Entry {
        name: "home",
        title: "numbered, fenced slots that one process per gate gives away, whichever the log \
            names: constant cost, permits that outlive their process",
        broadcast: "none: to the home of the gate",
        detector: Some(LOG),
        tolerates: "any number of crashes and returns, evictions of live processes, and false \
            suspicions, as an agreed log decides them",
        messages: "3; 0 at the home, and to re-use a cached slot",
        delays: "2; 0 at the home, and to re-use a cached slot",
        citation: HOME,
        defects: &[
            "H1", "H2", "H3", "H4A", "H4B", "H5", "H6A", "H6B", "H6C", "H7", "H8A", "H8B", "H9A",
            "H9B", "H9C", "H10", "H11A", "H11B", "H11C", "H11D", "H11E", "H11F", "H12", "H13",
            "H14", "H15", "H17", "H18", "HP2", "HP3", "HP5",
        ],
        returns: true,
        asks_inside: true,
        tolerates_delay: true,
        tolerates_loss: true,
        tolerates_duplicates: true,
        slots: true,
        follows_log: true,
        crashes: Crashes::AllButOne,
        ..NO_CLAIM
    },
];

/// Why a name is unknown; the text lists the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    /// No protocol has this name.
    #[error("unknown protocol '{0}': choose one of {1}")]
    Protocol(String, String),
    /// The protocol has no defect with this number.
    #[error("'{id}' is not a published defect of {protocol}: {known}")]
    Defect {
        /// The requested number.
        id: String,
        /// The protocol.
        protocol: &'static str,
        /// The numbers that exist.
        known: String,
    },
}

/// The protocol with this name.
pub fn entry(name: &str) -> Result<&'static Entry, UnknownName> {
    ENTRIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
        UnknownName::Protocol(name.into(), names.join(", "))
    })
}

impl Entry {
    /// The published defects of this protocol.
    pub fn published_defects(&self) -> impl Iterator<Item = &'static Defect> {
        let mine = self.defects;
        defects::all().filter(move |defect| mine.contains(&defect.id))
    }
}

/// Only for the laboratory: without the feature `defects` no switch exists.
#[cfg(feature = "defects")]
impl Entry {
    /// The switch that runs a defect of this protocol as printed.
    pub fn as_printed(&self, id: &str) -> Result<kgate_core::Defects, UnknownName> {
        self.published_defects()
            .find(|defect| defect.id.eq_ignore_ascii_case(id))
            .map(|defect| defect.switch)
            .ok_or_else(|| UnknownName::Defect {
                id: id.into(),
                protocol: self.name,
                known: self.known_defects(),
            })
    }

    fn known_defects(&self) -> String {
        if self.defects.is_empty() {
            "it has none".into()
        } else {
            format!("choose one of {}", self.defects.join(", "))
        }
    }
}

/// A mutex that every driver can run: the model checker, the simulator and a node.
pub trait MutexProtocol: Explorable + TransientFaults + Suspend {}

impl<M: Explorable + TransientFaults + Suspend> MutexProtocol for M {}

/// A driver that obtains the types of a protocol.
pub trait Visitor {
    /// The result of the visit.
    type Output;
    /// Called with the mutex and its detector.
    fn visit<M: MutexProtocol, D: Protocol>(self) -> Self::Output;
}

/// Calls the visitor with the types of `entry`: with its own detector, or with none where the
/// driver knows of crashes by itself.
pub fn visit<V: Visitor>(entry: &Entry, own_detector: bool, visitor: V) -> V::Output {
    match (entry.name, own_detector) {
        ("slots", _) => visitor.visit::<Lanes, NoDetector>(),
        ("home", _) => visitor.visit::<Home, NoDetector>(),
        ("tree-token", _) => visitor.visit::<TreeToken, NoDetector>(),
        ("stabilizing", _) => visitor.visit::<Refined<Exclusion>, NoDetector>(),
        ("timer-free", _) => visitor.visit::<TimerFree, NoDetector>(),
        ("raymond", _) | ("bas", false) => visitor.visit::<Permission<Direct>, NoDetector>(),
        ("bas", true) => visitor.visit::<Permission<Direct>, Heartbeat>(),
        ("vcube", true) => visitor.visit::<Permission<Tree>, VCube>(),
        ("vcube", false) => visitor.visit::<Permission<Tree>, NoDetector>(),
        ("robust", true) => visitor.visit::<Permission<Sta>, HiAdsd>(),
        ("robust", false) => visitor.visit::<Permission<Sta>, NoDetector>(),
        (name, _) => unreachable!("'{name}' is registered without its types"),
    }
}

/// Calls the visitor with the processes of many gates, of the protocol that follows the agreed log:
/// each process has state only of the gates that it uses.
pub fn visit_gates<V: Visitor>(visitor: V) -> V::Output {
    visitor.visit::<Gates<Home>, NoDetector>()
}

/// A driver of the state model that obtains the rules of a protocol.
pub trait RulesVisitor {
    /// The result of the visit.
    type Output;
    /// Called with the rules.
    fn visit<R: Rules>(self) -> Self::Output;
}

/// Calls the visitor with the rules of `entry`; `None` if it is not an algorithm of the state
/// model.
pub fn visit_rules<V: RulesVisitor>(entry: &Entry, visitor: V) -> Option<V::Output> {
    (entry.name == "stabilizing").then(|| visitor.visit::<Exclusion>())
}
