//! What to do about errors of the system that no place of kgate can mend: it may meet them wherever
//! it opens or writes something. They are recognised by their numbers, which every error text ends
//! with, also one that the node has sent.

/// The numbers of an error, and what to do.
const ADVICE: [(&[&str], &str); 2] = [
    (
        &["(os error 23)", "(os error 24)"],
        "raise the limit of open files (`ulimit -n`, or LimitNOFILE of a service) where kgate and \
         its node are started, and start them again",
    ),
    (&["(os error 28)", "(os error 122)"], "the disk is full or a quota is used up: free space"),
];

/// The text of an error with what to do about it, if that is known.
pub(crate) fn advised(text: &str) -> String {
    let applies = |(numbers, _): &&(&[&str], &str)| numbers.iter().any(|it| text.contains(it));
    match ADVICE.iter().find(applies) {
        // The node that sent it may have said so.
        Some((_, advice)) if !text.contains(advice) => format!("{text}; {advice}"),
        Some(_) | None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use rustix::io::Errno;

    use super::*;

    /// Issue 19: out of descriptors and out of space, the message says what to do.
    #[test]
    fn what_to_do_is_said() {
        let said = |errno: Errno| advised(&format!("cannot: {}", Error::from(errno)));
        for errno in [Errno::MFILE, Errno::NFILE] {
            assert!(said(errno).contains("ulimit -n"), "{}", said(errno));
        }
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert!(said(errno).ends_with("free space"), "{}", said(errno));
        }
        assert_eq!(advised("cannot: x"), "cannot: x");
        assert!(!said(Errno::NOENT).contains(';'));
    }
}
