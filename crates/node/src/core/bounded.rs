//! Bounds the size of a status. Clients decide how many requests there are and what they say of
//! themselves, and a status that cannot be sent or decoded would hide all of it.
//!
//! What does not fit is left out in this order, and counted in [`Omitted`]:
//! 1. the reasons and the meta of all clients;
//! 2. gates that nobody uses, then other gates, when their descriptions take half of the bytes;
//! 3. of each gate, what exceeds its share of the other half: first the end of the queue, then
//!    durable permits, then holders. What small gates leave over is shared by the greater ones.

use serde::{Deserialize, Serialize};

use super::note::Note;
use super::view::{ClientView, DurablePermitView, GateView};

/// An upper bound of the bytes of an entry without its texts and lists, in both encodings: the
/// nodes' own and protobuf.
const FIXED: usize = 128;
/// The same for a text, a number in a list, and a pair of meta.
const TEXT: usize = 5;
const NUMBER: usize = 11;
const PAIR: usize = 12;

/// What a status of a gate leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// Whether the reasons and meta of the clients are left out.
    pub notes: bool,
    /// The number of holders that are not listed, without durable permits.
    pub holders: u32,
    /// The number of their slots.
    pub slots: u32,
    /// The number of waiting requests that are not listed.
    pub waiting: u32,
    /// The number of durable permits that are not listed.
    pub durable: u32,
    /// The number of their slots.
    pub durable_slots: u32,
}

/// Cuts the views of a node to this size. Returns the number of gates that are left out.
pub(crate) fn bound(gates: &mut Vec<GateView>, bytes: usize) -> u32 {
    if size(gates) <= bytes {
        return 0;
    }
    for gate in gates.iter_mut() {
        for client in gate.holders.iter_mut().chain(&mut gate.waiting) {
            gate.omitted.notes |= !client.process.note.is_empty();
            client.process.note = Note::default();
        }
    }
    let all = gates.len();
    keep_gates(gates, bytes / 2);
    let heads: usize = gates.iter().map(head).sum();
    let mut left = bytes.saturating_sub(heads);
    let mut by_size: Vec<&mut GateView> = gates.iter_mut().collect();
    by_size.sort_by_key(|gate| entries(gate));
    let count = by_size.len();
    for (at, gate) in by_size.into_iter().enumerate() {
        left -= keep_entries(gate, left / (count - at));
    }
    number(all - gates.len())
}

/// An upper bound of the encoded bytes of these views.
pub(crate) fn size(gates: &[GateView]) -> usize {
    gates.iter().map(|gate| head(gate) + entries(gate)).sum()
}

/// Keeps as many gates as fit, those in use first, in their order.
fn keep_gates(gates: &mut Vec<GateView>, mut left: usize) {
    let mut kept = vec![false; gates.len()];
    for used in [true, false] {
        for (gate, kept) in gates.iter().zip(&mut kept).filter(|(gate, _)| is_used(gate) == used) {
            *kept = head(gate) <= left;
            left -= if *kept { head(gate) } else { 0 };
        }
    }
    let mut kept = kept.into_iter();
    gates.retain(|_| kept.next().unwrap_or(false));
}

/// Keeps as many entries of a gate as fit, and returns their size.
fn keep_entries(gate: &mut GateView, bytes: usize) -> usize {
    let mut used = 0;
    let holders = cut(&mut gate.holders, bytes, &mut used, client);
    gate.omitted.holders += number(holders.len());
    gate.omitted.slots += holders.iter().map(|holder| holder.weight).sum::<u32>();
    let durable = cut(&mut gate.held, bytes, &mut used, durable);
    gate.omitted.durable += number(durable.len());
    gate.omitted.durable_slots += durable.iter().map(|held| number(held.slots.len())).sum::<u32>();
    gate.omitted.waiting += number(cut(&mut gate.waiting, bytes, &mut used, client).len());
    used
}

/// Keeps the first entries that fit, and returns the others.
fn cut<T>(
    entries: &mut Vec<T>,
    bytes: usize,
    used: &mut usize,
    size: impl Fn(&T) -> usize,
) -> Vec<T> {
    let fits = |entry: &&T| {
        let fits = *used + size(entry) <= bytes;
        *used += if fits { size(entry) } else { 0 };
        fits
    };
    let kept = entries.iter().take_while(fits).count();
    entries.split_off(kept)
}

fn is_used(gate: &GateView) -> bool {
    !(gate.holders.is_empty() && gate.held.is_empty() && gate.waiting.is_empty())
}

/// The bytes of a gate without its entries.
fn head(gate: &GateView) -> usize {
    let texts = [&gate.name, &gate.author, &gate.protocol].map(text).iter().sum::<usize>();
    let source = gate.source.names().iter().map(text).sum::<usize>();
    let source = source + gate.source.expression().map_or(0, str::len);
    FIXED + texts + source + NUMBER * (gate.lacking.len() + gate.past_holds.len())
}

fn entries(gate: &GateView) -> usize {
    let clients = gate.holders.iter().chain(&gate.waiting).map(client).sum::<usize>();
    clients + gate.held.iter().map(durable).sum::<usize>()
}

fn client(client: &ClientView) -> usize {
    let process = &client.process;
    let texts = [&process.host, &process.user, &process.command, &process.note.reason];
    let texts = texts.map(text).iter().sum::<usize>();
    let pairs = process.note.meta.iter().map(|(key, value)| PAIR + key.len() + value.len());
    FIXED + texts + pairs.sum::<usize>() + NUMBER * client.slots.len()
}

fn durable(held: &DurablePermitView) -> usize {
    FIXED + text(&held.holder) + NUMBER * held.slots.len()
}

fn text(text: impl AsRef<str>) -> usize {
    TEXT + text.as_ref().len()
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
