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
    let mut reply = reply.clone();
    reply.gates.iter_mut().for_each(clean_gate);
    reply.node_statuses.iter_mut().for_each(clean_node);
    reply
}

/// The status of a gate whose texts are printable.
pub(crate) fn printable_gate(gate: &GateStatus) -> GateStatus {
    let mut gate = gate.clone();
    clean_gate(&mut gate);
    gate
}

// From here on every field is named, so that a new text is not forgotten.

fn clean_gate(gate: &mut GateStatus) {
    let GateStatus {
        name,
        k: _,
        protocol,
        updated_by,
        holders,
        waiting,
        waiting_for: _,
        durable_permits,
        policy: _,
        past_holds_ns: _,
        names,
        k_expression,
        omitted: _,
    } = gate;
    [name, protocol, updated_by, k_expression].into_iter().chain(names).for_each(clean);
    holders.iter_mut().chain(waiting).for_each(clean_client);
    durable_permits.iter_mut().for_each(clean_durable);
}

fn clean_client(client: &mut ClientStatus) {
    let ClientStatus {
        node: _,
        process,
        weight: _,
        age_ns: _,
        slots: _,
        fence,
        disconnected: _,
        guarded: _,
        session_id: _,
        reason,
        meta,
    } = client;
    clean(reason);
    *meta = std::mem::take(meta)
        .into_iter()
        .map(|(key, value)| (printable(&key).into_owned(), printable(&value).into_owned()))
        .collect();
    if let Some(Process { pid: _, host, user, command }) = process {
        [host, user, command].into_iter().for_each(clean);
    }
    fence.iter_mut().for_each(clean);
}

fn clean_durable(permit: &mut DurablePermitStatus) {
    let DurablePermitStatus {
        permit_id: _,
        slots: _,
        fence,
        holder,
        node: _,
        age_ns: _,
        ttl_ns: _,
        ttl_left_ns: _,
    } = permit;
    [fence, holder].into_iter().for_each(clean);
}

fn clean_node(status: &mut NodeStatus) {
    let NodeStatus { node: _, lease_left_ns: _, no_lease_reason, leader: _, applied_index: _ } =
        status;
    clean(no_lease_reason);
}

fn clean(text: &mut String) {
    if let Cow::Owned(shown) = printable(text) {
        *text = shown;
    }
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
