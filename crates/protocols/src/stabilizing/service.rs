//! Theorem 4.3: the number of waves until every process has had a token.

use alloc::vec;
use alloc::vec::Vec;

use kgate_core::NodeId;

/// The longest wait of any process on this tree: ceil(product of the numbers of children from the
/// root to its parent / l) waves.
///
/// Every process sends its tokens to its children in turn. So of as many consecutive tokens as that
/// product, which the root has sent, one reaches the process, wherever the pointers stand.
///
/// `parents` has one entry per process: none, or the process itself, at the root. Numbers saturate
/// at 64 bits.
pub fn waves_to_serve(parents: &[Option<NodeId>], k: u32) -> u64 {
    let parent = |at: usize| parents[at].map(NodeId::index).filter(|&above| above != at);
    let mut children = vec![0_u64; parents.len()];
    (0..parents.len()).filter_map(parent).for_each(|above| children[above] += 1);
    // The product above each process, once it is known; then the path down to it is walked back.
    let mut product: Vec<Option<u64>> = vec![None; parents.len()];
    let mut way = Vec::new();
    for start in 0..parents.len() {
        let mut at = start;
        while product[at].is_none() {
            way.push(at);
            match parent(at).filter(|_| way.len() <= parents.len()) {
                Some(above) => at = above,
                None => product[at] = Some(1),
            }
        }
        while let Some(below) = way.pop() {
            if let Some(above) = parent(below) {
                let known = product[above].expect("walked down from there");
                product[below] = Some(known.saturating_mul(children[above]));
            }
        }
    }
    product.into_iter().flatten().max().unwrap_or(1).div_ceil(u64::from(k))
}
