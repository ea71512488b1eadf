//! The terminal and whose it is.
//!
//! A terminal sends Ctrl-C and Ctrl-Z to its foreground group and stops whoever reads from it
//! without being there. CMD has a group of its own, so it must become the foreground group in the
//! place of ours, and we must take the terminal back when it is done: a script that goes on behind
//! us would be stopped at its next read.
//!
//! Whoever calls these blocks `SIGTTOU`, by which the kernel stops a background process that
//! changes the foreground.

use std::fs::File;
use std::io::{self, IsTerminal};

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The controlling terminal of this session.
#[derive(Debug)]
pub(crate) struct Terminal(File);

impl Terminal {
    /// None in a session without one.
    pub(crate) fn open() -> Option<Self> {
        File::options().read(true).write(true).open("/dev/tty").ok().map(Terminal)
    }

    /// We are the foreground group.
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    pub(crate) fn give_to(&self, group: Pid) {
        // It may have ended meanwhile. Then nobody needs the terminal but us.
        let _gone = tcsetpgrp(&self.0, group);
    }

    /// Takes it back from that group, and from nobody else: a shell may have taken it already.
    pub(crate) fn take_back_from(&self, group: Pid) {
        if tcgetpgrp(&self.0).is_ok_and(|now| now == group) {
            let _lost = tcsetpgrp(&self.0, getpgrp());
        }
    }
}

/// Beside other processes of a pipeline, which may need the keys (`kgate run .. | less`), CMD gets
/// the terminal only when it asks for it; alone, at once: there are programs that look whether they
/// are in the foreground.
pub(crate) fn is_all_ours() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// CMD's side: takes it if that group has it.
pub(crate) fn take_from(group: Pid) {
    if let Some(terminal) = Terminal::open()
        && tcgetpgrp(&terminal.0).is_ok_and(|now| now == group)
    {
        terminal.give_to(getpgrp());
    }
}
