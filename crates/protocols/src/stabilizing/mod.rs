//! stabilizing-2014: self-stabilizing l-exclusion, on any connected network with a root (Hadid and
//! Karaata, Algorithm 3.1, corrected).
//!
//! Whatever the variables are at the start, or become by a transient fault, the system soon
//! recovers, and then at most l processes are inside at any time. No process but the root has an
//! identity, and none knows more than its neighbours' variables and n.
//!
//! # The algorithm
//!
//! **Tokens.** The root sends l tokens, one after the other, to its neighbours in turn (a1 the
//! first, a2 the others). A process that is offered a token may be inside until it takes it (a6):
//! then the sender is its parent, its level is the sender's plus 1, and it offers the token to the
//! next of its children and of those neighbours that have no parent; at a leaf the token ends. When
//! the next process has taken it and the sender has moved on, the process cleans itself (a9) and is
//! ready for another. **Broadcast and feedback.** When its last token was taken (a3) and its
//! neighbours are clean, the root sends a broadcast down the tree (a4, a7); it follows the tokens
//! and does not overtake them. It turns back at the leaves as feedback (a8), behind which every
//! process cleans itself (a9). When the feedback is back, no token is left in the tree; the root
//! becomes clean (a5) and the next wave can start. **Corrections.** A process whose level does not
//! fit its parent's leaves it (a10); one whose phase does not fit becomes clean (a11).
//!
//! Invariant: once the network is normal and the root starts a wave with nothing left of the one
//! before (the paper's INC), there are at most l tokens in it for ever: the root adds some only
//! when the feedback says that there is none.
//!
//! Cost: four variables per process; a wave takes O(height of the tree + l) rounds.
//!
//! - `state.rs`: the variables; `macros.rs`: the paper's macros; `root.rs`: a1 .. a5; `others.rs`:
//!   a6 .. a11;
//!
//! `text.rs`: a state in the paper's notation; `survey.rs`: INC and the number of tokens;
//! `service.rs`: Theorem 4.3; `defects.rs`: the switches.
//!
//! # The paper's claims, and what holds
//!
//! `kgate sim --protocol stabilizing --model state` with the options given shows each;
//! `tests/tests/stabilizing_2014` checks them, on all networks of up to 3 processes with every
//! configuration and every daemon.
//!
//! - No process is ever stuck, and every one is served again and again under a weakly fair daemon:
//!   holds with the corrections. `--daemon distributed --graph random -n 24 -k 3 --start random`
//! - Theorem 4.1, normal in D + 1 rounds: holds with D = n-1 (that is, n rounds), not with the
//!   diameter, which a parent's path can exceed. `--daemon distributed --graph ring -n 24 -k 2
//!   --start random`
//! - Corollary 4.1, normal for ever after: holds on trees. Where there are cycles it does not: the
//!   root takes a process from its parent, whose children then have wrong levels. It stays normal
//!   once all neighbours of the root are its children. `--daemon synchronous --graph complete -n 4
//!   -k 1 --start clean`
//! - Lemma 4.12, stabilised in O(ceil(n/l) (l + D)) rounds: does not hold. On a caterpillar one
//!   token in 2^depth comes to the end. `--daemon synchronous --graph caterpillar -n 24 -k 1
//!   --start clean --rounds 40000` On complete graphs the diameter is 1, but it takes some n^2/l
//!   rounds until the tree stays as it is. `--daemon synchronous --graph complete -n 64 -k 1
//!   --start clean --rounds 10000`
//! - Theorem 4.2, at most l tokens after INC: does not hold as printed, nor with C1 .. C13, where
//!   there are cycles (see C14); it holds with C14. `--daemon distributed --graph grid -n 36 -k 4
//!   --start random`
//! - Theorem 4.3, the number of waves until every process was served ([`waves_to_serve`]): holds
//!   once the tree stays as it is. `--daemon distributed --graph balanced -n 15 -k 2 --start
//!   random`
//! - "Works also under an unfair daemon": does not. Two neighbours far from the root that are each
//!   other's parent can be left so. `--daemon unfair --graph path -n 4 -k 1 --start random --seed
//!   4`
//! - Liveness is not claimed: fewer than l inside can keep another one waiting.
//!
//! # Corrections
//!
//! All are in force; those marked with * can be taken back (`--as-printed C1`).
//!
//! - C1*: for a5 the root's children must be in F, not all its neighbours.
//! - C2: for a8 each child must be in F (printed: `Child_q = F`).
//! - C3*: a9 is for F and Tok only.
//! - C4: S and P can be none; T of others than the root is one of Tok, C, B, F.
//! - C5*: a10 is for processes that have a parent; a11 for those that are not normal and cannot
//!   a10.
//! - C6*: D is n-1.
//! - C7*: for a9 in Tok, the next one must be in Tok, or this level be D, *or the next one be
//!   another process's child*: then the token is lost.
//! - C8*: for a2 and a3 the last one must be in Tok *as a child of the root*; for a2 the next one
//!   must be clean *unless it is not a child*.
//! - C9*: a root with one neighbour waits between two tokens in a state g_i (action `a2g`), in
//!   which, as in R, the neighbour cleans itself; a2 leads on.
//! - C10*: an offer counts only from a process that is in the tree, and only if it comes from the
//!   root or the parent, or there is no parent.
//! - C11*: a process takes no token while a child is in F or B.
//! - C12, C13: negations that print has lost in T_potr, and `L_q = L_p + 1` for a normal pair: in
//!   `survey.rs` and in Normal.
//! - C14*: kgate's own. A process leaves its parent for the root only with the *first* token of a
//!   wave. Otherwise it cuts off tokens below it that no broadcast reaches, while the root starts
//!   the next wave: l+1 inside, from a clean start (7 processes, l = 2). So the first token goes to
//!   a neighbour that has another parent, if there is one; later tokens that reach such a neighbour
//!   are lost, until all neighbours of the root are its children. When the first is out, all others
//!   are still at the root: none is cut off.
//!
//! Where the text leaves a choice: the order of neighbours is that of their ids, and Next goes
//! around it from S; the level of others than the root is 1 .. D, as the count of 4 d^2 D states
//! has it (with 0 a normal configuration could take n+1 rounds); INC is evaluated for normal
//! configurations only; a clean start has no parents, and the root begins with its first neighbour.
//! Two actions of a process can be enabled at once in one case: a6 by the root's token and a7 by
//! the parent's broadcast; the daemon chooses.

pub mod defects;
mod macros;
mod others;
pub mod refined;
mod root;
mod service;
mod state;
mod survey;
mod text;

pub use service::waves_to_serve;
pub use state::{Phase, State};

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use kgate_core::{Rules, Setup, Step, Survey, View};

/// Algorithm 3.1, corrected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exclusion;

impl Rules for Exclusion {
    const NAME: &'static str = "stabilizing";
    type State = State;

    fn clean(setup: &Setup) -> State {
        state::clean(setup)
    }

    fn arbitrary(setup: &Setup, below: &mut dyn FnMut(u64) -> u64) -> State {
        state::arbitrary(setup, below)
    }

    fn in_domain(setup: &Setup, state: &State) -> bool {
        state::in_domain(setup, state)
    }

    fn enabled(view: View<'_, State>, steps: &mut Vec<Step<State>>) {
        if view.me() == view.graph().root() {
            root::enabled(view, steps);
        } else {
            others::enabled(view, steps);
        }
    }

    fn parse_state(text: &str) -> Option<State> {
        text::parse(text)
    }

    fn print_state(state: &State) -> String {
        state.to_string()
    }

    fn survey(setups: &[Setup], states: &[State]) -> Survey {
        survey::survey(setups, states)
    }
}

#[cfg(test)]
mod tests;
