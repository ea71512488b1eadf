//! Symmetry reduction: each class of states is visited once, verdicts stay, and it is refused where
//! names matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use kgate_core::{Defects, Explorable, Setup};
use kgate_protocols::broadcast::Direct;
use kgate_protocols::permission::Permission;
use kgate_protocols::topology::graphs::Shape;
use kgate_protocols::tree_token::{TreeToken, defects as r};
use kgate_spec::AtMostK;
use stateright::Model;

use super::{all_hold, broken};
use crate::state::digest;
use crate::symmetry::{NoSymmetry, representative};
use crate::{Bounds, CrashNotifications, ProtocolModel, SearchOrder, explore_model};

fn star(nodes: u32, k: u32, bounds: Bounds, printed: Defects) -> ProtocolModel<TreeToken> {
    let graph = Shape::Star.build(nodes, &mut |_| 0).expect("a star");
    let setup = Setup { graph: Some(Arc::new(graph)), defects: printed, ..Setup::new(nodes, k) };
    ProtocolModel::new(setup, Bounds { notifications: CrashNotifications::InOrder, ..bounds })
}

/// The number of states, and of their classes.
fn classes<P: Explorable>(model: &ProtocolModel<P>) -> (usize, usize) {
    let (mut states, mut classes) = (BTreeSet::new(), BTreeSet::new());
    let mut ahead = vec![model.first_state()];
    while let Some(state) = ahead.pop() {
        if states.insert(digest(&state)) {
            classes.insert(digest(&representative(&state)));
            ahead.extend(model.next_steps(&state).into_iter().map(|(_, next)| next));
        }
    }
    (states.len(), classes.len())
}

/// The leaves of a star are interchangeable. A reduced search visits each class of a full search,
/// and no other: if the algorithm compared names, some would be missed.
#[test]
fn every_class_is_visited_once() {
    for bounds in [Bounds::new(1), Bounds { restarts: 1, ..Bounds::new(1) }] {
        let model = star(4, 1, bounds.clone(), Defects::NONE).with_symmetry().expect("a symmetry");
        let (states, classes) = classes(&model);
        let found = explore_model(model, SearchOrder::Depth);
        all_hold(&found);
        assert_eq!(found.unique, classes);
        assert!(
            states > 4 * classes,
            "six renamings of most of {classes} classes, and {states} states"
        );
        assert_eq!(
            explore_model(star(4, 1, bounds, Defects::NONE), SearchOrder::Depth).unique,
            states
        );
    }
}

/// The planted bug is found by a reduced search too, with a schedule that can happen.
#[test]
fn a_defect_is_found_with_symmetry() {
    let model = star(3, 1, Bounds::new(1), r::R1)
        .with_symmetry()
        .expect("a symmetry")
        .checking([AtMostK::NAME]);
    assert_eq!(broken(&explore_model(model, SearchOrder::Depth)), [AtMostK::NAME]);
}

/// Refused: stamps are compared by name, several tokens are requested by name, crashes are repaired
/// by name; and processes with different numbers of requests are not interchangeable.
#[test]
fn refused_where_names_matter() {
    let raymond = ProtocolModel::<Permission<Direct>>::new(Setup::new(3, 1), Bounds::new(1));
    assert_eq!(raymond.with_symmetry().err(), Some(NoSymmetry::Names));
    let tokens = |k, bounds| star(4, k, bounds, Defects::NONE).with_symmetry().err();
    assert_eq!(tokens(2, Bounds::new(1)), Some(NoSymmetry::Names));
    assert_eq!(tokens(1, Bounds { crashes: 1, ..Bounds::new(1) }), Some(NoSymmetry::Crashes));
    assert_eq!(
        tokens(1, Bounds { entries: vec![1, 2, 3, 4], ..Bounds::new(1) }),
        Some(NoSymmetry::None)
    );
    assert_eq!(tokens(1, Bounds::new(1)), None);
}
