//! One test a rule, then random orders of commands against what must always hold.

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Fence, Incarnation, NodeId, Span};
use proptest::prelude::*;

use super::*;
use crate::membership::{LeaseTerms, StoreId};

const TERMS: LeaseTerms =
    LeaseTerms { lease: Span(4_000_000_000), clock_error: 10_000, margin: Span(50_000_000) };

/// A log of its own: gives the indices.
#[derive(Default)]
struct Book {
    state: State,
    index: u64,
}

impl Book {
    fn founded() -> Self {
        let mut book = Self::default();
        book.state.vote(Voters::new(0, (0..3).map(NodeId)), BTreeSet::new());
        book.apply(found(1, 3)).unwrap();
        book
    }

    fn apply(&mut self, command: Command) -> Result<Applied, Rejected> {
        self.index += 1;
        self.state.apply(self.index, command).0
    }

    fn changes(&mut self, command: Command) -> Vec<Change> {
        self.index += 1;
        let (answer, changes) = self.state.apply(self.index, command);
        answer.expect("it is not void");
        changes
    }
}

fn found(cluster: u64, nodes: u32) -> Command {
    let listed = |node| DirectoryEntry { name: format!("n{node}"), ..DirectoryEntry::default() };
    let nodes = (0..nodes).map(|node| (NodeId(node), listed(node))).collect();
    Command::Bootstrap {
        cluster: ClusterId(cluster),
        name: "fleet".to_owned(),
        nodes,
        terms: TERMS,
    }
}

fn add(node: u32, incarnation: u32, start: u64) -> Command {
    let (node, incarnation, store) =
        (NodeId(node), Incarnation(incarnation), StoreId(u64::from(node)));
    Command::Add { node, incarnation, store, start, terms: TERMS, address: "here".to_owned() }
}

fn suspect(node: u32, incarnation: u32) -> Command {
    Command::Suspect { node: NodeId(node), incarnation: Incarnation(incarnation) }
}

fn evict(node: u32, incarnation: u32, at: u64, voters_at: u64, waited: Span) -> Command {
    Command::Evict {
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        at,
        voters_at,
        waited,
    }
}

fn create(name: &str, k: u32, author: &str) -> Command {
    Command::CreateGate {
        name: name.to_owned(),
        k,
        protocol: "slots".to_owned(),
        lanes: 1,
        policy: Policy::Hold,
        weight_max: None,
        author: author.to_owned(),
    }
}

fn set(name: &str, k: u32) -> Command {
    Command::SetGate {
        name: name.to_owned(),
        k: Some(k),
        policy: None,
        version: None,
        author: "op".to_owned(),
    }
}

fn hold(gate: u32, slots: &[u32], fence: u128, by: (u32, u32)) -> Command {
    Command::HoldPermit {
        gate: GateId(gate),
        slots: slots.to_vec(),
        fence: Fence(fence),
        by: (NodeId(by.0), Incarnation(by.1)),
        holder: "job".to_owned(),
        secret: [u8::try_from(fence % 250).expect("small"); 32],
        ttl: Some(Span::UNIT),
    }
}

/// The first founding wins; the same from another node is told the id; another list is refused;
/// nothing goes before it.
#[test]
fn the_first_founding_wins() {
    let mut book = Book::default();
    assert_eq!(book.apply(create("a", 1, "x")), Err(Rejected::NotBootstrapped));
    assert_eq!(book.apply(found(5, 3)), Ok(Applied::Bootstrapped(ClusterId(5))));
    assert_eq!(book.apply(found(6, 3)), Ok(Applied::Bootstrapped(ClusterId(5))));
    assert!(
        matches!(book.apply(found(6, 2)), Err(Rejected::Refused(why)) if why.contains("p0, p1, p2"))
    );
}

/// R2: a second incarnation waits for the end of the first; the same start again is the same; an
/// old incarnation never returns.
#[test]
fn one_incarnation_at_a_time() {
    let mut book = Book::founded();
    let at = match book.apply(add(0, 1, 11)) {
        Ok(Applied::Added(at)) => at,
        other => panic!("{other:?}"),
    };
    assert_eq!(book.apply(add(0, 1, 11)), Ok(Applied::Added(at)));
    let occupied = Err(Rejected::AlreadyMember { node: NodeId(0), incarnation: Incarnation(1) });
    assert_eq!(book.apply(add(0, 2, 12)), occupied);
    assert_eq!(book.apply(add(0, 1, 12)), occupied, "a second daemon of the same incarnation");
    assert_eq!(
        book.apply(Command::Leave { node: NodeId(0), incarnation: Incarnation(1) }),
        Ok(Applied::Gone)
    );
    assert!(matches!(book.apply(add(0, 1, 11)), Err(Rejected::Refused(_))), "gone for good");
    assert!(matches!(book.apply(add(0, 2, 12)), Ok(Applied::Added(_))));
    assert!(
        matches!(book.apply(add(9, 1, 1)), Err(Rejected::Refused(why)) if why.contains("directory"))
    );
}

/// R4: a number belongs to one store, and is not given again.
#[test]
fn a_number_is_of_one_store() {
    let mut book = Book::founded();
    book.apply(add(0, 1, 1)).unwrap();
    book.apply(Command::Leave { node: NodeId(0), incarnation: Incarnation(1) }).unwrap();
    let stranger = Command::Add {
        node: NodeId(0),
        incarnation: Incarnation(2),
        store: StoreId(99),
        start: 2,
        terms: TERMS,
        address: String::new(),
    };
    assert_eq!(book.apply(stranger), Err(Rejected::StoreMismatch(NodeId(0))));
    let admit = |node: Option<u32>, name: &str, store| Command::RegisterNode {
        node: node.map(NodeId),
        name: name.to_owned(),
        address: "there".to_owned(),
        store: Some(StoreId(store)),
    };
    assert_eq!(book.apply(admit(None, "new", 50)), Ok(Applied::Registered(NodeId(3))));
    assert_eq!(book.apply(admit(None, "new", 50)), Ok(Applied::Registered(NodeId(3))), "again");
    assert_eq!(book.apply(admit(None, "new", 51)), Err(Rejected::StoreMismatch(NodeId(3))));
    assert!(
        matches!(book.apply(Command::RemoveNode { node: NodeId(1) }), Err(Rejected::Refused(why)) if why.contains("votes"))
    );
    assert_eq!(book.apply(Command::RemoveNode { node: NodeId(3) }), Ok(Applied::Removed));
    assert!(
        matches!(book.apply(admit(Some(3), "new", 51)), Err(Rejected::Refused(why)) if why.contains("p4 is free"))
    );
    assert_eq!(book.apply(admit(None, "new", 51)), Ok(Applied::Registered(NodeId(4))));
}

/// E4: an eviction has effect only for exactly this suspicion, exactly these voters, and after W.
/// E5: not after an un-suspicion.
#[test]
fn an_eviction_is_bound() {
    let mut book = Book::founded();
    book.apply(add(1, 1, 1)).unwrap();
    let Ok(Applied::Suspected(at)) = book.apply(suspect(1, 1)) else { panic!("it is a member") };
    assert_eq!(book.apply(suspect(1, 1)), Ok(Applied::Suspected(at)), "the first suspicion stays");
    let wait = TERMS.wait();
    let void = |answer: Result<Applied, Rejected>| assert!(answer.is_err(), "{answer:?}");
    void(book.apply(evict(1, 1, at, 0, Span(wait.0 - 1))));
    void(book.apply(evict(1, 1, at + 1, 0, wait)));
    void(book.apply(evict(1, 2, at, 0, wait)));
    let unsuspect = |at| Command::Unsuspect { node: NodeId(1), incarnation: Incarnation(1), at };
    void(book.apply(unsuspect(at + 1)));
    assert_eq!(book.apply(unsuspect(at)), Ok(Applied::Unsuspected));
    void(book.apply(evict(1, 1, at, 0, wait)));
    let Ok(Applied::Suspected(again)) = book.apply(suspect(1, 1)) else { panic!("it is a member") };
    void(book.apply(evict(1, 1, at, 0, wait)));
    book.index += 1;
    book.state.vote(Voters::new(book.index, (2..5).map(NodeId)), BTreeSet::new());
    void(book.apply(evict(1, 1, again, 0, wait)));
    let voters_at = book.state.cluster_state().voters.at;
    assert_eq!(book.apply(evict(1, 1, again, voters_at, wait)), Ok(Applied::Gone));
    void(book.apply(unsuspect(again)));
    void(book.apply(evict(1, 1, again, voters_at, wait)));
}

/// A listener more is no change of voters: an eviction under way stays valid (rule E3).
#[test]
fn listeners_do_not_change_voters() {
    let mut book = Book::founded();
    book.index += 1;
    let same = Voters::new(book.index, (0..3).map(NodeId));
    assert_eq!(book.state.vote(same, BTreeSet::from([NodeId(7)])), []);
    assert_eq!(book.state.cluster_state().voters.at, 0);
    assert_eq!(book.state.cluster_state().learners.len(), 1);
}

/// The first k wins, the other is told both values and authors; the same is no conflict; a gate
/// made again starts above its past.
#[test]
fn gates() {
    let mut book = Book::founded();
    let Ok(Applied::Gate { gate, version }) = book.apply(create("build", 2, "ann")) else {
        panic!("it is new")
    };
    assert_eq!(book.apply(create("build", 2, "bob")), Ok(Applied::Gate { gate, version }));
    let conflict = book.apply(create("build", 3, "bob")).unwrap_err();
    assert_eq!(conflict.to_string(), "gate build has k = 2, set by ann; bob asks for k = 3");
    for name in ["", "a b", &"x".repeat(129)] {
        assert!(
            matches!(book.apply(create(name, 1, "ann")), Err(Rejected::Refused(_))),
            "{name:?}"
        );
    }
    assert!(
        book.apply(create("zero", 0, "ann")).is_err()
            && book.apply(create("big", 1 << 17, "ann")).is_err()
    );
    let delete = |version| Command::DeleteGate { name: "build".to_owned(), version };
    assert!(book.apply(delete(version)).is_err(), "k is not 0");
    let Ok(Applied::Gate { version: drained, .. }) = book.apply(set("build", 0)) else {
        panic!("it is there")
    };
    assert!(book.apply(delete(version)).is_err(), "it was changed since");
    assert_eq!(book.apply(delete(drained)), Ok(Applied::Deleted));
    let Ok(Applied::Gate { gate: later, version: made }) = book.apply(create("build", 2, "bob"))
    else {
        panic!("it is new")
    };
    assert!(later > gate && made > drained);
}

/// Permits of the log: void from who is no member, for taken slots, beyond k; freed by their
/// secret, or by an end that nobody renewed.
#[test]
fn permits_of_the_log() {
    let mut book = Book::founded();
    book.apply(add(0, 1, 1)).unwrap();
    book.apply(create("build", 4, "ann")).unwrap();
    let Ok(Applied::Held(permit)) = book.apply(hold(1, &[0, 2], 10, (0, 1))) else {
        panic!("it is free")
    };
    assert_eq!(book.apply(hold(1, &[0, 2], 10, (0, 1))), Ok(Applied::Held(permit)), "again");
    assert!(
        matches!(book.apply(hold(1, &[2], 11, (0, 1))), Err(Rejected::Outdated(why)) if why.contains("slot 2"))
    );
    assert!(book.apply(hold(1, &[4], 12, (0, 1))).is_err(), "beyond k");
    assert!(matches!(book.apply(hold(1, &[1], 13, (0, 2))), Err(Rejected::NotMember { .. })));
    assert!(
        book.apply(hold(1, &[], 14, (0, 1))).is_err()
            && book.apply(hold(2, &[1], 15, (0, 1))).is_err()
    );
    let (wrong, right) = ([1; 32], [10; 32]);
    assert!(book.apply(Command::ReleasePermit { permit, secret: wrong, renewals: None }).is_err());
    assert_eq!(book.apply(Command::RenewPermit { permit, secret: right }), Ok(Applied::Renewed(1)));
    assert!(book.apply(Command::ExpirePermit { permit, renewals: 0 }).is_err(), "it was renewed");
    // It outlives its node.
    book.apply(Command::Leave { node: NodeId(0), incarnation: Incarnation(1) }).unwrap();
    assert_eq!(book.state.cluster_state().held_slots(GateId(1)), BTreeSet::from([0, 2]));
    book.apply(set("build", 0)).unwrap();
    let version = book.state.cluster_state().gate("build").unwrap().version;
    let delete = Command::DeleteGate { name: "build".to_owned(), version };
    assert!(
        matches!(book.apply(delete.clone()), Err(Rejected::Refused(why)) if why.contains("held"))
    );
    assert_eq!(book.apply(Command::ExpirePermit { permit, renewals: 1 }), Ok(Applied::Freed));
    assert_eq!(
        book.apply(Command::ReleasePermit { permit, secret: right, renewals: None }),
        Err(Rejected::PermitNotHeld(permit))
    );
    assert_eq!(book.apply(delete), Ok(Applied::Deleted));
}

/// Fences are not remembered without bound: those from before all members began make room, and
/// beyond that nothing more is held.
#[test]
fn fences_have_a_bound() {
    let mut book = Book::founded();
    book.apply(add(0, 1, 1)).unwrap();
    book.apply(create("build", 4, "ann")).unwrap();
    let begun = book.state.cluster_state().directory[&NodeId(0)].last.unwrap().at;
    let view = |view: u64| Fence(u128::from(view) << 96);
    let slots = 0..u32::try_from(bounds::FENCES).unwrap();
    let half = |slot: u32| view(if slot.is_multiple_of(2) { begun - 1 } else { begun });
    book.state.fences = slots.clone().map(|slot| ((GateId(7), slot), half(slot))).collect();
    book.apply(hold(1, &[0], view(begun).0 + 1, (0, 1))).unwrap();
    assert_eq!(
        book.state.fences.len(),
        bounds::FENCES / 2 + 1,
        "what nobody can propose any more is forgotten"
    );
    book.state.fences = slots.map(|slot| ((GateId(7), slot), view(begun))).collect();
    let refused = book.apply(hold(1, &[1], view(begun).0 + 2, (0, 1)));
    assert!(matches!(refused, Err(Rejected::Refused(why)) if why.contains("fewer slots")));
}

/// A proposal that arrives a second time does not bring back what was given back; and one holder
/// has one permit, whichever nodes it has asked.
#[test]
fn a_permit_is_held_once() {
    let mut book = Book::founded();
    book.apply(add(0, 1, 1)).unwrap();
    book.apply(add(1, 1, 2)).unwrap();
    book.apply(create("build", 2, "ann")).unwrap();
    let first = hold(1, &[0], 10, (0, 1));
    let Ok(Applied::Held(permit)) = book.apply(first.clone()) else { panic!("it is free") };
    let Command::HoldPermit { gate, holder, secret, ttl, .. } = first.clone() else {
        unreachable!()
    };
    let by = (NodeId(1), Incarnation(1));
    let elsewhere =
        Command::HoldPermit { gate, slots: vec![1], fence: Fence(11), by, holder, secret, ttl };
    assert_eq!(book.apply(elsewhere), Ok(Applied::Held(permit)), "the same holder");
    assert_eq!(
        book.apply(Command::ReleasePermit { permit, secret, renewals: None }),
        Ok(Applied::Freed)
    );
    assert!(
        matches!(book.apply(first), Err(Rejected::Outdated(why)) if why.contains("later fence"))
    );
    assert!(
        matches!(book.apply(hold(1, &[0], 12, (0, 1))), Ok(Applied::Held(later)) if later != permit)
    );
}

/// Fences: the view of a gate is the last entry that changed the members or that gate, not one that
/// changed another gate or a permit.
#[test]
fn views() {
    let mut book = Book::founded();
    book.apply(create("a", 2, "ann")).unwrap();
    book.apply(create("b", 2, "ann")).unwrap();
    let view = |book: &Book, name| {
        book.state.cluster_state().view_of(book.state.cluster_state().gate(name).unwrap())
    };
    let before = view(&book, "a");
    book.apply(set("b", 3)).unwrap();
    assert_eq!((view(&book, "a"), view(&book, "b")), (before, book.index));
    let changes = book.changes(add(2, 1, 1));
    let at = book.index;
    assert!(matches!(changes.last(), Some(Change::Membership { at: told, .. }) if *told == at));
    assert_eq!((view(&book, "a"), view(&book, "b")), (at, at));
    book.apply(suspect(2, 1)).unwrap();
    book.apply(hold(1, &[0], 1, (2, 1))).unwrap();
    assert_eq!(view(&book, "a"), at, "a suspicion changes no member");
}

fn any_command() -> impl Strategy<Value = Command> {
    let (node, incarnation, small) = (0..4_u32, 1..4_u32, 0..5_u32);
    let name = prop::sample::select(vec!["a", "b"]);
    prop_oneof![
        4 => (node.clone(), incarnation.clone(), 0..3_u64).prop_map(|(node, incarnation, start)| add(node, incarnation, start)),
        1 => (node.clone(), incarnation.clone()).prop_map(|(node, incarnation)| suspect(node, incarnation)),
        1 => (node.clone(), incarnation.clone())
            .prop_map(|(node, incarnation)| Command::Leave { node: NodeId(node), incarnation: Incarnation(incarnation) }),
        1 => (node.clone(), incarnation.clone(), 1..60_u64).prop_map(|(node, incarnation, at)| Command::Unsuspect {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            at
        }),
        1 => (node.clone(), incarnation.clone(), 1..60_u64).prop_map(|(node, incarnation, at)| evict(
            node,
            incarnation,
            at,
            0,
            TERMS.wait()
        )),
        1 => (node.clone(), incarnation.clone(), any::<bool>()).prop_map(|(node, incarnation, for_good)| Command::ForceEvict {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            author: "op".to_owned(),
            for_good
        }),
        1 => node.clone().prop_map(|node| Command::RemoveNode { node: NodeId(node) }),
        1 => (node.clone(), 0..6_u64).prop_map(|(node, store)| Command::RegisterNode {
            node: None,
            name: format!("n{node}"),
            address: "x".to_owned(),
            store: (store > 0).then_some(StoreId(store))
        }),
        1 => (name.clone(), small.clone()).prop_map(|(name, k)| create(name, k, "ann")),
        1 => (name.clone(), small.clone()).prop_map(|(name, k)| set(name, k)),
        1 => (name, 1..60_u64).prop_map(|(name, version)| Command::DeleteGate { name: name.to_owned(), version }),
        4 => (1..3_u32, prop::collection::vec(small, 1..3), 0..40_u128, (node, incarnation))
            .prop_map(|(gate, slots, fence, by)| hold(gate, &slots, fence, by)),
        1 => (1..60_u64)
            .prop_map(|permit| Command::ReleasePermit { permit: PermitId(permit), secret: [7; 32], renewals: None }),
        1 => (1..60_u64, 0..2_u64)
            .prop_map(|(permit, renewals)| Command::ExpirePermit { permit: PermitId(permit), renewals }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the order: incarnations of a node only grow and never overlap, held slots are
    /// disjoint, versions and views are indices that were, what is void changes nothing; a second
    /// state that hears only the changes, or only the difference, comes to the same members; and
    /// bytes and back is the same.
    #[test]
    fn any_order(commands in prop::collection::vec(any_command(), 1..60), cut in 0..60_usize) {
        let mut book = Book::founded();
        let mut told = book.state.cluster_state().clone();
        let mut away = told.clone();
        let mut incarnations: BTreeMap<NodeId, Incarnation> = BTreeMap::new();
        let mut stores: BTreeMap<NodeId, StoreId> = BTreeMap::new();
        for (step, command) in commands.into_iter().enumerate() {
            if step == cut {
                away = book.state.cluster_state().clone();
            }
            let before = book.state.clone();
            book.index += 1;
            let (answer, changes) = book.state.apply(book.index, command);
            if answer.is_err() {
                let mut same = before;
                same.pass(book.index);
                prop_assert_eq!(&same, &book.state);
            }
            for change in &changes {
                if let Change::Membership { at, change: crate::membership::MembershipChange::Added(node, incarnation, _) } = change {
                    prop_assert_eq!(*at, book.index);
                    prop_assert!(incarnations.insert(*node, *incarnation).is_none_or(|last| last < *incarnation));
                    prop_assert!(told.membership.get(*node).is_none(), "two incarnations at once");
                }
                hear(&mut told, change);
            }
            let cluster_state = book.state.cluster_state();
            prop_assert_eq!(&told.membership, &cluster_state.membership);
            prop_assert_eq!(&told.gates, &cluster_state.gates);
            prop_assert_eq!(&told.permits, &cluster_state.permits);
            for (node, listed) in &cluster_state.directory {
                if let Some(store) = listed.store {
                    prop_assert_eq!(*stores.entry(*node).or_insert(store), store, "a number has one store");
                }
            }
            for gate in cluster_state.gates.keys() {
                let held: Vec<u32> = cluster_state.permits.values().filter(|it| it.gate == *gate).flat_map(|it| it.slots.clone()).collect();
                prop_assert_eq!(held.len(), cluster_state.held_slots(*gate).len(), "a slot is held once");
            }
            prop_assert!(cluster_state.permits.values().all(|it| cluster_state.gates.contains_key(&it.gate)));
            prop_assert!(cluster_state.gates.values().all(|it| it.made <= it.version && it.version <= book.index));
            prop_assert!(cluster_state.view <= book.index && cluster_state.applied == book.index);
        }
        for change in book.state.changes_since(&away) {
            hear(&mut away, &change);
        }
        prop_assert_eq!(&away.membership, &told.membership);
        prop_assert_eq!(&away.gates, &told.gates);
        prop_assert_eq!(&away.permits, &told.permits);
        let bytes = postcard::to_stdvec(&book.state).unwrap();
        prop_assert_eq!(postcard::from_bytes::<State>(&bytes).unwrap(), book.state);
    }
}

/// A node that only hears of changes.
fn hear(told: &mut ClusterState, change: &Change) {
    match change {
        Change::Bootstrapped(_)
        | Change::DirectoryUpdated(..)
        | Change::DirectoryRemoved(_)
        | Change::Voters(_) => {}
        Change::Membership { change, .. } => told.membership.apply(*change),
        Change::GateCreated(gate) | Change::GateChanged(gate) => {
            drop(told.gates.insert(gate.id, gate.clone()))
        }
        Change::GateDeleted(gate, _) => drop(told.gates.remove(gate)),
        Change::PermitHeld(id, permit) => drop(told.permits.insert(*id, permit.clone())),
        Change::PermitRenewed(id, renewals) => {
            told.permits.get_mut(id).expect("it is held").renewals = *renewals
        }
        Change::PermitFreed(id, ..) => drop(told.permits.remove(id)),
    }
}

/// E5, E6: who is forced_eviction by an operator cannot clear itself, and is evicted as late as
/// anybody; a later incarnation may come, unless it is for good.
#[test]
fn the_condemned_stay_suspected() {
    let mut book = Book::founded();
    let condemn = |incarnation, for_good| Command::ForceEvict {
        node: NodeId(1),
        incarnation: Incarnation(incarnation),
        author: "op".to_owned(),
        for_good,
    };
    assert!(matches!(book.apply(condemn(1, false)), Err(Rejected::NotMember { .. })));
    book.apply(add(1, 1, 1)).unwrap();
    let Ok(Applied::Suspected(at)) = book.apply(condemn(1, false)) else {
        panic!("it is a member")
    };
    assert_eq!(book.apply(condemn(1, false)), Ok(Applied::Suspected(at)), "again");
    let unsuspect = Command::Unsuspect { node: NodeId(1), incarnation: Incarnation(1), at };
    assert!(
        matches!(book.apply(unsuspect), Err(Rejected::Refused(why)) if why.contains("evicted by op"))
    );
    let voters_at = book.state.cluster_state().voters.at;
    assert!(
        book.apply(evict(1, 1, at, voters_at, Span(TERMS.wait().0 - 1))).is_err(),
        "never sooner than W"
    );
    assert_eq!(book.apply(evict(1, 1, at, voters_at, TERMS.wait())), Ok(Applied::Gone));
    book.apply(add(1, 2, 2)).unwrap();
    assert_eq!(
        book.state.cluster_state().directory[&NodeId(1)].forced_eviction,
        None,
        "the later incarnation is not forced_eviction"
    );
    let Ok(Applied::Suspected(at)) = book.apply(condemn(2, true)) else { panic!("it is a member") };
    assert_eq!(book.apply(evict(1, 2, at, voters_at, TERMS.wait())), Ok(Applied::Gone));
    assert_eq!(
        book.apply(add(1, 3, 3)),
        Err(Rejected::Removed { node: NodeId(1), author: "op".to_owned() })
    );
}

/// A node without a store yet is admitted once, however often that is said; the first store that
/// takes part is its own (R4).
#[test]
fn admitted_before_it_has_a_store() {
    let mut book = Book::founded();
    let admit = |address: &str| Command::RegisterNode {
        node: None,
        name: "new".to_owned(),
        address: address.to_owned(),
        store: None,
    };
    let add = |store, incarnation| Command::Add {
        node: NodeId(3),
        incarnation: Incarnation(incarnation),
        store: StoreId(store),
        start: 1,
        terms: TERMS,
        address: "there".to_owned(),
    };
    assert_eq!(book.apply(admit("there")), Ok(Applied::Registered(NodeId(3))));
    assert_eq!(book.apply(admit("there")), Ok(Applied::Registered(NodeId(3))), "again");
    assert!(book.apply(admit("elsewhere")).is_err());
    book.apply(add(50, 1)).unwrap();
    book.apply(Command::Leave { node: NodeId(3), incarnation: Incarnation(1) }).unwrap();
    assert_eq!(book.apply(add(51, 2)), Err(Rejected::StoreMismatch(NodeId(3))));
}

/// Two operators change a gate at once: the second is told both values and who set them; said twice
/// is said once.
#[test]
fn a_change_of_k_is_compare_and_set() {
    let mut book = Book::founded();
    let Ok(Applied::Gate { version, .. }) = book.apply(create("gpu", 3, "ann")) else {
        panic!("it is new")
    };
    let set = |k, author: &str| Command::SetGate {
        name: "gpu".to_owned(),
        k: Some(k),
        policy: None,
        version: Some(version),
        author: author.to_owned(),
    };
    let first = book.apply(set(5, "bob"));
    assert!(matches!(first, Ok(Applied::Gate { .. })), "{first:?}");
    assert_eq!(book.apply(set(5, "bob")), first, "again");
    let text = book.apply(set(4, "eve")).unwrap_err().to_string();
    assert_eq!(text, "gate gpu has k = 5, set by bob; eve asks for k = 4");
}
