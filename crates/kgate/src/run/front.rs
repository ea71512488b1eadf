//! The front of `kgate run`: the process that the user sees.
//!
//! It has the terminal, takes the signals and gives the exit code. The guard does the work; the
//! front stands by to do the killing in its place. It reads the same deadline and kills at D - K by
//! itself, whether the guard is frozen or not. If the guard dies, the front inherits all that was
//! below it, ends that, and gives the permit back by its ticket.
//!
//! ```text
//! waiting --started--> running --ended--> exit code
//!                         |--D - K is past: all below the guard is killed (overdue)--ended, or the guard does not wake--> 121
//!                         `--the guard died: all that was below it is stopped (orphaned)--nobody left--> 121
//! ```

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    self, Pid, PidfdFlags, getpgrp, getpid, kill_current_process_group, kill_process,
    kill_process_group, pidfd_open, set_child_subreaper, set_parent_process_death_signal, setsid,
};

use super::alarm::Alarm;
use super::channel::{Channel, End, Received, ToFront, ToGuard};
use super::exit;
use super::keeper::{OpenKeeper, Wish};
use super::lease_clock::LeaseInstant;
use super::margins::{Margins, Verdict};
use super::page::Page;
use super::signals::{FORWARDED, Signals, blocked_before, not_ignored, set_of, to_send};
use super::sweep::Sweep;
use super::terminal::{self, Terminal};
use super::tree::{self, Tree};

/// What is to be run, and how.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) wish: Wish,
    pub(crate) command: Vec<OsString>,
    pub(crate) occupied_code: u8,
    pub(crate) verbose: bool,
    /// In a session of its own, for `kgate acquire`, which does not wait for us.
    pub(crate) detached: bool,
}

/// A guard that has been told nothing yet. It starts as long as a command line is read, so it is
/// started before that; if the command line is wrong, the channel closes and it goes.
#[derive(Debug)]
pub(crate) struct Bare {
    channel: Channel,
    process: Child,
}

impl Bare {
    /// CMD is what stands behind the first `--`, whatever stands before it. For `kgate acquire` the
    /// guard belongs into a session that is not there yet.
    pub(crate) fn start_early(arguments: &[OsString]) -> Option<Self> {
        let (options, command) =
            arguments.split_at(arguments.iter().position(|word| word == "--")?);
        let early = options.get(1)? == "run" && !options.iter().any(|word| word == "--detached");
        // What goes wrong here goes wrong again where it can be told.
        early.then(|| Self::start(&command[1..]).ok()).flatten()
    }

    fn start(command: &[OsString]) -> io::Result<Self> {
        let (channel, theirs) = Channel::pair()?;
        let mut guard = Command::new("/proc/self/exe");
        guard.arg0("kgate").arg("guard").args(command).process_group(0);
        Ok(Self { channel, process: guard.stdin(theirs).spawn()? })
    }

    /// Nobody wants it, and whoever waits for us finds nothing of ours.
    pub(crate) fn dismiss(self) {
        drop(self.channel);
        let mut process = self.process;
        let _gone = process.wait();
    }
}

/// Runs it to its end.
pub(crate) fn run(order: Order, bare: Option<Bare>, open: OpenKeeper) -> io::Result<End> {
    let mut front = Front::start(order, bare, open)?;
    let end = front.work()?;
    front.leave();
    Ok(end)
}

struct Front {
    open: OpenKeeper,
    detached: bool,
    /// Known when CMD is.
    margins: Margins,
    channel: Channel,
    guard: Pid,
    guard_process: OwnedFd,
    guard_incarnations: bool,
    page: Page,
    signals: Signals,
    alarm: Alarm,
    terminal: Option<Terminal>,
    /// CMD, which is also its group.
    command: Option<Pid>,
    ticket: Vec<u8>,
    until: LeaseInstant,
    /// Somebody has sent the TERM.
    told: bool,
    phase: Phase,
}

enum Phase {
    /// CMD is not there, or runs as it should.
    Standing,
    /// The deadline is past: we kill, and the guard should too. It has until then to tell the end.
    Overdue { sweep: Sweep, patience: LeaseInstant },
    /// The guard is dead.
    Orphaned(Sweep),
}

impl Front {
    fn start(order: Order, bare: Option<Bare>, open: OpenKeeper) -> io::Result<Self> {
        if order.detached {
            setsid()?;
            // Whoever asked for it dies while we wait: nobody would know of the permit. Later this
            // one means nothing.
            set_parent_process_death_signal(Some(process::Signal::HUP))?;
        }
        let blocked = blocked_before()?;
        let mut caught = not_ignored(&FORWARDED);
        caught.extend([Signal::SIGCHLD, Signal::SIGTTOU]);
        let signals = Signals::block(&caught)?;
        set_child_subreaper(Some(getpid()))?;
        let page = Page::new()?;
        let Bare { channel, process } = match bare {
            Some(bare) if !order.detached => bare,
            Some(_) | None => Bare::start(&order.command)?,
        };
        let guard = Pid::from_child(&process);
        let hello = ToGuard::Hello {
            wish: Box::new(order.wish),
            occupied_code: order.occupied_code,
            verbose: order.verbose,
            detached: order.detached,
            terminal_of: terminal::is_all_ours().then(|| getpgrp().as_raw_nonzero().get()),
            blocked,
        };
        channel.send(&hello, &[io::stdin().as_fd(), page.as_fd()])?;
        Ok(Front {
            open,
            detached: order.detached,
            margins: Margins::default(),
            channel,
            guard,
            guard_process: pidfd_open(guard, PidfdFlags::empty())?,
            guard_incarnations: true,
            page,
            signals,
            alarm: Alarm::new()?,
            terminal: Terminal::open(),
            command: None,
            ticket: Vec::new(),
            until: LeaseInstant::NEVER,
            told: false,
            phase: Phase::Standing,
        })
    }

    fn work(&mut self) -> io::Result<End> {
        loop {
            if let Some(end) = self.hear_guard()? {
                return Ok(end);
            }
            for signal in self.signals.take() {
                self.on_signal(signal);
            }
            let now = LeaseInstant::now();
            if let Some(end) = self.look_at_the_clock(now)? {
                return Ok(end);
            }
            self.alarm.set(self.wake_at(now), now)?;
            self.sleep()?;
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let mut sources = vec![self.signals.as_fd(), self.alarm.as_fd()];
        if self.guard_incarnations {
            sources.extend([self.channel.as_fd(), self.guard_process.as_fd()]);
        }
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// First what it said, then whether it is dead: its last word counts.
    fn hear_guard(&mut self) -> io::Result<Option<End>> {
        let died =
            self.guard_incarnations && self.guard_is_dead(Timespec { tv_sec: 0, tv_nsec: 0 })?;
        while self.guard_incarnations {
            match self.channel.take()? {
                Received::Message(ToFront::Started { process, ticket, margins }, _) => {
                    self.command = Pid::from_raw(process);
                    (self.ticket, self.margins) = (ticket, margins);
                    if self.detached {
                        super::fall_silent()?;
                    }
                }
                Received::Message(ToFront::Stopped(signal), _) => self.on_stopped(signal),
                Received::Message(ToFront::Stopping, _) => self.told = true,
                Received::Message(ToFront::Ended(end), _) => return Ok(Some(end)),
                Received::Nothing | Received::Closed => break,
            }
        }
        Ok(if died { self.on_guard_died() } else { None })
    }

    fn guard_is_dead(&self, wait: Timespec) -> io::Result<bool> {
        let mut watched = [PollFd::new(&self.guard_process, PollFlags::IN)];
        poll(&mut watched, Some(&wait))?;
        Ok(!watched[0].revents().is_empty())
    }

    fn on_guard_died(&mut self) -> Option<End> {
        self.guard_incarnations = false;
        if self.command.is_none() {
            tree::reap_except(None);
            let text = "the guard died before the command was started".to_owned();
            return Some(End::Refused { code: exit::FAILED, text });
        }
        let kill_at = LeaseInstant::now() + self.margins.grace;
        self.phase = Phase::Orphaned(Sweep::gently(Tree::own(), self.command, kill_at));
        None
    }

    fn look_at_the_clock(&mut self, now: LeaseInstant) -> io::Result<Option<End>> {
        let Some(command) = self.command else { return Ok(None) };
        // What cannot be read stays as it was: earlier, and so safe.
        self.until = self.page.read().unwrap_or(self.until);
        let latest = self.margins.kill_at(self.until);
        if matches!(self.phase, Phase::Standing) {
            match self.margins.check(self.until, now) {
                Verdict::Fine => {}
                Verdict::Term if !self.told && now >= self.term_at() => {
                    self.told = true;
                    self.tell_guard();
                    let _gone = kill_process_group(command, process::Signal::TERM);
                    let _gone = kill_process_group(command, process::Signal::CONT);
                }
                Verdict::Term => {}
                Verdict::Kill => {
                    self.tell_guard();
                    let tree = Tree::own_and_below(self.guard);
                    // We may have been frozen too: then it has its time from now on.
                    let patience = self.until.max(now) + self.margins.kill;
                    self.phase =
                        Phase::Overdue { sweep: Sweep::at_once(tree, self.command), patience };
                }
            }
        }
        match &mut self.phase {
            Phase::Standing => Ok(None),
            Phase::Overdue { sweep, patience } => {
                let gone = sweep.is_done(now, latest);
                if gone && now >= *patience {
                    // It is frozen, or as good as that.
                    let _gone = kill_process(self.guard, process::Signal::KILL);
                    return Ok(Some(
                        self.lost("it was not renewed in time, and the guard does not answer"),
                    ));
                }
                Ok(None)
            }
            Phase::Orphaned(sweep) => {
                let gone = sweep.is_done(now, latest);
                tree::reap_except(self.command);
                Ok(gone.then(|| self.lost("the guard that held it died")))
            }
        }
    }

    /// The tree is gone and the guard cannot give the permit back: we do.
    fn lost(&self, why: &str) -> End {
        if !self.ticket.is_empty() {
            (self.open)().release_for_the_dead(&self.ticket, self.margins.grace);
        }
        End::Lost(why.to_owned())
    }

    /// That CMD ends by us, before it does: the guard may wake in between, and would take it for
    /// CMD's own end. One that cannot be told does not wake.
    fn tell_guard(&self) {
        let _dead = self.channel.send(&ToGuard::Stopping, &[]);
    }

    /// The guard sends the TERM. A quarter of the grace later it is frozen, and we do.
    fn term_at(&self) -> LeaseInstant {
        self.margins.kill_at(self.until) - self.margins.grace / 4 * 3
    }

    fn wake_at(&self, now: LeaseInstant) -> LeaseInstant {
        let latest = self.margins.kill_at(self.until);
        match &self.phase {
            Phase::Standing if self.command.is_none() => LeaseInstant::FOR_EVER,
            Phase::Standing if self.told => latest,
            Phase::Standing => self.term_at(),
            Phase::Overdue { sweep, .. } | Phase::Orphaned(sweep) => sweep.wake_at(now, latest),
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        match (signal, self.command) {
            (Signal::SIGCHLD | Signal::SIGTTOU, _) => {}
            (Signal::SIGCONT, _) => self.go_on(),
            // Ctrl-Z while we wait: the guard goes on waiting.
            (Signal::SIGTSTP, None) => stop_by(|| kill_process(getpid(), process::Signal::TSTP)),
            // `kgate acquire` has its token and is gone.
            (Signal::SIGHUP, Some(_)) if self.detached => {}
            (_, Some(command)) => {
                if let Some(signal) = to_send(signal as i32) {
                    let _gone = kill_process_group(command, signal);
                }
            }
            (_, None) => {
                let _dead = self.channel.send(&ToGuard::Signal(signal as i32), &[]);
            }
        }
    }

    /// CMD was stopped by its terminal. Either it wants the terminal, which we have, or our job
    /// stops with it, so that the shell gets its prompt back. A plain SIGSTOP was meant for CMD
    /// alone.
    fn on_stopped(&mut self, signal: i32) {
        let wants_it = signal == Signal::SIGTTIN as i32 || signal == Signal::SIGTTOU as i32;
        let Some(terminal) = &self.terminal else { return };
        if wants_it && terminal.is_ours() {
            self.go_on();
        } else if wants_it || signal == Signal::SIGTSTP as i32 {
            // To all of the job, or the shell would wait for the others. In a group that nobody
            // could wake again the kernel does not stop us; then CMD goes on as well.
            stop_by(|| kill_current_process_group(process::Signal::TSTP));
            self.go_on();
        }
    }

    /// In the foreground or in the background, as the shell has put us.
    fn go_on(&self) {
        let Some(command) = self.command else { return };
        if let Some(terminal) = &self.terminal
            && terminal.is_ours()
        {
            terminal.give_to(command);
        }
        let _gone = kill_process_group(command, process::Signal::CONT);
    }

    /// The terminal goes back, and the guard is gone before we are: whoever waits for us finds
    /// nothing of ours.
    fn leave(&self) {
        if let (Some(terminal), Some(command)) = (&self.terminal, self.command) {
            terminal.take_back_from(command);
        }
        let quarter_second = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
        if self.guard_incarnations && self.guard_is_dead(quarter_second).is_ok() {
            tree::reap_except(None);
        }
    }
}

/// Stops this process by the signal for it, if the kernel lets it; returns when it goes on.
fn stop_by(send: impl FnOnce() -> rustix::io::Result<()>) {
    let stop = set_of(&[Signal::SIGTSTP]);
    if stop.thread_unblock().is_ok() {
        let _sent = send();
        let _blocked = stop.thread_block();
    }
}
