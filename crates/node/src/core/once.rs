//! Keys of a gate that are used at most once, under a permit of the gate.
//!
//! A client marks its key after the grant and before it begins: the first one may go on, whatever
//! happens to it then, and all others are told until the time to live of the key is over. With a
//! log the mark is an entry of it, and each member counts the time to live on its own clock since
//! it learned of the mark, or since it started: a key may be used for longer, never for less. A
//! node alone stores its marks, and its wall clock ends them, since they outlive a reboot.

use kgate_control::log::ProposeError;
use kgate_control::state::{Applied, Command, Rejected, bounds};
use kgate_core::Span;

use super::clients::{LONGEST_TTL, SHORTEST_TTL};
use super::control::{Purpose, author};
use super::messages::{ErrorCode, Refusal, ServerMessage};
use super::sessions::{Request, RequestState};
use super::timers::Deadline;
use super::{Action, ClientId, Core, GateId, RequestKey, Secret, SessionId};

/// The most marks that may wait for the log at once.
const OPEN_MARKS: usize = 256;

/// A client uses a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkOnce {
    /// The number of the request that holds the permit.
    pub permit: u64,
    /// The key.
    pub key: String,
    /// How long it is used.
    pub ttl: Span,
    /// Random: the same when the client repeats the message.
    pub token: Secret,
}

/// A mark for the store of a node without a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMark {
    /// The name of the gate.
    pub gate: String,
    /// The key.
    pub key: String,
    /// How long it is used.
    pub ttl: Span,
    /// The hash of the client's token.
    pub token: [u8; 32],
    /// The client, for people.
    pub by: String,
}

/// What became of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marked {
    /// This client is the first.
    First,
    /// The key is used by another client.
    UsedBy(String),
    /// Too many keys are used.
    Full(String),
}

impl Core {
    /// A client uses a key of a gate.
    pub(super) fn on_mark_once(
        &mut self,
        client: ClientId,
        (session, number): (SessionId, u64),
        request: MarkOnce,
    ) {
        if let Err((code, message)) = self.mark_once(client, session, number, request) {
            self.reply(client, ServerMessage::Refused { number, code, message });
        }
    }

    fn mark_once(
        &mut self,
        client: ClientId,
        session: SessionId,
        number: u64,
        MarkOnce { permit, key, ttl, token }: MarkOnce,
    ) -> Result<(), Refusal> {
        let refused = |text: String| Err((ErrorCode::BadRequest, text));
        if !(1..=bounds::TEXT).contains(&key.len()) || key.chars().any(char::is_control) {
            let most = bounds::TEXT;
            return refused(format!("a key has 1 to {most} bytes without control characters"));
        }
        if !(SHORTEST_TTL..=LONGEST_TTL).contains(&ttl) {
            return refused("a time to live is between one second and one year".into());
        }
        if token == Secret::NONE {
            return refused("the token of a mark must have 16 random bytes".into());
        }
        let holds = RequestKey { session, number: permit };
        let (gate, name) = self.held_gate(holds).ok_or_else(|| {
            let text = "a key is used under a permit of its gate, and this one is not held";
            (ErrorCode::PermitNotFound, text.to_owned())
        })?;
        let process = &self.sessions.get(session).expect("it has a stream").process;
        let (by, token) = (author(process, self.settings.me), token.hashed());
        if self.failures.has_leases() {
            let open = self.log.open_marks();
            if open >= OPEN_MARKS {
                let text = "too many keys are marked at this node at once: retry";
                return Err((ErrorCode::LimitExceeded, text.into()));
            }
            let mark = Command::MarkOnce { gate, key, token, by, ttl };
            self.propose(Purpose::Once(client, number), mark);
            return Ok(());
        }
        if !self.is_alone() || !self.settings.has_store {
            return refused(
                "this node would forget which keys are used: --once needs `data` in the \
                 configuration, and more than one node an agreed log"
                    .into(),
            );
        }
        let mark = StoredMark { gate: name, key, ttl, token, by };
        self.actions.push(Action::MarkOnce(client, number, mark));
        Ok(())
    }

    /// The gate of a permit that is held.
    fn held_gate(&self, key: RequestKey) -> Option<(GateId, String)> {
        let request = self.sessions.get(key.session)?.requests.get(&key.number)?;
        let Request { gate: Some(id), state: RequestState::Holding } = request else { return None };
        Some((*id, self.gates.get(id)?.definition.name.clone()))
    }

    /// The store or the log has decided.
    pub(super) fn on_marked(&mut self, client: ClientId, number: u64, marked: Marked) {
        let reply = match marked {
            Marked::First => ServerMessage::OnceMarked { number, used_by: None },
            Marked::UsedBy(by) => ServerMessage::OnceMarked { number, used_by: Some(by) },
            Marked::Full(message) => {
                ServerMessage::Refused { number, code: ErrorCode::LimitExceeded, message }
            }
        };
        self.reply(client, reply);
    }

    /// The log answered a mark. Without a quorum its fate is unknown, so the client must not go on.
    pub(super) fn on_once_proposed(
        &mut self,
        client: ClientId,
        number: u64,
        result: Result<Applied, ProposeError>,
    ) {
        let (code, message) = match result {
            Ok(_) => return self.on_marked(client, number, Marked::First),
            Err(ProposeError::Rejected(Rejected::OnceUsed { by, .. })) => {
                return self.on_marked(client, number, Marked::UsedBy(by));
            }
            Err(ProposeError::Rejected(Rejected::LimitReached(limit))) => {
                return self.on_marked(client, number, Marked::Full(limit.to_string()));
            }
            Err(ProposeError::Rejected(rejected)) => (ErrorCode::BadRequest, rejected.to_string()),
            Err(ProposeError::NoQuorum(text)) => {
                let text = format!("no quorum: {text}; whether the key is used now is not known");
                (ErrorCode::NoQuorum, text)
            }
            Err(stopped @ ProposeError::Stopped) => (ErrorCode::NodeGone, stopped.to_string()),
        };
        self.reply(client, ServerMessage::Refused { number, code, message });
    }

    /// Counts the time to live of a key from now on.
    pub(super) fn count_once(&mut self, at: u64, ttl: Span) {
        let control = self.failures.control();
        let (wait, spread) = (control.stretched(ttl), Span(control.timing.lease.0 / 2));
        // Spread over the members: the first expiry is enough.
        self.timers.arm(self.now, Deadline::ExpireOnce(at), wait, wait + spread);
    }

    /// The time to live of a key is over by this node's clock. Proposed again until the log
    /// decides, which stops this timer.
    pub(super) fn expire_once(&mut self, at: u64) {
        let Some((gate, key, _)) = self.log.state.once_marked_at(at) else { return };
        let expire = Command::ExpireOnce { gate, key: key.to_owned(), at };
        let again = Span(self.failures.control().timing.lease.0);
        self.propose(Purpose::ExpireOnce(at), expire);
        self.timers.arm(self.now, Deadline::ExpireOnce(at), again, again);
    }

    /// Counts the time to live of all keys anew, after this node was away.
    pub(super) fn restart_all_once(&mut self) {
        let marks = self.log.state.once_marks().map(|(.., mark)| (mark.at, mark.ttl));
        let marks: Vec<_> = marks.collect();
        marks.into_iter().for_each(|(at, ttl)| self.count_once(at, ttl));
    }
}
