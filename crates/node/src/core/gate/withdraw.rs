//! A client that waits wants it no more.
//!
//! A protocol takes back what was asked last. So to take back an earlier one, those behind it are
//! taken back too and asked for again; if all of them want as much, that comes to the same as one
//! taken back, and each moves up. A protocol that takes nothing back is left to grant it, and it is
//! given back at once.

use kgate_core::{Input, Time};

use super::{Gate, GateEffect};
use crate::core::RequestKey;

impl Gate {
    /// Takes a request back; false if it does not wait here.
    pub(in crate::core) fn withdraw(
        &mut self,
        now: Time,
        key: RequestKey,
        out: &mut Vec<GateEffect>,
    ) -> bool {
        if self.abandon(key) {
            return true;
        }
        let Some(at) = self.waiting.iter().position(|waiter| waiter.key == Some(key)) else {
            return false;
        };
        if at >= self.handed {
            self.waiting.remove(at);
            return true;
        }
        let mut behind: Vec<u32> = self.handed_from(at + 1).collect();
        let weight = self.waiting[at].weight;
        if behind.iter().all(|other| *other == weight) {
            behind.clear();
        }
        for taken_back in 0..=behind.len() {
            if self.drive(now, Input::Withdraw, out).is_err() {
                assert_eq!(taken_back, 0, "a protocol takes back all or nothing");
                self.waiting[at].key = None;
                self.abandoned += 1;
                return true;
            }
        }
        self.take_handed(at);
        for weight in behind {
            self.drive(now, Input::Acquire { weight }, out).expect("it was asked for before");
        }
        self.go_on(now, out);
        true
    }

    fn handed_from(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        self.waiting.range(at..self.handed).map(|waiter| waiter.weight)
    }
}
