//! Text of other parties, for a terminal.
//!
//! Names of gates, users and hosts, command lines and reasons come from clients. A terminal obeys
//! control characters in them: it moves its cursor, changes its title, or answers as if the user
//! had typed. Characters that change the order or visibility of the text around them let a line
//! show something other than it says. Such characters are shown as escapes.

use std::borrow::Cow;

use crate::v1::{ClientStatus, DurablePermitStatus, GateStatus, NodeStatus, Process, StatusReply};

/// The text with every character that a terminal would not show as such replaced by its escape:
/// `\n`, `\x1b`, `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            other if is_shown(other) => shown.push(other),
            other if other.is_ascii() => shown.push_str(&format!("\\x{:02x}", u32::from(other))),
            other => shown.extend(other.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

/// The same for a text of several lines.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if text.chars().all(|character| character == '\n' || is_shown(character)) {
        return Cow::Borrowed(text);
    }
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    Cow::Owned(lines.join("\n"))
}

/// A status whose texts are printable.
pub fn printable_status(reply: &StatusReply) -> StatusReply {
    StatusReply {
        gates: reply.gates.iter().map(printable_gate).collect(),
        node_statuses: reply.node_statuses.iter().map(node).collect(),
        ..reply.clone()
    }
}

/// The status of a gate whose texts are printable.
pub(crate) fn printable_gate(gate: &GateStatus) -> GateStatus {
    // Every field is named, so that a new text is not forgotten.
    let GateStatus {
        name,
        k,
        protocol,
        updated_by,
        holders,
        waiting,
        waiting_for,
        durable_permits,
        policy,
        past_holds_ns,
    } = gate;
    GateStatus {
        name: owned(name),
        k: *k,
        protocol: owned(protocol),
        updated_by: owned(updated_by),
        holders: holders.iter().map(client).collect(),
        waiting: waiting.iter().map(client).collect(),
        waiting_for: waiting_for.clone(),
        durable_permits: durable_permits.iter().map(durable).collect(),
        policy: *policy,
        past_holds_ns: past_holds_ns.clone(),
    }
}

fn client(client: &ClientStatus) -> ClientStatus {
    let ClientStatus {
        node,
        process,
        weight,
        age_ns,
        slots,
        fence,
        disconnected,
        guarded,
        session_id,
    } = client;
    ClientStatus {
        node: *node,
        process: process.as_ref().map(|process| {
            let Process { pid, host, user, command } = process;
            Process { pid: *pid, host: owned(host), user: owned(user), command: owned(command) }
        }),
        weight: *weight,
        age_ns: *age_ns,
        slots: slots.clone(),
        fence: fence.as_deref().map(owned),
        disconnected: *disconnected,
        guarded: *guarded,
        session_id: *session_id,
    }
}

fn durable(permit: &DurablePermitStatus) -> DurablePermitStatus {
    let DurablePermitStatus { permit_id, slots, fence, holder, node, age_ns, ttl_ns, ttl_left_ns } =
        permit;
    DurablePermitStatus {
        permit_id: *permit_id,
        slots: slots.clone(),
        fence: owned(fence),
        holder: owned(holder),
        node: *node,
        age_ns: *age_ns,
        ttl_ns: *ttl_ns,
        ttl_left_ns: *ttl_left_ns,
    }
}

fn node(status: &NodeStatus) -> NodeStatus {
    let NodeStatus { node, lease_left_ns, no_lease_reason, leader, applied_index } = status;
    NodeStatus {
        node: *node,
        lease_left_ns: *lease_left_ns,
        no_lease_reason: owned(no_lease_reason),
        leader: *leader,
        applied_index: *applied_index,
    }
}

fn owned(text: &str) -> String {
    printable(text).into_owned()
}

fn is_shown(character: char) -> bool {
    !character.is_control() && !is_format(character)
}

/// Characters of Unicode's category Cf, line and paragraph separators, and variation selectors that
/// are no part of an emoji: none has a width of its own.
fn is_format(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No control character and no invisible one is left; everything else stays.
    #[test]
    fn a_terminal_obeys_nothing() {
        for (text, shown) in [
            ("make -j8 naïve 漢字 🚂", "make -j8 naïve 漢字 🚂"),
            ("a\x1b]0;title\x07b", "a\\x1b]0;title\\x07b"),
            ("a\nkgate: forged\r\tb", "a\\nkgate: forged\\r\\tb"),
            ("\u{9b}31m\x7f", "\\u{9b}31m\\x7f"),
            ("user\u{202e}toor", "user\\u{202e}toor"),
            ("a\u{200b}b\u{e0041}", "a\\u{200b}b\\u{e0041}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable_lines("a\nb\x1b"), "a\nb\\x1b");
        let all: String = (0..0x11_0000).filter_map(char::from_u32).collect();
        assert!(!printable(&all).chars().any(|character| character.is_control()));
    }
}
