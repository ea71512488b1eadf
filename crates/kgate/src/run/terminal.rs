//! The foreground process group of the terminal.
//!
//! A terminal sends Ctrl-C and Ctrl-Z to its foreground group, and stops a background process that
//! reads from it. CMD has its own group, which must therefore become the foreground group instead
//! of ours. When CMD has ended, this process takes the terminal back: otherwise the calling script
//! would be stopped at its next read.
//!
//! Callers block `SIGTTOU`, by which the kernel stops a background process that changes the
//! foreground group.

use std::fs::File;
use std::io::{self, IsTerminal};

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The controlling terminal of this session.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// Opens it; none in a session without a terminal.
    pub(crate) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Terminal)
    }

    /// Whether the group of this process is the foreground group.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    pub(crate) fn give_to(&self, group: Pid) {
        // If the group has ended meanwhile, the terminal stays ours.
        let _gone = tcsetpgrp(&self.0, group);
    }

    /// Takes it back from that group and from no other: a shell may have taken it already. Whether
    /// that group had it.
    pub(crate) fn take_back_from(&self, group: Pid) -> bool {
        let had_it = tcgetpgrp(&self.0).is_ok_and(|now| now == group);
        if had_it {
            let _lost = tcsetpgrp(&self.0, getpgrp());
        }
        had_it
    }
}

/// Whether CMD gets the terminal at once. In a pipeline (`kgate run .. | less`) other processes may
/// need the keys, so CMD gets it only when it reads from it. Alone, CMD gets it at once, because
/// some programs check whether they are in the foreground.
pub(crate) fn is_all_ours() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// CMD's side: takes the terminal if that group has it.
pub(crate) fn take_from(group: Pid) {
    if let Some(terminal) = Terminal::open()
        && tcgetpgrp(&terminal.0).is_ok_and(|now| now == group)
    {
        terminal.give_to(getpgrp());
    }
}
