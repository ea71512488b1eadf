//! draft
use std::collections::{BTreeMap, VecDeque};
use std::mem;

use kgate_core::{Span, Time};

use super::EventQueue;

const RING_BITS: u32 = 12;
const RING: usize = 1 << RING_BITS;
const PAGE_BITS: u32 = 6;
const PAGES: u64 = 1 << (RING_BITS - PAGE_BITS);
const WIDTH_BITS_MAX: u32 = 31;
const CHUNK: usize = 128;
const UNSORTED: u32 = u32::MAX;

/// The fast queue.
pub struct BucketQueue<E> {
    len: usize,
    last: u64,
    width_bits: u32,
    slot: u64,
    end: u64,
    front: VecDeque<Entry<E>>,
    rest: VecDeque<Vec<Entry<E>>>,
    ring: Box<[Bucket<E>]>,
    occupied: Occupied,
    far: BTreeMap<u64, Page<E>>,
    pool: Vec<Vec<Entry<E>>>,
    ranks: Vec<u32>,
    starts: Vec<u32>,
}

struct Entry<E> {
    offset: u32,
    event: E,
}

struct Bucket<E> {
    full: Vec<Vec<Entry<E>>>,
    tail: Vec<Entry<E>>,
    min: u32,
    last: u32,
}

struct Page<E> {
    min: u64,
    entries: Vec<(u64, E)>,
}

struct Occupied {
    words: [u64; RING / 64],
    summary: [u64; RING.div_ceil(4096)],
}

impl Occupied {
    #[inline]
    fn insert(&mut self, index: usize) {
        self.words[index / 64] |= 1 << (index % 64);
        self.summary[index / 4096] |= 1 << (index / 64 % 64);
    }
    fn remove(&mut self, index: usize) {
        let word = &mut self.words[index / 64];
        *word &= !(1 << (index % 64));
        if *word == 0 {
            self.summary[index / 4096] &= !(1 << (index / 64 % 64));
        }
    }
    fn next(&self, start: usize) -> Option<usize> {
        let word = self.words[start / 64] >> (start % 64);
        if word != 0 {
            return Some(start + word.trailing_zeros() as usize);
        }
        let mut i = start / 64 + 1;
        let mut s = i / 64 % self.summary.len();
        let mut bits = self.summary[s] & u64::MAX.checked_shl((i % 64) as u32).unwrap_or(0);
        if i / 64 >= self.summary.len() {
            bits = self.summary[0];
            s = 0;
        }
        for _ in 0..=self.summary.len() {
            if bits != 0 {
                i = s * 64 + bits.trailing_zeros() as usize;
                return Some(i * 64 + self.words[i].trailing_zeros() as usize);
            }
            s = (s + 1) % self.summary.len();
            bits = self.summary[s];
        }
        None
    }
}

impl<E> Bucket<E> {
    #[inline]
    fn push(&mut self, offset: u32, event: E, pool: &mut Vec<Vec<Entry<E>>>) {
        self.min = self.min.min(offset);
        self.last = if offset >= self.last { offset } else { UNSORTED };
        if self.tail.len() >= CHUNK {
            self.grow(pool);
        }
        self.tail.push(Entry { offset, event });
    }
    #[cold]
    #[inline(never)]
    fn grow(&mut self, pool: &mut Vec<Vec<Entry<E>>>) {
        self.full.push(mem::replace(&mut self.tail, pool.pop().unwrap_or_default()));
    }
}

impl<E> BucketQueue<E> {
    #[inline]
    fn push_ring(&mut self, slot: u64, at: u64, event: E) {
        let index = slot as usize % RING;
        let offset = (at & ((1 << self.width_bits) - 1)) as u32;
        let b = &mut self.ring[index];
        if b.tail.is_empty() {
            self.occupied.insert(index);
            if b.tail.capacity() == 0 {
                b.tail = self.pool.pop().unwrap_or_default();
            }
        }
        b.push(offset, event, &mut self.pool);
    }

    #[inline(never)]
    fn push_far(&mut self, slot: u64, at: u64, event: E) {
        let page =
            self.far.entry(slot >> PAGE_BITS).or_insert_with(|| Page { min: u64::MAX, entries: Vec::new() });
        page.min = page.min.min(at);
        page.entries.push((at, event));
    }

    #[inline]
    fn push_open(&mut self, at: u64, event: E) {
        let offset = (at & ((1 << self.width_bits) - 1)) as u32;
        if let Some(tail) = self.rest.back_mut() {
            if tail[tail.len() - 1].offset <= offset {
                if tail.len() < CHUNK {
                    tail.push(Entry { offset, event });
                } else {
                    let mut c = self.pool.pop().unwrap_or_default();
                    c.push(Entry { offset, event });
                    self.rest.push_back(c);
                }
                return;
            }
        } else if self.front.back().is_none_or(|e| e.offset <= offset) {
            if self.front.len() < CHUNK {
                self.front.push_back(Entry { offset, event });
            } else {
                let mut c = self.pool.pop().unwrap_or_default();
                c.push(Entry { offset, event });
                self.rest.push_back(c);
            }
            return;
        }
        self.insert_open(Entry { offset, event });
    }

    #[inline(never)]
    fn insert_open(&mut self, entry: Entry<E>) {
        let offset = entry.offset;
        let i = self.rest.partition_point(|c| c[0].offset <= offset);
        if i == 0 {
            let mut pos = self.front.partition_point(|e| e.offset <= offset);
            if self.front.len() >= CHUNK {
                let half = self.front.len() / 2;
                let back = self.front.split_off(half);
                self.rest.push_front(back.into());
                if pos > half {
                    pos -= half;
                    self.rest[0].insert(pos, entry);
                    return;
                }
            }
            self.front.insert(pos, entry);
        } else {
            let chunk = &mut self.rest[i - 1];
            let pos = chunk.partition_point(|e| e.offset <= offset);
            if chunk.len() >= CHUNK {
                let half = chunk.len() / 2;
                let mut back = chunk.split_off(half);
                if pos > half {
                    back.insert(pos - half, entry)
                } else {
                    chunk.insert(pos, entry)
                }
                self.rest.insert(i, back);
            } else {
                chunk.insert(pos, entry);
            }
        }
    }

    #[inline(never)]
    fn refill(&mut self, until: u64) -> bool {
        if let Some(chunk) = self.rest.pop_front() {
            self.set_front(chunk);
            return true;
        }
        let start = self.slot as usize % RING;
        if let Some(index) = self.occupied.next(start) {
            let slot = self.slot + (index.wrapping_sub(start) % RING) as u64;
            if (slot << self.width_bits) + u64::from(self.ring[index].min) > until {
                return false;
            }
            self.advance(slot);
        } else {
            let Some((_, page)) = self.far.first_key_value() else { return false };
            if page.min > until {
                return false;
            }
            self.advance(page.min >> self.width_bits);
        }
        self.open();
        true
    }
    fn set_front(&mut self, chunk: Vec<Entry<E>>) {
        let mut old = mem::replace(&mut self.front, chunk.into());
        old.clear();
        if old.capacity() > 0 && old.capacity() <= CHUNK {
            self.pool.push(old.into())
        }
    }
    fn advance(&mut self, slot: u64) {
        self.slot = slot;
        let page = (slot >> PAGE_BITS) + PAGES;
        self.end = page << PAGE_BITS;
        while let Some(e) = self.far.first_entry()
            && *e.key() < page
        {
            for (at, e) in e.remove().entries {
                self.push_ring(at >> self.width_bits, at, e);
            }
        }
    }
    fn open(&mut self) {
        let index = self.slot as usize % RING;
        self.occupied.remove(index);
        let b = &mut self.ring[index];
        let sorted = b.last != UNSORTED;
        b.min = u32::MAX;
        b.last = 0;
        let mut tail = mem::take(&mut b.tail);
        if b.full.is_empty() {
            if !sorted {
                sort(&mut tail, self.width_bits, &mut self.ranks, &mut self.starts)
            }
            self.set_front(tail);
        } else {
            let mut full = mem::take(&mut b.full);
            full.push(tail);
            if sorted {
                self.rest = full.into();
                let f = self.rest.pop_front().unwrap();
                self.set_front(f);
            } else {
                let n = full.iter().map(Vec::len).sum();
                let mut all = Vec::with_capacity(n);
                for mut c in full {
                    all.append(&mut c);
                    self.pool.push(c);
                }
                sort(&mut all, self.width_bits, &mut self.ranks, &mut self.starts);
                self.set_front(all);
            }
        }
    }
}

fn sort<E>(entries: &mut [Entry<E>], width_bits: u32, ranks: &mut Vec<u32>, starts: &mut Vec<u32>) {
    let n = entries.len();
    if n <= 20 {
        return entries.sort_by_key(|e| e.offset);
    }
    let digit_bits = (n.ilog2() + EXTRA).min(width_bits);
    let shift = width_bits - digit_bits;
    let digits = 1usize << digit_bits;
    starts.clear();
    starts.resize(digits + 1, 0);
    for e in entries.iter() {
        starts[(e.offset >> shift) as usize + 1] += 1;
    }
    for d in 1..=digits {
        starts[d] += starts[d - 1];
    }
    ranks.clear();
    ranks.extend(entries.iter().map(|e| {
        let start = &mut starts[(e.offset >> shift) as usize];
        *start += 1;
        *start - 1
    }));
    for i in 0..n {
        while ranks[i] as usize != i {
            let to = ranks[i] as usize;
            entries.swap(i, to);
            ranks.swap(i, to);
        }
    }
    if shift == 0 {
        return;
    }
    let mut from = 0;
    for &to in &starts[..digits] {
        let to = to as usize;
        if to - from > 1 {
            entries[from..to].sort_by_key(|e| e.offset);
        }
        from = to;
    }
}
const EXTRA: u32 = 0;

impl<E> EventQueue<E> for BucketQueue<E> {
    const RECORDS: bool = true;

    fn new(spread: Span) -> Self {
        let mut width_bits = 0;
        while width_bits < WIDTH_BITS_MAX && ((RING as u64 - (1 << PAGE_BITS)) << width_bits) < spread.0 {
            width_bits += 1
        }
        Self {
            len: 0,
            last: 0,
            width_bits,
            slot: 0,
            end: RING as u64,
            front: VecDeque::new(),
            rest: VecDeque::new(),
            ring: (0..RING)
                .map(|_| Bucket { full: Vec::new(), tail: Vec::new(), min: u32::MAX, last: 0 })
                .collect(),
            occupied: Occupied { words: [0; _], summary: [0; _] },
            far: BTreeMap::new(),
            pool: Vec::new(),
            ranks: Vec::new(),
            starts: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, at: Time, event: E) {
        let at = at.0;
        assert!(at >= self.last);
        self.len += 1;
        let slot = at >> self.width_bits;
        if slot == self.slot {
            self.push_open(at, event)
        } else if slot < self.end {
            self.push_ring(slot, at, event)
        } else {
            self.push_far(slot, at, event)
        }
    }

    #[inline]
    fn pop(&mut self, until: Time) -> Option<(Time, E)> {
        loop {
            if let Some(e) = self.front.front() {
                let at = (self.slot << self.width_bits) + u64::from(e.offset);
                if at > until.0 {
                    return None;
                }
                let e = self.front.pop_front()?;
                self.last = at;
                self.len -= 1;
                return Some((Time(at), e.event));
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
