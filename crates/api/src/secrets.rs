//! `Debug` for messages that carry a secret, without the secret: a reader of a log must not be able
//! to end a session.

use std::fmt;

use crate::v1::{Acquire, Hello, PermitCommand, Welcome};

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, session_id, secret: _ } = self;
        f.debug_struct("Hello")
            .field("process", process)
            .field("session_id", session_id)
            .field("secret", &format_args!("***"))
            .finish()
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_id, gate, weight, k, no_wait, process, policy, ttl_ns, secret: _ } =
            self;
        f.debug_struct("Acquire")
            .field("request_id", request_id)
            .field("gate", gate)
            .field("weight", weight)
            .field("k", k)
            .field("no_wait", no_wait)
            .field("process", process)
            .field("policy", policy)
            .field("ttl_ns", ttl_ns)
            .field("secret", &format_args!("***"))
            .finish()
    }
}

impl fmt::Debug for PermitCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_id, permit_id, secret: _, release } = self;
        f.debug_struct("PermitCommand")
            .field("request_id", request_id)
            .field("permit_id", permit_id)
            .field("secret", &format_args!("***"))
            .field("release", release)
            .finish()
    }
}

impl fmt::Debug for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            session_id,
            secret: _,
            node,
            valid_for_ns,
            held_request_ids,
            lease_ns,
            renew_every_ns,
            stop_max_ns,
            kill_ns,
        } = self;
        f.debug_struct("Welcome")
            .field("session_id", session_id)
            .field("secret", &format_args!("***"))
            .field("node", node)
            .field("valid_for_ns", valid_for_ns)
            .field("held_request_ids", held_request_ids)
            .field("lease_ns", lease_ns)
            .field("renew_every_ns", renew_every_ns)
            .field("stop_max_ns", stop_max_ns)
            .field("kill_ns", kill_ns)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ClientMessage, ServerMessage, client_message, server_message};

    /// `Debug` shows no secret.
    #[test]
    fn secrets_are_not_shown() {
        let secret = vec![0xAB; 16];
        let asks = [
            client_message::Message::Hello(Hello { secret: secret.clone(), ..Hello::default() }),
            client_message::Message::Acquire(Acquire {
                secret: secret.clone(),
                ..Acquire::default()
            }),
            client_message::Message::PermitCommand(PermitCommand {
                secret: secret.clone(),
                ..PermitCommand::default()
            }),
        ];
        let asks = asks.map(|ask| ClientMessage { message: Some(ask) });
        let tell = ServerMessage {
            message: Some(server_message::Message::Welcome(Welcome {
                secret,
                ..Welcome::default()
            })),
        };
        let shown = asks.iter().flat_map(|ask| [format!("{ask:?}"), format!("{ask:#?}")]);
        for shown in shown.chain([format!("{tell:?}"), format!("{tell:#?}")]) {
            assert!(shown.contains("***") && !shown.contains("171"), "{shown}");
        }
    }
}
