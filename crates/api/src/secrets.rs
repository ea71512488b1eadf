//! `Debug` for messages that carry a secret, without the secret: a reader of a log must not be able
//! to end a session.

use std::fmt;

use crate::v1::{Acquire, Granted, Hello, MarkOnce, PermitCommand, ReenterRequest, Welcome};

/// Names every field of a message, so that a new one is not forgotten.
macro_rules! debug_without_secrets {
    ($($message:ident { shown: [$($shown:ident),*], secret: [$($secret:ident),*] })+) => {$(
        impl fmt::Debug for $message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self { $($shown,)* $($secret: _,)* } = self;
                f.debug_struct(stringify!($message))
                    $(.field(stringify!($shown), $shown))*
                    $(.field(stringify!($secret), &format_args!("***")))*
                    .finish()
            }
        }
    )+};
}

debug_without_secrets! {
    Hello { shown: [process, session_id, front_pid, control_group], secret: [secret] }
    Acquire {
        shown: [
            request_id, gate, weight, k, no_wait, process, policy, ttl_ns, names, k_expression,
            reason, meta
        ],
        secret: [secret]
    }
    PermitCommand { shown: [request_id, permit_id, release], secret: [secret] }
    MarkOnce { shown: [request_id, permit_request_id, key, ttl_ns], secret: [token] }
    Granted {
        shown: [request_id, slots, fence, k, durable, slot_names],
        secret: [lock_files, reentry_key]
    }
    ReenterRequest { shown: [gate], secret: [reentry_key] }
    Welcome {
        shown: [
            session_id, node, valid_for_ns, held_request_ids, lease_ns, renew_every_ns,
            stop_max_ns, kill_ns, guarded, unguarded_reason
        ],
        secret: [secret]
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
            client_message::Message::Hello(
                Hello { secret: secret.clone(), ..Hello::default() }.into(),
            ),
            client_message::Message::Acquire(
                Acquire { secret: secret.clone(), ..Acquire::default() }.into(),
            ),
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
