//! Exit codes that are not CMD's own.

use super::channel::End;
use super::keeper::RefusalKind;

/// The wait is over, or all slots are taken and nobody was to wait. `-E` sets another.
pub(crate) const OCCUPIED: u8 = 120;
/// The permit was lost and CMD stopped.
pub(crate) const LOST: u8 = 121;
/// No quorum, or no node.
pub(crate) const NO_QUORUM: u8 = 122;
/// The gate has another k.
pub(crate) const K_CONFLICT: u8 = 123;
/// kgate itself failed.
pub(crate) const FAILED: u8 = 125;
/// CMD cannot be run.
pub(crate) const NOT_RUN: u8 = 126;
/// CMD cannot be found.
pub(crate) const NOT_FOUND: u8 = 127;
/// The command line cannot be meant, as for every other command.
const USAGE: u8 = 2;

pub(crate) fn of_refusal(kind: RefusalKind, occupied: u8) -> u8 {
    match kind {
        RefusalKind::Occupied => occupied,
        RefusalKind::NoQuorum => NO_QUORUM,
        RefusalKind::KConflict => K_CONFLICT,
        RefusalKind::Misuse => USAGE,
        RefusalKind::Broken => FAILED,
    }
}

/// The code, and what people are told.
pub(crate) fn of_end(end: &End) -> (u8, Option<String>) {
    match end {
        End::Exited(code) => (u8::try_from(code & 0xff).unwrap_or(FAILED), None),
        End::Killed(signal) | End::Cancelled(signal) => (of_signal(*signal), None),
        End::Lost(why) => (LOST, Some(format!("the permit is lost: {why}"))),
        End::Refused { code, text } => (*code, Some(text.clone())),
    }
}

/// As shells have it.
fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DESIGN section 7: CMD's own code, 128 + signal, and one of ours for each refusal.
    #[test]
    fn every_end_has_its_code() {
        assert_eq!(of_end(&End::Exited(7)), (7, None));
        assert_eq!(of_end(&End::Killed(9)), (137, None));
        assert_eq!(of_end(&End::Cancelled(2)), (130, None));
        assert_eq!(of_end(&End::Lost(String::new())).0, 121);
        let codes = [
            (RefusalKind::Occupied, 75),
            (RefusalKind::NoQuorum, 122),
            (RefusalKind::KConflict, 123),
            (RefusalKind::Misuse, 2),
            (RefusalKind::Broken, 125),
        ];
        for (kind, code) in codes {
            assert_eq!(of_refusal(kind, 75), code);
        }
    }
}
