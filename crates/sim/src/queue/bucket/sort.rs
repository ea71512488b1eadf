//! The stable sort of a bucket's entries by offset.
//!
//! Random delays spread the entries of a bucket evenly over its width. So one counting pass by the
//! leading bits of the offset, with about as many digits as entries, leaves groups of one or two
//! entries; it costs one swap per entry, where a comparison sort costs several moves. Uneven groups
//! are sorted by comparison, so the worst case is that of the standard library.

use super::Entry;

/// Up to this length the standard sort is an insertion sort.
const FEW: usize = 20;

/// Sorts by offset. Offsets are below 2^`width_bits`; equal ones keep their order.
pub(super) fn sort<E>(entries: &mut [Entry<E>], width_bits: u32) {
    if entries.len() <= FEW {
        return entries.sort_by_key(|entry| entry.offset);
    }
    let digit_bits = entries.len().ilog2().min(width_bits);
    let shift = width_bits - digit_bits;
    let digit = |entry: &Entry<E>| (entry.offset >> shift) as usize;

    // The begin of each digit's group.
    let mut bounds = vec![0u32; (1 << digit_bits) + 1];
    for entry in &*entries {
        bounds[digit(entry) + 1] += 1;
    }
    for next in 1..bounds.len() {
        bounds[next] += bounds[next - 1];
    }
    // The place of each entry. Afterwards the bounds are the ends of the groups.
    let place = |entry: &Entry<E>| {
        let bound = &mut bounds[digit(entry)];
        *bound += 1;
        *bound - 1
    };
    let mut places: Vec<u32> = entries.iter().map(place).collect();
    for here in 0..entries.len() {
        while places[here] as usize != here {
            let there = places[here] as usize;
            entries.swap(here, there);
            places.swap(here, there);
        }
    }
    if shift > 0 {
        let mut start = 0;
        for end in bounds.into_iter().map(|end| end as usize) {
            if end - start > 1 {
                entries[start..end].sort_by_key(|entry| entry.offset);
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Even, clustered and equal offsets, in buckets of any width, are sorted as by the stable
    /// standard sort.
    #[test]
    fn sorts_like_the_standard_library() {
        let mut rng = 1u64;
        let mut random = |bits: u32| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(rng >> 33).expect("31 bits") >> (31 - bits)
        };
        for width_bits in [0, 1, 5, 12, 31] {
            for len in [0, 1, 2, FEW, FEW + 1, 100, 3000] {
                // In the second half of the cases all but the lowest bits are the same.
                for (random_bits, base) in
                    [(width_bits, 0), (width_bits.min(3), (1u32 << width_bits) >> 1)]
                {
                    let offsets: Vec<u32> = (0..len).map(|_| base | random(random_bits)).collect();
                    let entry = |(event, &offset)| Entry {
                        offset: offset & ((1 << width_bits) - 1),
                        event,
                    };
                    let mut entries: Vec<Entry<usize>> =
                        offsets.iter().enumerate().map(entry).collect();
                    let key = |entry: &Entry<usize>| (entry.offset, entry.event);
                    let mut expected: Vec<_> = entries.iter().map(key).collect();
                    expected.sort_unstable();
                    sort(&mut entries, width_bits);
                    assert_eq!(entries.iter().map(key).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
