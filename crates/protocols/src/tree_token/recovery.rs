//! Recovery from a crash: RESTART to every neighbour, ADVISE from each.
//!
//! Stable storage has the places of the tokens, whether the client waits, the permanently lost
//! processes, and a number for each incarnation. The queue and the requests are rebuilt from the
//! neighbours. Each edge recovers by itself: no process waits for all, so that a neighbour that is
//! down as well hinders only the processes that need it, and a token that the storage says is here
//! may be used at once.
//!
//! A token that was in transit when either end crashed may have been lost. Both ends report in
//! RESTART and ADVISE where they know each token to be; if one has sent it to the other, and the
//! other knows only an older revision, it is sent again, unchanged. If both copies arrive, the
//! second is recognised by its revision.

use kgate_core::{NodeId, Outbox, Refusal};

use super::defects::{R7, R8, R11};
use super::{Incarnations, Said, Side, Statement, TreeToken, TreeTokenMessage};

impl TreeToken {
    /// A neighbour has recovered, or is new.
    pub(super) fn on_restart(
        &mut self,
        from: NodeId,
        incarnation: u32,
        statement: &Statement,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.check_incarnations(Incarnations { mine: incarnation, yours: 0 })?;
        self.check_statement(from, statement)?;
        if statement.lost.contains(self.me) {
            return Ok(());
        }
        self.learn(&statement.lost, out);
        let r11 = self.defects.has(R11);
        let Some(link) = self.link_mut(from).filter(|link| incarnation >= link.incarnation) else {
            return Ok(());
        };
        // R11: as printed, only its ADVISE would show that it is back, and the RESTART of this
        // process was lost while it was down.
        if incarnation > link.incarnation && (link.is_known() || !r11) {
            link.adopt(incarnation);
        }
        self.hear(from, statement, out);
        let link = self.link(from).expect("found above");
        let advise = TreeTokenMessage::Advise {
            incarnations: Incarnations { mine: self.incarnation, yours: incarnation },
            asks: link.asks_out,
            heard: link.asks_in,
            statement: self.statement(from),
        };
        out.send(from, advise);
        self.go_on(out);
        Ok(())
    }

    /// A neighbour reports what this process has forgotten.
    pub(super) fn on_advise(
        &mut self,
        from: NodeId,
        incarnations: Incarnations,
        asks: u64,
        heard: u64,
        statement: &Statement,
        out: &mut Outbox<Self>,
    ) -> Result<(), Refusal> {
        self.check_incarnations(incarnations)?;
        self.check_statement(from, statement)?;
        if let Some((asks_in, asks_out)) = self.counts(from, incarnations) {
            self.check_count(asks, asks_in)?;
            self.check_count(heard, asks_out)?;
            self.check_waits(from, incarnations, asks)?;
        }
        if statement.lost.contains(self.me) {
            return Ok(());
        }
        self.learn(&statement.lost, out);
        let current = self.incarnation == incarnations.yours;
        let Some(link) =
            self.link_mut(from).filter(|link| current && incarnations.mine >= link.incarnation)
        else {
            return Ok(());
        };
        if incarnations.mine > link.incarnation {
            link.adopt_unconfirmed(incarnations.mine);
        }
        link.asks_out = link.asks_out.max(heard);
        let new = link.hear_asks(asks);
        self.queue.extend((0..new).map(|_| from));
        self.hear(from, statement, out);
        self.go_on(out);
        Ok(())
    }

    /// R8: as printed, nothing is served and nothing asked for at the end of recovery.
    fn go_on(&mut self, out: &mut Outbox<Self>) {
        if !self.defects.has(R8) {
            self.progress(out);
        }
    }

    /// Reports to a neighbour; it answers with ADVISE.
    pub(super) fn send_restart(&self, to: NodeId, out: &mut Outbox<Self>) {
        out.send(
            to,
            TreeTokenMessage::Restart {
                incarnation: self.incarnation,
                statement: self.statement(to),
            },
        );
    }

    /// The report to `to`.
    fn statement(&self, to: NodeId) -> Statement {
        let tokens = (0..self.places.len())
            .map(|slot| Said { side: self.side(slot, to), revision: self.places[slot].revision });
        Statement {
            initialized: self.initialized,
            lost: self.lost.clone(),
            tokens: tokens.collect(),
        }
    }

    /// The side of the edge to `of` on which a token is.
    fn side(&self, slot: usize, of: NodeId) -> Side {
        let towards = self.places[slot].towards;
        if towards == of {
            Side::Yours
        } else if self.is_open(slot) && self.is_behind(of, towards) {
            Side::Open
        } else {
            Side::Mine
        }
    }

    /// A neighbour reports where the tokens are.
    fn hear(&mut self, from: NodeId, statement: &Statement, out: &mut Outbox<Self>) {
        if let Some(defects) = &mut self.as_printed
            && defects.rebuild.is_some()
        {
            let neighbours = self.links.iter().map(|link| link.node);
            defects.hear(from, statement, self.me, neighbours, &mut self.places);
            self.store(out);
        } else if !self.defects.has(R7) {
            for (slot, said) in statement.tokens.iter().enumerate() {
                // It has never received the token that was sent.
                let behind = said.side == Side::Yours && said.revision < self.places[slot].revision;
                if behind && self.places[slot].towards == from {
                    self.send_token(slot, out);
                }
            }
        }
        self.find(from, statement, out);
        if statement.initialized && !self.initialized {
            self.on_initialize(from, out);
        }
    }
}
