//! `Debug` for messages that carry a secret, without the secret: a reader of a log must not be able
//! to end a session.

use std::fmt;

use crate::v1::{Acquire, Granted, Hello, PermitCommand, ReenterRequest, Welcome};

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, session_id, secret: _, front_pid, control_group } = self;
        f.debug_struct("Hello")
            .field("process", process)
            .field("session_id", session_id)
            .field("secret", &format_args!("***"))
            .field("front_pid", front_pid)
            .field("control_group", control_group)
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

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_id, slots, fence, k, durable, lock_files: _, reentry_key: _ } = self;
        f.debug_struct("Granted")
            .field("request_id", request_id)
            .field("slots", slots)
            .field("fence", fence)
            .field("k", k)
            .field("durable", durable)
            .field("lock_files", &format_args!("***"))
            .field("reentry_key", &format_args!("***"))
            .finish()
    }
}

impl fmt::Debug for ReenterRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gate, reentry_key: _ } = self;
        f.debug_struct("ReenterRequest")
            .field("gate", gate)
            .field("reentry_key", &format_args!("***"))
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
            guarded,
            unguarded_reason,
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
            .field("guarded", guarded)
            .field("unguarded_reason", unguarded_reason)
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
        let key = || "171".to_owned();
        let granted = Granted { reentry_key: key(), ..Granted::default() };
        let request = ReenterRequest { reentry_key: key(), ..ReenterRequest::default() };
        let shown = shown.chain([format!("{granted:?}"), format!("{request:?}")]);
        for shown in shown.chain([format!("{tell:?}"), format!("{tell:#?}")]) {
            assert!(shown.contains("***") && !shown.contains("171"), "{shown}");
        }
    }
}
