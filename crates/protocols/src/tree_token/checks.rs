//! Messages that no correct neighbour sends. A message is checked as a whole before anything
//! changes.

use kgate_core::{NodeId, Refusal};

use super::defects::R10;
use super::{Incarnations, Revision, Statement, TreeToken};
use crate::collections::NodeList;

impl TreeToken {
    /// The numbers of requests counted in both directions in the session of a message; `None` if it
    /// belongs to an earlier one.
    pub(super) fn counts(&self, from: NodeId, incarnations: Incarnations) -> Option<(u64, u64)> {
        if incarnations.yours != self.incarnation {
            return None;
        }
        match self.link(from) {
            None => Some((0, 0)),
            Some(link) if incarnations.mine == link.incarnation => {
                Some((link.asks_in, link.asks_out))
            }
            Some(link) => {
                (incarnations.mine > link.incarnation).then(|| (u64::from(link.waits), 0))
            }
        }
    }

    pub(super) fn check_count(&self, count: u64, counted: u64) -> Result<(), Refusal> {
        if count > counted + u64::from(self.k()) && !self.defects.has(R10) {
            return Err(Refusal::Malformed("more tokens asked for or served than there are"));
        }
        Ok(())
    }

    /// A correct neighbour waits for at most as many tokens as there are, and once more for
    /// requests that it has forgotten; so a queue is bounded, whatever is sent.
    pub(super) fn check_waits(
        &self,
        from: NodeId,
        incarnations: Incarnations,
        asks: u64,
    ) -> Result<(), Refusal> {
        let Some(link) = self.link(from).filter(|_| !self.defects.has(R10)) else { return Ok(()) };
        let counted = if incarnations.mine == link.incarnation {
            link.asks_in
        } else {
            u64::from(link.waits)
        };
        let waits = u64::from(link.waits) + asks.saturating_sub(counted);
        if waits > 2 * u64::from(self.k()) {
            return Err(Refusal::Malformed(
                "a neighbour that waits for more tokens than there are",
            ));
        }
        Ok(())
    }

    pub(super) fn check_incarnations(&self, incarnations: Incarnations) -> Result<(), Refusal> {
        if incarnations.mine == 0 || incarnations.yours > self.incarnation {
            return Err(Refusal::Malformed("an incarnation that was not lived"));
        }
        Ok(())
    }

    pub(super) fn check_lost(&self, from: NodeId, lost: &NodeList) -> Result<(), Refusal> {
        if let Some(unknown) = lost.iter().find(|node| node.0 >= self.graph.nodes()) {
            return Err(Refusal::UnknownNode(unknown));
        }
        if lost.contains(from) {
            return Err(Refusal::Malformed("a process that says it is lost"));
        }
        Ok(())
    }

    pub(super) fn check_revision(
        &self,
        revision: Revision,
        lost: &NodeList,
    ) -> Result<(), Refusal> {
        if revision.epoch > lost.len() || revision.version > Revision::VERSION_MAX {
            return Err(Refusal::Malformed("a token that has come further than it can have"));
        }
        Ok(())
    }

    pub(super) fn check_statement(
        &self,
        from: NodeId,
        statement: &Statement,
    ) -> Result<(), Refusal> {
        self.check_lost(from, &statement.lost)?;
        if statement.tokens.len() != self.places.len() {
            return Err(Refusal::Malformed("not as many tokens as there are"));
        }
        statement
            .tokens
            .iter()
            .try_for_each(|said| self.check_revision(said.revision, &statement.lost))
    }
}
