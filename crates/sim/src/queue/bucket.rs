//! The fast queue: a ring of buckets, each of which covers a narrow slice of time.
//!
//! Most events are inserted at most `spread` ahead. The ring covers that much time with [`RING`]
//! buckets of 2^w nanoseconds, so an insertion appends to a bucket that it finds by a shift, and
//! only the *open* bucket, from which events come out, must be sorted. No sequence number is kept:
//! a bucket keeps the order of insertion, so a stable sort by time gives the order that the queue
//! promises, and a bucket whose times arrived in order needs no sort at all. Later events wait in
//! `far`, in pages of 64 buckets; as time advances, a page enters the ring before anything can be
//! inserted into its buckets directly.
//!
//! Invariant: the open bucket is always the bucket of the last event that came out, because `pop`
//! opens a bucket (and moves the ring) only for an event that it then returns. So every later
//! insertion belongs into the open bucket or behind it, even after a `pop` that stopped at its
//! `until`.
//!
//! Cost: a few moves of an entry, one of them through `far`; an insertion into the middle of the
//! open bucket moves part of a chunk. An entry is its event and 4 bytes. Memory follows the events
//! in flight: buckets consist of pooled chunks, and a lone event takes a small one. An empty ring
//! takes 230 kB.

mod occupied;
mod open;
mod sort;

use std::collections::BTreeMap;
use std::mem;

use kgate_core::{Span, Time};

use self::occupied::Occupied;
use self::open::Open;
use super::EventQueue;

/// The number of buckets in the ring. With more of them, their ends no longer stay in the cache;
/// with fewer, short delays too often end in the open bucket, where an insertion is not just an
/// append.
const RING: usize = 1 << RING_BITS;
const RING_BITS: u32 = 12;

/// The number of buckets per page, the unit in which far events enter the ring.
const PAGE: usize = 1 << PAGE_BITS;
const PAGE_BITS: u32 = 6;

/// An offset in a bucket must stay below [`Bucket::UNSORTED`].
const WIDTH_BITS_MAX: u32 = 31;

/// The capacity of a chunk. It is a power of two because a chunk grows up to it by doubling.
const CHUNK: usize = 64;

/// The fast queue.
#[derive(Clone, Debug)]
pub struct BucketQueue<E> {
    len: usize,
    /// The time of the last event that came out.
    last: Time,
    /// A bucket covers 2^`width_bits` nanoseconds: bucket `slot` begins at `slot << width_bits`.
    width_bits: u32,
    /// The open bucket: the bucket of `last`.
    slot: u64,
    open: Open<E>,
    /// The first page that is not in the ring.
    far_page: u64,
    /// The buckets behind the open one and before `far_page`: `slot` is at `slot % RING`.
    ring: Box<[Bucket<E>]>,
    /// The buckets of the ring that have entries.
    occupied: Occupied,
    /// Pages from `far_page` on.
    far: BTreeMap<u64, FarPage<E>>,
    pool: Pool<E>,
}

/// An event in a bucket.
#[derive(Clone, Debug)]
struct Entry<E> {
    /// Nanoseconds since the bucket's beginning.
    offset: u32,
    event: E,
}

const _: () = assert!(size_of::<Entry<[u32; 7]>>() == 32 && size_of::<Entry<[u64; 3]>>() == 32);

/// Up to [`CHUNK`] entries; more in the open bucket, where a sort joins many chunks.
type Chunk<E> = Vec<Entry<E>>;

/// The entries of one slice of time, in the order of insertion.
#[derive(Clone, Debug)]
struct Bucket<E> {
    /// Full chunks, before `tail`.
    full: Vec<Chunk<E>>,
    tail: Chunk<E>,
    /// The smallest offset.
    min: u32,
    /// The last offset while offsets arrive in order, then `UNSORTED`.
    last: u32,
}

/// The entries of [`PAGE`] buckets that are not in the ring yet, in the order of insertion.
#[derive(Clone, Debug)]
struct FarPage<E> {
    /// The earliest time.
    min: u64,
    chunks: Vec<Vec<(u64, E)>>,
}

/// Empty chunks for reuse. Every chunk comes from here, and a new one is allocated only when all
/// are in use; so there are never more chunks than were in use at one time.
#[derive(Clone, Debug)]
struct Pool<E> {
    free: Vec<Chunk<E>>,
}

impl<E> EventQueue<E> for BucketQueue<E> {
    const RECORDS: bool = true;

    fn new(spread: Span) -> Self {
        // The ring covers at least all but one page: the current page has partly passed.
        let width = spread.0.div_ceil((RING - PAGE) as u64).next_power_of_two();
        Self {
            len: 0,
            last: Time::ZERO,
            width_bits: width.trailing_zeros().min(WIDTH_BITS_MAX),
            slot: 0,
            open: Open::default(),
            far_page: (RING / PAGE) as u64,
            ring: (0..RING).map(|_| Bucket::default()).collect(),
            occupied: Occupied::default(),
            far: BTreeMap::new(),
            pool: Pool { free: Vec::new() },
        }
    }

    #[inline]
    fn push(&mut self, at: Time, event: E) {
        assert!(
            at >= self.last,
            "an event at {at} is inserted after one at {} came out",
            self.last
        );
        self.len += 1;
        let slot = at.0 >> self.width_bits;
        if slot == self.slot {
            self.open.push(self.entry(at.0, event), &mut self.pool);
        } else if slot >> PAGE_BITS < self.far_page {
            self.push_ring(at.0, event);
        } else {
            self.push_far(at.0, event);
        }
    }

    #[inline]
    fn pop(&mut self, until: Time) -> Option<(Time, E)> {
        loop {
            if let Some(first) = self.open.front.front() {
                let at = Time((self.slot << self.width_bits) + u64::from(first.offset));
                if at > until {
                    return None;
                }
                let entry = self.open.front.pop_front()?;
                self.len -= 1;
                self.last = at;
                return Some((at, entry.event));
            }
            if !self.refill(until.0) {
                return None;
            }
        }
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<E> BucketQueue<E> {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // At most WIDTH_BITS_MAX bits are left.
    fn entry(&self, at: u64, event: E) -> Entry<E> {
        Entry { offset: (at & ((1 << self.width_bits) - 1)) as u32, event }
    }

    #[inline(always)] // An entry is moved once then, not twice.
    fn push_ring(&mut self, at: u64, event: E) {
        let entry = self.entry(at, event);
        let index = ring_index(at >> self.width_bits);
        let bucket = &mut self.ring[index];
        if bucket.tail.is_empty() {
            self.occupied.insert(index);
            bucket.tail = self.pool.take();
        }
        bucket.push(entry, &mut self.pool);
    }

    #[inline(never)]
    fn push_far(&mut self, at: u64, event: E) {
        self.far.entry(at >> self.width_bits >> PAGE_BITS).or_default().push(at, event);
    }

    /// Moves more entries to the front of the open bucket; from a later bucket only if its first
    /// entry is due.
    #[inline(never)]
    fn refill(&mut self, until: u64) -> bool {
        if self.open.next_chunk(&mut self.pool) {
            return true;
        }
        let start = ring_index(self.slot);
        let first = match self.occupied.next(start) {
            Some(index) => {
                let slot = self.slot + (index.wrapping_sub(start) % RING) as u64;
                (slot << self.width_bits) + u64::from(self.ring[index].min)
            }
            None => match self.far.first_key_value() {
                Some((_, page)) => page.min,
                None => return false,
            },
        };
        if first > until {
            return false;
        }
        self.advance(first >> self.width_bits);
        true
    }

    /// Advances the ring to the next bucket that has entries, and opens it.
    fn advance(&mut self, slot: u64) {
        self.slot = slot;
        self.far_page = (slot >> PAGE_BITS) + (RING / PAGE) as u64;
        while let Some(page) = self.far.first_entry()
            && *page.key() < self.far_page
        {
            for (at, event) in page.remove().chunks.into_iter().flatten() {
                self.push_ring(at, event);
            }
        }
        let index = ring_index(slot);
        self.occupied.remove(index);
        self.open.fill(mem::take(&mut self.ring[index]), self.width_bits, &mut self.pool);
    }

    /// The number of entries for which the ring, the open bucket and the pool have room.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        let chunks = |chunks: &[Chunk<E>]| chunks.iter().map(Vec::capacity).sum::<usize>();
        let ring = self.ring.iter().map(|bucket| chunks(&bucket.full) + bucket.tail.capacity());
        ring.sum::<usize>() + self.open.room() + chunks(&self.pool.free)
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // It is below RING.
fn ring_index(slot: u64) -> usize {
    (slot % RING as u64) as usize
}

impl<E> Bucket<E> {
    /// Later than any offset, so that a bucket stays unsorted.
    const UNSORTED: u32 = u32::MAX;

    #[inline]
    fn push(&mut self, entry: Entry<E>, pool: &mut Pool<E>) {
        self.min = self.min.min(entry.offset);
        self.last = if entry.offset >= self.last { entry.offset } else { Self::UNSORTED };
        if self.tail.len() == CHUNK {
            self.grow(pool);
        }
        self.tail.push(entry);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, pool: &mut Pool<E>) {
        self.full.push(mem::replace(&mut self.tail, pool.take()));
    }

    fn is_sorted(&self) -> bool {
        self.last != Self::UNSORTED
    }
}

impl<E> Default for Bucket<E> {
    fn default() -> Self {
        Self { full: Vec::new(), tail: Vec::new(), min: u32::MAX, last: 0 }
    }
}

impl<E> FarPage<E> {
    fn push(&mut self, at: u64, event: E) {
        self.min = self.min.min(at);
        match self.chunks.last_mut() {
            Some(tail) if tail.len() < CHUNK => tail.push((at, event)),
            Some(_) | None => self.chunks.push(vec![(at, event)]),
        }
    }
}

impl<E> Default for FarPage<E> {
    fn default() -> Self {
        Self { min: u64::MAX, chunks: Vec::new() }
    }
}

impl<E> Pool<E> {
    /// Takes an empty chunk; a new one has no memory yet.
    #[inline]
    fn take(&mut self) -> Chunk<E> {
        self.free.pop().unwrap_or_default()
    }

    /// Returns an empty chunk to the pool, unless it was made by a sort or never used.
    fn give(&mut self, chunk: Chunk<E>) {
        assert!(chunk.is_empty());
        if (1..=CHUNK).contains(&chunk.capacity()) {
            self.free.push(chunk);
        }
    }
}
