//! Messages with a secret in them, shown without it: whoever reads a log must not be able to end somebody's session.

use std::fmt;

use crate::v1::{Hello, Welcome};

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
        let ask = Ask { ask: Some(ask::Ask::Hello(Hello { secret: secret.clone(), ..Hello::default() })) };
        let tell = Tell { tell: Some(tell::Tell::Welcome(Welcome { secret, ..Welcome::default() })) };
        for shown in [format!("{ask:?}"), format!("{ask:#?}"), format!("{tell:?}"), format!("{tell:#?}")] {
            assert!(shown.contains("***") && !shown.contains("171"), "{shown}");
        }
    }
}
