//! State that only runs as printed need: a second grant beside the first, a request that is never
//! checked, a holder that is no process, and places that are rebuilt from reports of neighbours.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use kgate_core::{Defects, GrantId, NodeId};

use super::defects::{R4, R5, R7};
use super::place::Place;
use super::{Side, Statement};
use crate::collections::NodeList;

/// The holder, when it is no process: R3 and R7.
pub(super) const NOBODY: NodeId = NodeId(u32::MAX);

/// The state of a run as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AsPrinted {
    /// R4: grants that were given before the present one and not released.
    pub(super) beside: Vec<GrantId>,
    /// R5: the own entry is first and is never checked.
    pub(super) blocked: bool,
    /// R7: the holder is unknown until all have advised.
    pub(super) rebuild: Option<Rebuild>,
}

/// R7: the neighbours' reports so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rebuild {
    advised: NodeList,
    /// For each token, a neighbour that does not report it here.
    elsewhere: Box<[Option<NodeId>]>,
}

impl AsPrinted {
    pub(super) fn wanted(defects: Defects) -> bool {
        [R4, R5, R7].into_iter().any(|defect| defects.has(defect))
    }

    /// R7: after a crash nothing is known of the tokens.
    pub(super) fn forget(&mut self, places: &mut [Place]) {
        places.iter_mut().for_each(|place| place.towards = NOBODY);
        self.rebuild = Some(Rebuild {
            advised: NodeList::default(),
            elsewhere: vec![None; places.len()].into(),
        });
    }

    /// R7: the state reconstruction of section V-B-3. A neighbour that is recovering itself knows
    /// no holder, and so does not say that it is us.
    pub(super) fn hear(
        &mut self,
        from: NodeId,
        statement: &Statement,
        me: NodeId,
        mut neighbours: impl Iterator<Item = NodeId>,
        places: &mut [Place],
    ) {
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.advised.insert(from);
        for (slot, said) in statement.tokens.iter().enumerate() {
            places[slot].revision = places[slot].revision.max(said.revision);
            if said.side != Side::Yours {
                rebuild.elsewhere[slot].get_or_insert(from);
            }
        }
        if neighbours.all(|neighbour| rebuild.advised.contains(neighbour)) {
            for (place, elsewhere) in places.iter_mut().zip(&rebuild.elsewhere) {
                if place.towards == NOBODY {
                    place.towards = elsewhere.unwrap_or(me);
                }
            }
            self.rebuild = None;
        }
    }

    /// R4: the client leaves a grant that was given before the present one.
    pub(super) fn leave(&mut self, grant: GrantId) -> bool {
        let before = self.beside.len();
        self.beside.retain(|&beside| beside != grant);
        self.beside.len() < before
    }
}
