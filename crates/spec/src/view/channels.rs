//! Matches deliveries with sends.
//!
//! A trace names no messages: an arrival belongs to the earliest send of the same text in its
//! channel to which none belongs yet (`docs/reference/trace-format.md`). Only messages in flight
//! are kept.

use std::collections::{BTreeMap, VecDeque};

use kgate_core::NodeId;

use crate::trace::reader::{Event, Record};

/// The messages under way, each with what its sender left there.
pub(crate) struct Channels<T>(BTreeMap<(NodeId, NodeId), BTreeMap<String, VecDeque<T>>>);

impl<T> Default for Channels<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Channels<T> {
    /// A message is sent; `left` is data of the sender.
    pub(crate) fn send(&mut self, from: NodeId, to: NodeId, message: &str, left: T) {
        let channel = self.0.entry((from, to)).or_default();
        match channel.get_mut(message) {
            Some(same) => same.push_back(left),
            None => {
                channel.insert(message.to_owned(), VecDeque::from([left]));
            }
        }
    }

    /// A message is delivered or lost; none if its send was not seen.
    pub(crate) fn take(&mut self, from: NodeId, to: NodeId, message: &str) -> Option<T> {
        let channel = self.0.get_mut(&(from, to))?;
        let same = channel.get_mut(message)?;
        let left = same.pop_front();
        if same.is_empty() {
            channel.remove(message);
        }
        left
    }

    /// The data of the next such message to be delivered.
    pub(crate) fn next(&self, from: NodeId, to: NodeId, message: &str) -> Option<&T> {
        self.0.get(&(from, to))?.get(message)?.front()
    }

    /// All messages in transit: sender and receiver, text, and data of the sender.
    pub(crate) fn rest(self) -> impl Iterator<Item = ((NodeId, NodeId), String, T)> {
        self.0.into_iter().flat_map(|(way, channel)| {
            channel.into_iter().flat_map(move |(message, same)| {
                same.into_iter().map(move |left| (way, message.clone(), left))
            })
        })
    }

    /// Processes an event: a send stores `left`; a delivery or loss returns what the sender stored.
    pub(crate) fn see(
        &mut self,
        record: &Record,
        nodes: u32,
        left: impl FnOnce() -> T,
    ) -> Option<T> {
        if let Event::Send { message, .. } = &record.event {
            let left = left();
            for to in record.receivers(nodes) {
                self.send(record.node, to, message, left.clone());
            }
        } else if let Event::Duplicated { to, message, .. } = &record.event {
            let copy = self.next(record.node, *to, message).cloned().unwrap_or_else(left);
            self.send(record.node, *to, message, copy);
        } else if let Event::Deliver { from, message, .. } | Event::Lost { from, message, .. } =
            &record.event
        {
            return self.take(*from, record.node, message);
        }
        None
    }
}
