//! The exit codes of kgate, as far as they are not those of CMD.

use kgate_client::ErrorKind;
use nix::sys::signal::Signal;

use super::channel::End;
use super::keeper::RefusalKind;

/// Timed out, or no free slots with `-n`. `-E` sets another code.
pub(crate) const BUSY: u8 = 120;
/// The permit was lost, and CMD was stopped.
pub(crate) const LOST: u8 = 121;
/// No quorum or no node.
pub(crate) const UNAVAILABLE: u8 = 122;
/// The gate has another k or policy.
pub(crate) const K_CONFLICT: u8 = 123;
/// Internal error.
pub(crate) const FAILED: u8 = 125;
/// CMD cannot be executed.
pub(crate) const NOT_RUN: u8 = 126;
/// CMD was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Usage error.
pub(crate) const USAGE: u8 = 2;
/// The named gate, node or permit does not exist.
pub(crate) const NO_SUCH_OBJECT: u8 = 1;

pub(crate) fn of_refusal(kind: RefusalKind, busy_code: u8) -> u8 {
    match kind {
        RefusalKind::Busy => busy_code,
        RefusalKind::Unavailable => UNAVAILABLE,
        RefusalKind::Conflict => K_CONFLICT,
        RefusalKind::Usage => USAGE,
        RefusalKind::Done => 0,
        RefusalKind::Internal => FAILED,
    }
}

/// The exit code of a command that asked a node.
pub(crate) fn of_error(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Busy | ErrorKind::LimitExceeded | ErrorKind::TimedOut => BUSY,
        ErrorKind::Conflict => K_CONFLICT,
        ErrorKind::GateNotFound | ErrorKind::NodeNotFound | ErrorKind::PermitNotFound => {
            NO_SUCH_OBJECT
        }
        ErrorKind::InvalidAddress | ErrorKind::BadRequest | ErrorKind::TooLarge => USAGE,
        ErrorKind::NoQuorum | ErrorKind::Unreachable | ErrorKind::NodeGone => UNAVAILABLE,
        ErrorKind::Credentials
        | ErrorKind::SessionNotFound
        | ErrorKind::Unauthenticated
        | ErrorKind::PermissionDenied
        | ErrorKind::Protocol
        | _ => FAILED,
    }
}

/// The exit code and the message.
pub(crate) fn of_end(end: &End) -> (u8, Option<String>) {
    match end {
        End::Exited(code) => (u8::try_from(code & 0xff).unwrap_or(FAILED), None),
        End::Killed(signal) | End::Cancelled(signal) => (of_signal(*signal), None),
        End::Lost(reason) => (LOST, Some(format!("permit lost: {reason}"))),
        End::Refused { code, message } => (*code, Some(message.clone())),
    }
}

/// The signal of a key (Ctrl-C, Ctrl-\) that ended the run.
pub(crate) fn key_of(end: &End) -> Option<Signal> {
    let keys = [Signal::SIGINT, Signal::SIGQUIT];
    match end {
        End::Killed(signal) | End::Cancelled(signal) => {
            keys.into_iter().find(|key| *key as i32 == *signal)
        }
        End::Exited(_) | End::Lost(_) | End::Refused { .. } => None,
    }
}

/// The code of a process that a signal ended, as in shells.
fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMD's own code, 128 + signal, and a code of kgate for each refusal.
    #[test]
    fn every_end_has_its_code() {
        assert_eq!(of_end(&End::Exited(7)), (7, None));
        assert_eq!(of_end(&End::Killed(9)), (137, None));
        assert_eq!(of_end(&End::Cancelled(2)), (130, None));
        assert_eq!(key_of(&End::Killed(2)), Some(Signal::SIGINT));
        assert_eq!(key_of(&End::Cancelled(3)), Some(Signal::SIGQUIT));
        assert_eq!(key_of(&End::Killed(15)), None);
        assert_eq!(key_of(&End::Exited(2)), None);
        assert_eq!(of_end(&End::Lost(String::new())).0, 121);
        let codes = [
            (RefusalKind::Busy, 75),
            (RefusalKind::Unavailable, 122),
            (RefusalKind::Conflict, 123),
            (RefusalKind::Usage, 2),
            (RefusalKind::Done, 0),
            (RefusalKind::Internal, 125),
        ];
        for (kind, code) in codes {
            assert_eq!(of_refusal(kind, 75), code);
        }
    }
}
