//! Slots that the agreed log holds: durable permits, which outlive the process that decided them
//! (LEASES section 8, `docs/internals/slots.md`).
//!
//! A process decides a slot as usual, and keeps the grant until the log holds the slot. From then
//! on every process that has applied the entry **treats the slot as held when it decides, and
//! reports it as held**, as if it held it itself; and the process that decided it releases its
//! grant. When the log frees the slot, each process does so when it applies that entry, and sends
//! an update to every process that it had reported the slot to.
//!
//! Why both are needed: a requester that has not applied the entry needs the answer of the process
//! that decided, and that process reports the slot without a gap: by its grant before, as reserved
//! after. A requester that decides without that answer has been told that the process is gone. So
//! it has applied the earlier entry too, and does not take the slot. Hence at no instant can a
//! requester with all answers take the slot.
//!
//! A reserved slot is not necessarily one that this process decided: the log may be applied so late
//! that the slot has long been freed, and granted here. So a grant is given up only by `Release`,
//! from the caller that knows whose entry it is, and never because its slots are reserved; while
//! they are reserved, the grant is only not re-used here, neither cached nor handed over.

use alloc::boxed::Box;

use kgate_core::{MembershipSource, Protocol, Refusal};

use super::slot_set::SlotSet;
use super::{Out, Slots, sound};

impl Slots {
    /// The log holds exactly these slots. A slot that becomes held needs no update: every process
    /// that must know of it has learnt it from the process that decided it. A slot that becomes
    /// free is reported, as after a release.
    pub(super) fn on_reserved(&mut self, slots: Box<[u32]>, out: &mut Out) -> Result<(), Refusal> {
        let slots = SlotSet::new(slots);
        sound(slots.is_sound(), "slots out of order")?;
        if self.membership() == MembershipSource::Join {
            return Err(Refusal::Unsupported {
                protocol: Self::NAME,
                what: "slots that a log holds, without a log",
            });
        }
        if slots == self.reserved {
            return Ok(());
        }
        let freed = !self.reserved.is_within(&slots);
        self.reserved = slots;
        self.version += 1;
        let reserved = &self.reserved;
        let dropped = self.grants.remove(|grant| grant.id.is_none() && grant.slots.meets(reserved));
        if freed || dropped > 0 {
            self.update(out);
        }
        self.settle(out);
        Ok(())
    }
}
