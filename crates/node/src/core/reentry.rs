//! Work that runs under a permit already.
//!
//! A command that holds a gate may start another one that requests the same gate: it would wait for
//! itself. So each grant comes with a key, which `kgate run` hands to its command. A process that
//! shows the key, and is a descendant of the holder by the kernel's word, may run under the same
//! permit: the holder stops all its descendants when the permit ends.
//!
//! The key is derived from the hash of the session's secret, which the node keeps in any case. It
//! proves a permit, and neither renews nor releases one.

use kgate_core::Fence;
use ring::digest::{Context, SHA256};

use super::messages::{ErrorCode, Refusal};
use super::sessions::{Request, RequestState};
use super::{ClientId, Core, RequestKey, Secret, SessionId};

/// Proves that its bearer was started under a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReentryKey {
    /// The session of the holder.
    session: SessionId,
    /// The number of its request.
    number: u64,
    key: Secret,
}

impl ReentryKey {
    /// The key of a grant, from the hash of its session's secret.
    pub(super) fn new(session: SessionId, number: u64, hashed: [u8; 32]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(b"kgate reentry");
        context.update(&hashed);
        context.update(&session.0.to_be_bytes());
        context.update(&number.to_be_bytes());
        let digest = context.finish();
        let bytes = digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
        Self { session, number, key: Secret(u128::from_be_bytes(*bytes)) }
    }

    /// The key as text: `SESSION.REQUEST.DIGITS`.
    pub fn to_text(self) -> String {
        format!("{}.{}.{:032x}", self.session.0, self.number, self.key.0)
    }

    /// The key that [`Self::to_text`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let session = SessionId(parts.next()?.parse().ok()?);
        let number = parts.next()?.parse().ok()?;
        let digits = parts.next().filter(|digits| digits.len() == 32)?;
        let key = Secret(u128::from_str_radix(digits, 16).ok()?);
        parts.next().is_none().then_some(Self { session, number, key })
    }
}

/// A permit that is held now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPermit {
    /// The stream of the holder.
    pub client: ClientId,
    /// Its slots, where slots are numbered.
    pub slots: Vec<u32>,
    /// Its fence, where there is one.
    pub fence: Option<Fence>,
    /// The k of the gate.
    pub k: u32,
    /// The names of its slots, where slots have names.
    pub slot_names: Vec<String>,
}

impl Core {
    /// The permit that a key proves, if it is held and its holder has a stream. A permit whose loss
    /// was announced is not held: nothing may start under it.
    pub(super) fn find_permit(&self, gate: &str, shown: ReentryKey) -> Result<HeldPermit, Refusal> {
        let ReentryKey { session, number, key } = shown;
        let none = || {
            let text = format!("no permit of gate `{gate}` that is held now has this key");
            (ErrorCode::PermitNotFound, text)
        };
        let known = self.sessions.get(session).ok_or_else(none)?;
        // Compared as hashes, so that the time of the comparison tells nothing.
        let own = known.reentry_key(session, number);
        let is_right = own.is_some_and(|own| own.key.hashed() == key.hashed());
        let request = known.requests.get(&number).filter(|_| is_right);
        let Some(Request { gate: Some(id), state: RequestState::Holding }) = request else {
            return Err(none());
        };
        let held = self.gates.get(id).filter(|held| held.definition.name == gate);
        let (Some(held), Some(client)) = (held, known.client) else { return Err(none()) };
        let request = RequestKey { session, number };
        let (slots, fence) = held.grant_of(request).ok_or_else(none)?;
        let slot_names = held.definition.source.names_of(&slots);
        Ok(HeldPermit { client, slots, fence, k: held.definition.k, slot_names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key is read as it was written; anything else is none.
    #[test]
    fn keys_as_text() {
        let key = ReentryKey::new(SessionId(7), 3, [1; 32]);
        assert_eq!(ReentryKey::parse(&key.to_text()), Some(key));
        assert_ne!(ReentryKey::new(SessionId(7), 4, [1; 32]).key, key.key);
        assert_ne!(ReentryKey::new(SessionId(7), 3, [2; 32]).key, key.key);
        let digits = "1".repeat(32);
        for wrong in ["", "7", "7.3", "7.3.1", &format!("7.3.{digits}.1"), &format!("x.3.{digits}")]
        {
            assert_eq!(ReentryKey::parse(wrong), None, "{wrong}");
        }
    }
}
