//! The open bucket, from which events come out. It is sorted, and an insertion keeps it sorted.
//!
//! It is a list of chunks, so that an insertion in the middle moves a chunk and not a million
//! entries. A bucket that arrived in order is taken over chunk by chunk; any other bucket is
//! gathered into one large chunk and sorted, and that chunk is split where an insertion hits it.

use std::collections::VecDeque;
use std::mem;

use super::sort::sort;
use super::{Bucket, CHUNK, Chunk, Entry, Pool};

/// Entries in the order in which they come out.
#[derive(Clone, Debug)]
pub(super) struct Open<E> {
    /// The chunk from which entries are taken.
    pub(super) front: VecDeque<Entry<E>>,
    /// The chunks behind it, none of them empty.
    rest: VecDeque<Chunk<E>>,
}

impl<E> Default for Open<E> {
    fn default() -> Self {
        Self { front: VecDeque::new(), rest: VecDeque::new() }
    }
}

impl<E> Open<E> {
    /// Inserts an entry behind all entries that are not later.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry<E>, pool: &mut Pool<E>) {
        let last = self.rest.back().map_or(self.front.back(), |tail| tail.last());
        if last.is_some_and(|last| last.offset > entry.offset) {
            return self.insert(entry, pool);
        }
        match self.rest.back_mut() {
            Some(tail) if tail.len() < CHUNK => tail.push(entry),
            None if self.front.len() < CHUNK => self.front.push_back(entry),
            Some(_) | None => {
                let mut tail = pool.take();
                tail.push(entry);
                self.rest.push_back(tail);
            }
        }
    }

    /// Inserts an entry before the last one. A full or large chunk is halved until it has room.
    #[inline(never)]
    fn insert(&mut self, entry: Entry<E>, pool: &mut Pool<E>) {
        let not_later = |other: &Entry<E>| other.offset <= entry.offset;
        let chunk = self.rest.partition_point(|chunk| not_later(&chunk[0]));
        if chunk == 0 {
            if self.front.len() >= CHUNK {
                let mut half = pool.take();
                half.extend(self.front.drain(self.front.len() / 2..));
                self.rest.push_front(half);
                return self.insert(entry, pool);
            }
            self.front.insert(self.front.partition_point(not_later), entry);
        } else {
            let before = &mut self.rest[chunk - 1];
            if before.len() >= CHUNK {
                let mut half = pool.take();
                half.extend(before.drain(before.len() / 2..));
                self.rest.insert(chunk, half);
                return self.insert(entry, pool);
            }
            before.insert(before.partition_point(not_later), entry);
        }
    }

    /// When the front is empty, advances to the next chunk, if there is one.
    pub(super) fn next_chunk(&mut self, pool: &mut Pool<E>) -> bool {
        let next = self.rest.pop_front();
        let found = next.is_some();
        if found || self.front.capacity() > CHUNK {
            // A large chunk must not outlive its entries.
            self.set_front(next.unwrap_or_else(|| pool.take()), pool);
        }
        found
    }

    /// Takes over the entries of a bucket. The open bucket must be empty.
    pub(super) fn fill(&mut self, bucket: Bucket<E>, width_bits: u32, pool: &mut Pool<E>) {
        assert!(self.rest.is_empty() && !bucket.tail.is_empty());
        let sorted = bucket.is_sorted();
        let Bucket { mut full, mut tail, .. } = bucket;
        if sorted && !full.is_empty() {
            full.push(tail);
            self.rest = full.into();
            self.next_chunk(pool);
            return;
        }
        if !full.is_empty() {
            let mut all = Vec::with_capacity(full.len() * CHUNK + tail.len());
            for mut chunk in full.into_iter().chain([tail]) {
                all.append(&mut chunk);
                pool.give(chunk);
            }
            tail = all;
        }
        if !sorted {
            sort(&mut tail, width_bits);
        }
        self.set_front(tail, pool);
    }

    fn set_front(&mut self, chunk: Chunk<E>, pool: &mut Pool<E>) {
        assert!(self.front.is_empty());
        pool.give(mem::replace(&mut self.front, chunk.into()).into());
    }

    /// The number of entries for which the chunks have room.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.front.capacity() + self.rest.iter().map(Vec::capacity).sum::<usize>()
    }
}
