//! The same numbers of states as SPIN, which explores another, hand-written model of the same
//! algorithm.

use kgate_protocols::broadcast::Direct;
use kgate_protocols::permission::Permission;

use super::holds;

/// n, k, entries; the numbers of SPIN 6.5.2 for `verification/cross-check/raymond.pml`: states
/// stored, and transitions. `cargo xtask spin` counts anew.
const SPIN: [(u32, u32, u32, usize, usize); 7] = [
    (2, 1, 1, 30, 39),
    (2, 1, 2, 126, 177),
    (2, 1, 3, 325, 471),
    (3, 1, 1, 2_049, 5_489),
    (3, 1, 2, 25_674, 71_373),
    (3, 1, 3, 122_015, 343_670),
    (3, 2, 1, 7_228, 22_723),
];

/// `raymond` has exactly the states and steps that it has in Promela. (Both sides count the initial
/// state among the transitions.)
#[test]
fn state_counts_match_spin() {
    for (nodes, k, entries, stored, transitions) in SPIN {
        let found = holds::<Permission<Direct>>(nodes, k, entries, 0);
        let setting = format!("n = {nodes}, k = {k}, {entries} entries");
        assert_eq!((found.unique, found.states), (stored, transitions), "{setting}");
    }
}
