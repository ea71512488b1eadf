//! Slots that the agreed log holds: permits that outlive the process that decided them (LEASES
//! section 8, `docs/internals/slots.md`).
//!
//! A process decides a slot as ever, and keeps the grant until the log says that it holds the slot.
//! From that moment on every process that has applied the entry **takes the slot for taken when it
//! decides, and reports it as held**, as if it held it itself; and whoever decided it gives its
//! grant up. Once the log frees the slot, each does so in its own time, and tells whoever it had
//! reported it to.
//!
//! Why both. Whoever asks and has not applied the entry needs the answer of the one that decided,
//! and that one reports the slot: by its grant before, as reserved after, with nothing in between.
//! Whoever does without that answer has been told that it is gone, so it has applied the entry
//! before, and leaves the slot alone by itself. Hence there is no instant at which somebody with
//! all answers could take it.
//!
//! That a slot is reserved does not mean that this process decided it: news of the log may be so
//! late that the slot is long free, and granted here. So a grant is given up by `Release`, by
//! whoever knows whose entry it is, never by its slots being reserved; it is only not used again
//! here, neither kept nor handed over.

use alloc::boxed::Box;

use kgate_core::{MembershipSource, Protocol, Refusal};

use super::slot_set::SlotSet;
use super::{Out, Slots, sound};

impl Slots {
    /// The log holds exactly these slots. What becomes taken is no news to anybody: whoever must
    /// know of it has heard it from the one that decided it. What becomes free is, as after a
    /// release.
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
