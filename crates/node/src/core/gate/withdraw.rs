//! Withdrawal of a waiting request.
//!
//! A protocol withdraws its latest request. So to withdraw an earlier one, the requests behind it
//! are withdrawn too and submitted again. If all of them have the same weight, one withdrawal is
//! enough, and each of them moves up. A protocol that cannot withdraw grants the request in the
//! end, and the gate releases that grant at once.

use kgate_core::Input;

use super::Gate;
use crate::core::RequestKey;

impl Gate {
    /// Withdraws a request. Returns whether it waited here.
    pub(in crate::core) fn withdraw(&mut self, key: RequestKey) -> bool {
        if self.abandon(key) {
            return true;
        }
        let Some(at) = self.waiting.iter().position(|waiter| waiter.key == Some(key)) else {
            return false;
        };
        if at >= self.submitted {
            self.waiting.remove(at);
            return true;
        }
        let mut behind: Vec<u32> = self.handed_from(at + 1).collect();
        let weight = self.waiting[at].weight;
        if behind.iter().all(|other| *other == weight) {
            behind.clear();
        }
        for withdrawn in 0..=behind.len() {
            if self.drive(Input::Withdraw).is_err() {
                assert_eq!(withdrawn, 0, "a protocol withdraws all requests or none");
                self.waiting[at].key = None;
                self.abandoned += 1;
                return true;
            }
        }
        self.take_handed(at);
        for weight in behind {
            self.drive(Input::Acquire { weight }).expect("it was submitted before");
        }
        self.submit_more();
        true
    }

    fn handed_from(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        self.waiting.range(at..self.submitted).map(|waiter| waiter.weight)
    }
}
