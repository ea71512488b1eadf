//! Messages with a secret in them, shown without it: whoever reads a log must not be able to end
//! somebody's session.

use std::fmt;

use crate::v1::{Acquire, Hello, PermitWord, Welcome};

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, session, secret: _ } = self;
        f.debug_struct("Hello")
            .field("process", process)
            .field("session", session)
            .field("secret", &format_args!("***"))
            .finish()
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, gate, permits, k, no_wait, process, policy, ttl_ns, secret: _ } = self;
        f.debug_struct("Acquire")
            .field("number", number)
            .field("gate", gate)
            .field("permits", permits)
            .field("k", k)
            .field("no_wait", no_wait)
            .field("process", process)
            .field("policy", policy)
            .field("ttl_ns", ttl_ns)
            .field("secret", &format_args!("***"))
            .finish()
    }
}

impl fmt::Debug for PermitWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, permit, secret: _, release } = self;
        f.debug_struct("PermitWord")
            .field("number", number)
            .field("permit", permit)
            .field("secret", &format_args!("***"))
            .field("release", release)
            .finish()
    }
}

impl fmt::Debug for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            session,
            secret: _,
            node,
            valid_for_ns,
            holds,
            lease_ns,
            renew_every_ns,
            stop_max_ns,
            kill_ns,
        } = self;
        f.debug_struct("Welcome")
            .field("session", session)
            .field("secret", &format_args!("***"))
            .field("node", node)
            .field("valid_for_ns", valid_for_ns)
            .field("holds", holds)
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
    use crate::v1::{Ask, Tell, ask, tell};

    /// No way of looking at a message shows its secret.
    #[test]
    fn secrets_are_not_shown() {
        let secret = vec![0xAB; 16];
        let asks = [
            ask::Ask::Hello(Hello { secret: secret.clone(), ..Hello::default() }),
            ask::Ask::Acquire(Acquire { secret: secret.clone(), ..Acquire::default() }),
            ask::Ask::Permit(PermitWord { secret: secret.clone(), ..PermitWord::default() }),
        ];
        let asks = asks.map(|ask| Ask { ask: Some(ask) });
        let tell =
            Tell { tell: Some(tell::Tell::Welcome(Welcome { secret, ..Welcome::default() })) };
        let shown = asks.iter().flat_map(|ask| [format!("{ask:?}"), format!("{ask:#?}")]);
        for shown in shown.chain([format!("{tell:?}"), format!("{tell:#?}")]) {
            assert!(shown.contains("***") && !shown.contains("171"), "{shown}");
        }
    }
}
