//! One test per rule, then random sequences of commands against the invariants of the state.

mod slots;

use std::collections::{BTreeMap, BTreeSet};

use kgate_core::{Fence, Incarnation, NodeId, Span};
use proptest::prelude::*;

use super::*;
use crate::membership::{Eviction, LeaseTerms, StoreId};

const TERMS: LeaseTerms =
    LeaseTerms { lease: Span(4_000_000_000), clock_error: 10_000, margin: Span(50_000_000) };

/// A state, and the index of its last entry.
#[derive(Default)]
struct TestLog {
    state: State,
    index: u64,
}

impl TestLog {
    fn bootstrapped() -> Self {
        let mut log = Self::default();
        log.state.set_voters(Voters::new(0, (0..3).map(NodeId)), BTreeSet::new());
        log.apply(bootstrap(1, 3)).unwrap();
        log
    }

    fn apply(&mut self, command: Command) -> Result<Applied, Rejected> {
        self.index += 1;
        self.state.apply(self.index, command).0
    }

    fn changes(&mut self, command: Command) -> Vec<Change> {
        self.index += 1;
        let (answer, changes) = self.state.apply(self.index, command);
        answer.expect("it is applied");
        changes
    }
}

fn bootstrap(cluster: u64, nodes: u32) -> Command {
    let entry = |node| DirectoryEntry { name: format!("n{node}"), ..DirectoryEntry::default() };
    let nodes = (0..nodes).map(|node| (NodeId(node), entry(node))).collect();
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
    let (node, incarnation) = (NodeId(node), Incarnation(incarnation));
    Command::Evict(Eviction { node, incarnation, at, voters_at, waited })
}

fn create(name: &str, k: u32, author: &str) -> Command {
    Command::CreateGate {
        name: name.to_owned(),
        slots: k.into(),
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
        source: None,
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

/// The first bootstrap wins. The same from another node gets the id, another list of nodes is
/// rejected, and no other command goes before it.
#[test]
fn the_first_bootstrap_wins() {
    let mut log = TestLog::default();
    assert_eq!(log.apply(create("a", 1, "x")), Err(Rejected::NotBootstrapped));
    assert_eq!(log.apply(bootstrap(5, 3)), Ok(Applied::Bootstrapped(ClusterId(5))));
    assert_eq!(log.apply(bootstrap(6, 3)), Ok(Applied::Bootstrapped(ClusterId(5))));
    let nodes = |count| (0..count).map(NodeId).collect();
    let other = Rejected::OtherCluster {
        name: "fleet".to_owned(),
        initial_members: nodes(3),
        wanted_name: "fleet".to_owned(),
        wanted_members: nodes(2),
    };
    assert_eq!(log.apply(bootstrap(6, 2)), Err(other));
}

/// R2: a second incarnation waits until the first is gone. The same start may propose again. An
/// incarnation that is gone never returns.
#[test]
fn one_incarnation_at_a_time() {
    let mut log = TestLog::bootstrapped();
    let at = match log.apply(add(0, 1, 11)) {
        Ok(Applied::Added(at)) => at,
        other => panic!("{other:?}"),
    };
    assert_eq!(log.apply(add(0, 1, 11)), Ok(Applied::Added(at)));
    let occupied = Err(Rejected::AlreadyMember { node: NodeId(0), incarnation: Incarnation(1) });
    assert_eq!(log.apply(add(0, 2, 12)), occupied);
    assert_eq!(log.apply(add(0, 1, 12)), occupied, "a second process of the same incarnation");
    assert_eq!(
        log.apply(Command::Leave { node: NodeId(0), incarnation: Incarnation(1) }),
        Ok(Applied::Gone)
    );
    let (last, given) = (Incarnation(1), Incarnation(1));
    let stale = Rejected::StaleIncarnation { node: NodeId(0), last, given };
    assert_eq!(log.apply(add(0, 1, 11)), Err(stale), "gone for good");
    assert!(matches!(log.apply(add(0, 2, 12)), Ok(Applied::Added(_))));
    assert_eq!(log.apply(add(9, 1, 1)), Err(Rejected::NotRegistered(NodeId(9))));
}

/// R4: a number belongs to one store, and is never used again.
#[test]
fn a_number_belongs_to_one_store() {
    let mut log = TestLog::bootstrapped();
    log.apply(add(0, 1, 1)).unwrap();
    log.apply(Command::Leave { node: NodeId(0), incarnation: Incarnation(1) }).unwrap();
    let other_store = Command::Add {
        node: NodeId(0),
        incarnation: Incarnation(2),
        store: StoreId(99),
        start: 2,
        terms: TERMS,
        address: String::new(),
    };
    assert_eq!(log.apply(other_store), Err(Rejected::StoreMismatch(NodeId(0))));
    let register = |node: Option<u32>, name: &str, store| Command::RegisterNode {
        node: node.map(NodeId),
        name: name.to_owned(),
        address: "there".to_owned(),
        store: Some(StoreId(store)),
    };
    assert_eq!(log.apply(register(None, "new", 50)), Ok(Applied::Registered(NodeId(3))));
    assert_eq!(log.apply(register(None, "new", 50)), Ok(Applied::Registered(NodeId(3))), "again");
    assert_eq!(log.apply(register(None, "new", 51)), Err(Rejected::StoreMismatch(NodeId(3))));
    let remove = |node| Command::RemoveNode { node: NodeId(node) };
    assert_eq!(log.apply(remove(1)), Err(Rejected::StillVoter(NodeId(1))));
    assert_eq!(log.apply(remove(3)), Ok(Applied::Removed));
    let taken = Rejected::NumberTaken { node: NodeId(3), next: NodeId(4) };
    assert_eq!(log.apply(register(Some(3), "new", 51)), Err(taken));
    assert_eq!(log.apply(register(None, "new", 51)), Ok(Applied::Registered(NodeId(4))));
}

/// E4: an eviction has effect only for exactly this suspicion, with exactly these voters, and after
/// W. E5: it has none after the suspicion was cleared.
#[test]
fn an_eviction_is_compare_and_set() {
    let mut log = TestLog::bootstrapped();
    log.apply(add(1, 1, 1)).unwrap();
    let Ok(Applied::Suspected(at)) = log.apply(suspect(1, 1)) else {
        unreachable!("it is a member")
    };
    assert_eq!(log.apply(suspect(1, 1)), Ok(Applied::Suspected(at)), "the first suspicion stays");
    let wait = TERMS.wait();
    let rejected = |answer: Result<Applied, Rejected>| assert!(answer.is_err(), "{answer:?}");
    rejected(log.apply(evict(1, 1, at, 0, Span(wait.0 - 1))));
    rejected(log.apply(evict(1, 1, at + 1, 0, wait)));
    rejected(log.apply(evict(1, 2, at, 0, wait)));
    let unsuspect = |at| Command::Unsuspect { node: NodeId(1), incarnation: Incarnation(1), at };
    rejected(log.apply(unsuspect(at + 1)));
    assert_eq!(log.apply(unsuspect(at)), Ok(Applied::Unsuspected));
    rejected(log.apply(evict(1, 1, at, 0, wait)));
    let Ok(Applied::Suspected(again)) = log.apply(suspect(1, 1)) else {
        unreachable!("it is a member")
    };
    rejected(log.apply(evict(1, 1, at, 0, wait)));
    log.index += 1;
    log.state.set_voters(Voters::new(log.index, (2..5).map(NodeId)), BTreeSet::new());
    rejected(log.apply(evict(1, 1, again, 0, wait)));
    let voters_at = log.state.cluster_state().voters.at;
    assert_eq!(log.apply(evict(1, 1, again, voters_at, wait)), Ok(Applied::Gone));
    rejected(log.apply(unsuspect(again)));
    rejected(log.apply(evict(1, 1, again, voters_at, wait)));
}

/// E3: a new learner is no change of voters, so an eviction in progress stays valid.
#[test]
fn learners_do_not_change_voters() {
    let mut log = TestLog::bootstrapped();
    log.index += 1;
    let same = Voters::new(log.index, (0..3).map(NodeId));
    assert_eq!(log.state.set_voters(same, BTreeSet::from([NodeId(7)])), []);
    assert_eq!(log.state.cluster_state().voters.at, 0);
    assert_eq!(log.state.cluster_state().learners.len(), 1);
}

/// The first k wins; another proposer gets both values and authors, and the same k is no conflict.
/// A gate that is created again has a new number and a later version.
#[test]
fn the_first_k_wins() {
    let mut log = TestLog::bootstrapped();
    let Ok(Applied::Gate { gate, version }) = log.apply(create("build", 2, "ann")) else {
        unreachable!("it is new")
    };
    assert_eq!(log.apply(create("build", 2, "bob")), Ok(Applied::Gate { gate, version }));
    let conflict = log.apply(create("build", 3, "bob")).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "gate build has k = 2, set by ann; bob asks for k = 3: leave out -k, or an operator \
         changes it: `kgate set build -k 3`"
    );
    for name in ["", "a b", &"x".repeat(129)] {
        let refused = log.apply(create(name, 1, "ann"));
        assert!(matches!(refused, Err(Rejected::Invalid(Invalid::GateName(_)))), "{name:?}");
    }
    let mut refused = |k| log.apply(create("new", k, "ann")).unwrap_err();
    assert_eq!(refused(0), Rejected::Invalid(Invalid::ZeroK));
    assert_eq!(refused(1 << 17), Rejected::Invalid(Invalid::K(1 << 17)));
    let delete = |version| Command::DeleteGate { name: "build".to_owned(), version };
    let open = Rejected::GateNotClosed { gate: "build".to_owned(), k: 2 };
    assert_eq!(log.apply(delete(version)), Err(open));
    let Ok(Applied::Gate { version: drained, .. }) = log.apply(set("build", 0)) else {
        unreachable!("it exists")
    };
    let changed = Rejected::GateChanged { gate: "build".to_owned(), version: drained };
    assert_eq!(log.apply(delete(version)), Err(changed));
    assert_eq!(log.apply(delete(drained)), Ok(Applied::Deleted));
    let Ok(Applied::Gate { gate: later, version: made }) = log.apply(create("build", 2, "bob"))
    else {
        unreachable!("it is new")
    };
    assert!(later > gate && made > drained);
}

/// A durable permit is rejected if its proposer is not a member, a slot is held already, or a slot
/// is beyond k. It is freed with its secret, or when it expires without a renewal.
#[test]
fn durable_permits() {
    let mut log = TestLog::bootstrapped();
    log.apply(add(0, 1, 1)).unwrap();
    log.apply(create("build", 4, "ann")).unwrap();
    let Ok(Applied::Held(permit)) = log.apply(hold(1, &[0, 2], 10, (0, 1))) else {
        unreachable!("it is free")
    };
    assert_eq!(log.apply(hold(1, &[0, 2], 10, (0, 1))), Ok(Applied::Held(permit)), "again");
    let gate = || "build".to_owned();
    let held = Rejected::Outdated(Outdated::SlotHeld { gate: gate(), slot: 2 });
    assert_eq!(log.apply(hold(1, &[2], 11, (0, 1))), Err(held));
    let beyond = Rejected::Outdated(Outdated::BeyondK { gate: gate(), k: 4, slot: 4 });
    assert_eq!(log.apply(hold(1, &[4], 12, (0, 1))), Err(beyond));
    assert!(matches!(log.apply(hold(1, &[1], 13, (0, 2))), Err(Rejected::NotMember { .. })));
    let empty = Invalid::Weight { gate: gate(), most: bounds::WEIGHT, given: 0 };
    assert_eq!(log.apply(hold(1, &[], 14, (0, 1))), Err(Rejected::Invalid(empty)));
    let deleted = Err(Rejected::GateDeleted(GateId(2)));
    assert_eq!(log.apply(hold(2, &[1], 15, (0, 1))), deleted);
    let (wrong, right) = ([1; 32], [10; 32]);
    let stolen = Command::ReleasePermit { permit, secret: wrong, renewals: None };
    assert_eq!(log.apply(stolen), Err(Rejected::WrongSecret(permit)));
    assert_eq!(log.apply(Command::RenewPermit { permit, secret: right }), Ok(Applied::Renewed(1)));
    let renewed = Rejected::RenewedSince { permit, renewals: 1 };
    assert_eq!(log.apply(Command::ExpirePermit { permit, renewals: 0 }), Err(renewed));
    // It outlives its node.
    log.apply(Command::Leave { node: NodeId(0), incarnation: Incarnation(1) }).unwrap();
    assert_eq!(log.state.cluster_state().held_slots(GateId(1)), BTreeSet::from([0, 2]));
    log.apply(set("build", 0)).unwrap();
    let version = log.state.cluster_state().gate("build").unwrap().version;
    let delete = Command::DeleteGate { name: "build".to_owned(), version };
    assert_eq!(log.apply(delete.clone()), Err(Rejected::GateHasPermits(gate())));
    assert_eq!(log.apply(Command::ExpirePermit { permit, renewals: 1 }), Ok(Applied::Freed));
    assert_eq!(
        log.apply(Command::ReleasePermit { permit, secret: right, renewals: None }),
        Err(Rejected::PermitNotHeld(permit))
    );
    assert_eq!(log.apply(delete), Ok(Applied::Deleted));
}

/// The fences that are remembered are bounded: those from before all members were added make room,
/// and when there is none left no permit is held.
#[test]
fn remembered_fences_are_bounded() {
    let mut log = TestLog::bootstrapped();
    log.apply(add(0, 1, 1)).unwrap();
    log.apply(create("build", 4, "ann")).unwrap();
    let begun = log.state.cluster_state().directory[&NodeId(0)].last.unwrap().at;
    let view = |view: u64| Fence(u128::from(view) << 96);
    let slots = 0..u32::try_from(bounds::FENCES).unwrap();
    let half = |slot: u32| view(if slot.is_multiple_of(2) { begun - 1 } else { begun });
    log.state.fences = slots.clone().map(|slot| ((GateId(7), slot), half(slot))).collect();
    log.apply(hold(1, &[0], view(begun).0 + 1, (0, 1))).unwrap();
    assert_eq!(
        log.state.fences.len(),
        bounds::FENCES / 2 + 1,
        "fences that no member can propose any more are forgotten"
    );
    log.state.fences = slots.clone().map(|slot| ((GateId(7), slot), view(begun))).collect();
    let refused = log.apply(hold(1, &[1], view(begun).0 + 2, (0, 1)));
    assert_eq!(refused, Err(Rejected::LimitReached(Limit::Fences)));
    // A term may be older than the members that still grant in it.
    let Command::CreateGate { slots: k, lanes, policy, weight_max, author, .. } =
        create("other", 4, "ann")
    else {
        unreachable!()
    };
    let (name, protocol) = ("other".to_owned(), "home".to_owned());
    let create =
        Command::CreateGate { name, slots: k, protocol, lanes, policy, weight_max, author };
    log.apply(create).unwrap();
    log.state.fences = slots.map(|slot| ((GateId(2), slot), view(begun - 1))).collect();
    let refused = log.apply(hold(1, &[1], view(begun).0 + 2, (0, 1)));
    assert_eq!(refused, Err(Rejected::LimitReached(Limit::Fences)));
}

/// A proposal that arrives a second time does not bring a released permit back; and a holder has
/// one permit, however many nodes it asked.
#[test]
fn a_permit_is_held_once() {
    let mut log = TestLog::bootstrapped();
    log.apply(add(0, 1, 1)).unwrap();
    log.apply(add(1, 1, 2)).unwrap();
    log.apply(create("build", 2, "ann")).unwrap();
    let first = hold(1, &[0], 10, (0, 1));
    let Ok(Applied::Held(permit)) = log.apply(first.clone()) else { unreachable!("it is free") };
    let Command::HoldPermit { gate, holder, secret, ttl, .. } = first.clone() else {
        unreachable!()
    };
    let by = (NodeId(1), Incarnation(1));
    let elsewhere =
        Command::HoldPermit { gate, slots: vec![1], fence: Fence(11), by, holder, secret, ttl };
    assert_eq!(log.apply(elsewhere), Ok(Applied::Held(permit)), "the same holder");
    assert_eq!(
        log.apply(Command::ReleasePermit { permit, secret, renewals: None }),
        Ok(Applied::Freed)
    );
    let later = Outdated::LaterFence { gate: "build".to_owned(), slot: 0 };
    assert_eq!(log.apply(first), Err(Rejected::Outdated(later)));
    assert!(
        matches!(log.apply(hold(1, &[0], 12, (0, 1))), Ok(Applied::Held(later)) if later != permit)
    );
}

/// The view of a gate is the last entry that added or removed a member, or changed that gate. An
/// entry that changed another gate or a permit does not count.
#[test]
fn views() {
    let mut log = TestLog::bootstrapped();
    log.apply(create("a", 2, "ann")).unwrap();
    log.apply(create("b", 2, "ann")).unwrap();
    let view = |log: &TestLog, name| {
        log.state.cluster_state().view_of(log.state.cluster_state().gate(name).unwrap())
    };
    let before = view(&log, "a");
    log.apply(set("b", 3)).unwrap();
    assert_eq!((view(&log, "a"), view(&log, "b")), (before, log.index));
    let changes = log.changes(add(2, 1, 1));
    let at = log.index;
    let is_membership = |change: &Change| {
        let Change::Membership { at: changed, .. } = change else { return false };
        *changed == at
    };
    assert!(changes.iter().any(is_membership), "{changes:?}");
    assert!(matches!(changes.last(), Some(Change::Homes(homes)) if homes.at == at));
    assert_eq!((view(&log, "a"), view(&log, "b")), (at, at));
    log.apply(suspect(2, 1)).unwrap();
    log.apply(hold(1, &[0], 1, (2, 1))).unwrap();
    assert_eq!(view(&log, "a"), at, "a suspicion changes no member");
}

fn any_member_command() -> impl Strategy<Value = Command> {
    let (node, incarnation) = ((0..4_u32).prop_map(NodeId), (1..4_u32).prop_map(Incarnation));
    let member = (node.clone(), incarnation);
    let suspicion = (member.clone(), 1..60_u64);
    prop_oneof![
        4 => (member.clone(), 0..3_u64)
            .prop_map(|((node, incarnation), start)| add(node.0, incarnation.0, start)),
        1 => member.clone().prop_map(|(node, incarnation)| suspect(node.0, incarnation.0)),
        1 => member.clone().prop_map(|(node, incarnation)| Command::Leave { node, incarnation }),
        1 => suspicion.clone().prop_map(|((node, incarnation), at)| {
            Command::Unsuspect { node, incarnation, at }
        }),
        1 => suspicion.prop_map(|((node, incarnation), at)| {
            evict(node.0, incarnation.0, at, 0, TERMS.wait())
        }),
        1 => (member, any::<bool>()).prop_map(|((node, incarnation), for_good)| {
            Command::ForceEvict { node, incarnation, author: "op".to_owned(), for_good }
        }),
        1 => node.clone().prop_map(|node| Command::RemoveNode { node }),
        1 => (node, 0..6_u64).prop_map(|(node, store)| Command::RegisterNode {
            node: None,
            name: format!("n{}", node.0),
            address: "x".to_owned(),
            store: (store > 0).then_some(StoreId(store)),
        }),
    ]
}

fn any_gate_command() -> impl Strategy<Value = Command> {
    let (name, small) = (prop::sample::select(vec!["a", "b"]), 0..5_u32);
    let slots = prop::collection::vec(small.clone(), 1..3);
    let permit = (1..60_u64).prop_map(PermitId);
    prop_oneof![
        1 => (name.clone(), small.clone()).prop_map(|(name, k)| create(name, k, "ann")),
        1 => (name.clone(), small.clone()).prop_map(|(name, k)| set(name, k)),
        1 => (name.clone(), 1..60_u64).prop_map(|(name, version)| {
            Command::DeleteGate { name: name.to_owned(), version }
        }),
        4 => (1..3_u32, slots, 0..40_u128, (0..4_u32, 1..4_u32))
            .prop_map(|(gate, slots, fence, by)| hold(gate, &slots, fence, by)),
        1 => permit.clone().prop_map(|permit| {
            Command::ReleasePermit { permit, secret: [7; 32], renewals: None }
        }),
        1 => (permit, 0..2_u64)
            .prop_map(|(permit, renewals)| Command::ExpirePermit { permit, renewals }),
        1 => (name.clone(), 0..3_usize).prop_map(|(name, names)| {
            slots::create_with(name, slots::named(&["x", "y", "z"][..=names]))
        }),
        1 => (name, prop::option::of(small)).prop_map(|(name, k)| {
            slots::set_with(name, k, Some(slots::named(&["x", "y"]).source))
        }),
        2 => (1..3_u32, prop::sample::select(vec!["k", "l"]), 0..3_u8)
            .prop_map(|(gate, key, client)| slots::mark(gate, key, client, 1)),
        1 => (1..3_u32, prop::sample::select(vec!["k", "l"]), 1..60_u64).prop_map(
            |(gate, key, at)| Command::ExpireOnce { gate: GateId(gate), key: key.to_owned(), at }
        ),
    ]
}

fn any_command() -> impl Strategy<Value = Command> {
    prop_oneof![11 => any_member_command(), 9 => any_gate_command()]
}

/// What must hold of a state after any entry.
fn check_invariants(state: &ClusterState, index: u64, stores: &mut BTreeMap<NodeId, StoreId>) {
    for (node, entry) in &state.directory {
        if let Some(store) = entry.store {
            assert_eq!(*stores.entry(*node).or_insert(store), store, "a number has one store");
        }
    }
    for gate in state.gates.keys() {
        let permits = state.permits.values().filter(|permit| permit.gate == *gate);
        let held = permits.map(|permit| permit.slots.len()).sum::<usize>();
        assert_eq!(held, state.held_slots(*gate).len(), "a slot is held once");
    }
    assert!(state.permits.values().all(|permit| state.gates.contains_key(&permit.gate)));
    let versions = |gate: &Gate| {
        gate.created <= gate.version && gate.version <= gate.touched && gate.touched <= index
    };
    assert!(state.gates.values().all(versions));
    assert!(state.gates.values().all(|gate| gate.slots().check().is_ok()));
    assert!(state.once_marks().all(|(gate, ..)| state.gates.contains_key(&gate)));
    assert!(state.once.values().all(|keys| !keys.is_empty()));
    assert!(state.view <= index && state.applied == index);
    let Homes { at, directory } = &state.homes;
    let members = state.membership.iter().map(|(node, member)| (node, member.incarnation));
    assert!(directory.members().eq(members) && *at <= index);
    let is_fit = |node| state.membership.get(node).is_some_and(|member| member.suspected.is_none());
    for gate in 0..4 {
        let Some(home) = directory.home(gate) else { continue };
        let suspected = state.membership.iter().all(|(_, member)| member.suspected.is_some());
        assert!(is_fit(home.node) || suspected, "a suspected node is no home beside a trusted one");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// In any order of commands: the incarnations of a node grow and never overlap, held slots are
    /// disjoint, versions and views are indices of applied entries, and a rejected command changes
    /// nothing. A second state that follows only the changes, or only the difference to an older
    /// state, reaches the same members, homes and terms; and so does a node that begins with a
    /// snapshot.
    #[test]
    fn any_order(commands in prop::collection::vec(any_command(), 1..60), cut in 0..60_usize) {
        let mut log = TestLog::bootstrapped();
        let mut known = log.state.cluster_state().clone();
        let mut away = known.clone();
        let mut incarnations: BTreeMap<NodeId, Incarnation> = BTreeMap::new();
        let mut stores: BTreeMap<NodeId, StoreId> = BTreeMap::new();
        let mut restored = log.state.clone();
        for (step, command) in commands.into_iter().enumerate() {
            if step == cut {
                away = log.state.cluster_state().clone();
                let snapshot = postcard::to_stdvec(&log.state).unwrap();
                restored = postcard::from_bytes(&snapshot).unwrap();
            }
            let _ = restored.apply(log.index + 1, command.clone());
            let mut before = log.state.clone();
            log.index += 1;
            let (answer, changes) = log.state.apply(log.index, command);
            if answer.is_err() {
                before.apply_blank(log.index);
                prop_assert_eq!(&before, &log.state);
            }
            for change in &changes {
                if let Change::Membership { at, change: MembershipChange::Added(node, new, _) } =
                    change
                {
                    prop_assert_eq!(*at, log.index);
                    let last = incarnations.insert(*node, *new);
                    prop_assert!(last.is_none_or(|last| last < *new));
                    prop_assert!(known.membership.get(*node).is_none(), "two incarnations at once");
                }
                known.follow(change);
            }
            let cluster_state = log.state.cluster_state();
            followed(&known, cluster_state)?;
            check_invariants(cluster_state, log.index, &mut stores);
        }
        for change in log.state.cluster_state().changes_since(&away) {
            away.follow(&change);
        }
        followed(&away, &known)?;
        prop_assert_eq!(restored, log.state);
    }
}

/// A state that only followed the changes says the same as the other. How each incarnation was
/// admitted is no change of its own.
fn followed(state: &ClusterState, other: &ClusterState) -> Result<(), TestCaseError> {
    let directory = |state: &ClusterState| {
        let public = |entry: &DirectoryEntry| DirectoryEntry { last: None, ..entry.clone() };
        state.directory.iter().map(|(node, entry)| (*node, public(entry))).collect::<Vec<_>>()
    };
    prop_assert_eq!(&state.cluster, &other.cluster);
    prop_assert_eq!(&state.voters, &other.voters);
    prop_assert_eq!(directory(state), directory(other));
    prop_assert_eq!(&state.membership, &other.membership);
    prop_assert_eq!(&state.homes, &other.homes);
    prop_assert_eq!(&state.gates, &other.gates);
    prop_assert_eq!(&state.permits, &other.permits);
    prop_assert_eq!(&state.once, &other.once);
    Ok(())
}

/// E5, E6: an incarnation that an operator has evicted cannot clear itself, and its eviction waits
/// as long as any other. A later incarnation may be added, unless the eviction is for good.
#[test]
fn a_forced_eviction_waits_and_is_not_cleared() {
    let mut log = TestLog::bootstrapped();
    let evict_by_op = |incarnation, for_good| Command::ForceEvict {
        node: NodeId(1),
        incarnation: Incarnation(incarnation),
        author: "op".to_owned(),
        for_good,
    };
    assert!(matches!(log.apply(evict_by_op(1, false)), Err(Rejected::NotMember { .. })));
    log.apply(add(1, 1, 1)).unwrap();
    let Ok(Applied::Suspected(at)) = log.apply(evict_by_op(1, false)) else {
        unreachable!("it is a member")
    };
    assert_eq!(log.apply(evict_by_op(1, false)), Ok(Applied::Suspected(at)), "again");
    let unsuspect = Command::Unsuspect { node: NodeId(1), incarnation: Incarnation(1), at };
    let evicted = Rejected::BeingEvicted { node: NodeId(1), author: "op".to_owned() };
    assert_eq!(log.apply(unsuspect), Err(evicted));
    let voters_at = log.state.cluster_state().voters.at;
    assert!(
        log.apply(evict(1, 1, at, voters_at, Span(TERMS.wait().0 - 1))).is_err(),
        "never sooner than W"
    );
    assert_eq!(log.apply(evict(1, 1, at, voters_at, TERMS.wait())), Ok(Applied::Gone));
    log.apply(add(1, 2, 2)).unwrap();
    assert_eq!(
        log.state.cluster_state().directory[&NodeId(1)].forced_eviction,
        None,
        "it does not concern the later incarnation"
    );
    let Ok(Applied::Suspected(at)) = log.apply(evict_by_op(2, true)) else {
        unreachable!("it is a member")
    };
    assert_eq!(log.apply(evict(1, 2, at, voters_at, TERMS.wait())), Ok(Applied::Gone));
    assert_eq!(
        log.apply(add(1, 3, 3)),
        Err(Rejected::Removed { node: NodeId(1), author: "op".to_owned() })
    );
}

/// R4: a node without a store yet is registered once, however often that is proposed. The first
/// store that is added under its number is its own.
#[test]
fn registered_before_it_has_a_store() {
    let mut log = TestLog::bootstrapped();
    let register = |address: &str| Command::RegisterNode {
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
    assert_eq!(log.apply(register("there")), Ok(Applied::Registered(NodeId(3))));
    assert_eq!(log.apply(register("there")), Ok(Applied::Registered(NodeId(3))), "again");
    let taken = Rejected::NameTaken { node: NodeId(3), name: "new".to_owned() };
    assert_eq!(log.apply(register("elsewhere")), Err(taken));
    log.apply(add(50, 1)).unwrap();
    log.apply(Command::Leave { node: NodeId(3), incarnation: Incarnation(1) }).unwrap();
    assert_eq!(log.apply(add(51, 2)), Err(Rejected::StoreMismatch(NodeId(3))));
}

/// Two operators change a gate at once: the second gets both values and who set them. The same
/// change twice is one.
#[test]
fn a_change_of_k_is_compare_and_set() {
    let mut log = TestLog::bootstrapped();
    let Ok(Applied::Gate { version, .. }) = log.apply(create("gpu", 3, "ann")) else {
        unreachable!("it is new")
    };
    let set = |k, author: &str| Command::SetGate {
        name: "gpu".to_owned(),
        k: Some(k),
        source: None,
        policy: None,
        version: Some(version),
        author: author.to_owned(),
    };
    let first = log.apply(set(5, "bob"));
    assert!(matches!(first, Ok(Applied::Gate { .. })), "{first:?}");
    assert_eq!(log.apply(set(5, "bob")), first, "again");
    let text = log.apply(set(4, "eve")).unwrap_err().to_string();
    assert!(text.starts_with("gate gpu has k = 5, set by bob; eve asks for k = 4: "), "{text}");
    assert!(text.ends_with("`kgate set gpu -k 4`"), "{text}");
}
