//! Clients that go on at another node.

use alloc::boxed::Box;
use alloc::vec::Vec;

use kgate_core::{Adoption, Fence, GrantId, Input, NodeId};

use super::{Durable, Harness, Verdict};

impl Harness {
    /// A client inside asks a node, under a lease that lasts (H18).
    pub(super) fn ask(&mut self, a: u32, b: u32) -> Verdict {
        let inside = |place: &usize| {
            let permit = &self.permits[*place];
            permit.believes && permit.durable == Durable::No
        };
        let inside: Vec<usize> = (0..self.permits.len()).filter(inside).collect();
        let node = b % self.config.nodes;
        let latest = self.latest().directory.incarnation(NodeId(node));
        let known = self.view(node).directory.incarnation(NodeId(node));
        if inside.is_empty()
            || !self.is_up(node)
            || !self.leases[node as usize]
            || latest.is_none()
            || latest != known
        {
            return Ok(());
        }
        let place = inside[a as usize % inside.len()];
        let permit = &mut self.permits[place];
        let session = &self.sessions[permit.by];
        permit.attempt += 1;
        permit.moved = true;
        permit.asked.extend(latest.map(|incarnation| (node, incarnation)));
        let adoption = Adoption {
            slots: permit.slots.clone().into(),
            fence: permit.fence,
            attempt: permit.attempt,
            from: NodeId(session.node),
            incarnation: session.incarnation,
            after: session.after,
        };
        trace!(self, "permit {place} asks p{node}, attempt {}", adoption.attempt);
        self.input(node, Input::Adopt(Box::new(adoption)))
    }

    pub(super) fn on_adopted(
        &mut self,
        node: u32,
        grant: GrantId,
        fence: Fence,
        attempt: u32,
    ) -> Verdict {
        trace!(self, "p{node} adopts {fence:?}, attempt {attempt}");
        let permit = self.permits.iter().position(|permit| permit.fence == fence);
        let permit = permit.ok_or("an adoption that nobody asked for")?;
        let start = self.starts[node as usize];
        for session in &mut self.sessions {
            if (session.permit, session.node, session.start) == (permit, node, start) {
                session.gone = true;
            }
        }
        self.open_session(permit, node, grant, Some(attempt))?;
        if !self.permits[permit].believes {
            let place = self.sessions.len() - 1;
            self.end_session(place);
        }
        Ok(())
    }

    /// A client goes on by the node that it asked last.
    pub(super) fn confirm(&mut self, a: u32) -> Verdict {
        let ready = |place: &usize| {
            let session = &self.sessions[*place];
            let permit = &self.permits[session.permit];
            let same = permit.by == session.asked_by;
            permit.believes
                && permit.durable == Durable::No
                && session.unconfirmed == Some(permit.attempt)
                && session.ended.is_none()
                && same
                && self.is_live(session)
        };
        let ready: Vec<usize> = (0..self.sessions.len()).filter(ready).collect();
        if ready.is_empty() {
            return Ok(());
        }
        let place = ready[a as usize % ready.len()];
        let session = &self.sessions[place];
        let (node, grant, permit) = (session.node, session.grant, session.permit);
        if self.net.input(node, Input::Confirm { grant }).is_err() {
            return Ok(());
        }
        trace!(self, "permit {permit} goes on at p{node}");
        self.adopted += 1;
        let after = self.view(node).index;
        let session = &mut self.sessions[place];
        (session.unconfirmed, session.after) = (None, after);
        let slots = self.permits[permit].slots.clone();
        let permit_now = &mut self.permits[permit];
        (permit_now.by, permit_now.moved) = (place, false);
        permit_now.asked.clear();
        self.nobody_else(Some(permit), &slots)?;
        self.check()
    }
}
