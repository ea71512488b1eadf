//! The front of `kgate run`: the process that the user started.
//!
//! It has the terminal, receives the signals and returns the exit code. The guard does the work.
//! The front reads the same deadline and kills the tree at D - K without the guard, so a frozen
//! guard does no harm. If the guard dies, the front inherits its descendants, ends them, and
//! releases the permit by its release token.
//!
//! ```text
//! waiting --started--> running --ended--> exit code
//! running --D - K passed: kill all below the guard (overdue)--ended, or no answer--> 121
//! running --the guard died: stop all that was below it (orphaned)--tree gone--> 121
//! ```

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use kgate_node::control_group::ControlGroup;
use kgate_node::process_tree::{self as tree, Tree};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    self, Pid, PidfdFlags, Resource, Rlimit, WaitOptions, getpgrp, getpid, getrlimit,
    kill_current_process_group, kill_process, kill_process_group, pidfd_open, set_child_subreaper,
    set_parent_process_death_signal, setrlimit, setsid, wait, waitpid,
};

use super::alarm::Alarm;
use super::channel::{Channel, End, Received, ToFront, ToGuard};
use super::deadline_cell::DeadlineCell;
use super::fork::{Forked, exit_after, fork};
use super::keeper::{AcquireRequest, OpenKeeper};
use super::lease_clock::LeaseInstant;
use super::margins::{Due, Margins};
use super::signals::{FORWARDED, Signals, blocked_before, not_ignored, set_of, to_send};
use super::sweep::Sweep;
use super::terminal::{self, Terminal};
use super::{early_command, exit, guard};

/// What to run, and how.
#[derive(Debug)]
pub(crate) struct RunPlan {
    pub(crate) request: AcquireRequest,
    pub(crate) command: Vec<OsString>,
    pub(crate) busy_code: u8,
    pub(crate) verbose: bool,
    pub(crate) quiet: bool,
    /// Run in a session of its own, for `kgate acquire`, which does not wait for the end.
    pub(crate) detached: bool,
}

/// A guard without a request. It starts its stage while the front parses the command line. If the
/// command line is wrong, the channel closes and the guard exits.
#[derive(Debug)]
pub(crate) struct EarlyGuard {
    channel: Channel,
    deadline: DeadlineCell,
    process: Pid,
    command: Vec<OsString>,
}

impl EarlyGuard {
    /// Starts the guard of `kgate run NAME .. CMD`. For `kgate acquire` the guard belongs to a
    /// session that does not exist yet.
    pub(crate) fn start(arguments: &[OsString], open: OpenKeeper) -> Option<Self> {
        // An error repeats when the guard is started again, and is reported there.
        Self::fork(early_command::likely_command(arguments)?, open).ok()
    }

    fn fork(command: &[OsString], open: OpenKeeper) -> io::Result<Self> {
        let (ours, theirs) = Channel::pair()?;
        let deadline = DeadlineCell::new()?;
        let front = getpid();
        match fork(c"kgate guard")? {
            Forked::Child => {
                // Otherwise the guard would not notice that the front has closed it.
                drop(ours);
                exit_after(|| guard::main(command, theirs, deadline, front, open))
            }
            Forked::Parent(process) => {
                Ok(Self { channel: ours, deadline, process, command: command.to_vec() })
            }
        }
    }

    /// Stops the guard and waits for its end.
    pub(crate) fn dismiss(self) {
        drop(self.channel);
        let _gone = waitpid(Some(self.process), WaitOptions::empty());
    }
}

/// Runs the plan to its end.
pub(crate) fn run(plan: RunPlan, guard: Option<EarlyGuard>, open: OpenKeeper) -> io::Result<End> {
    let mut front = Front::start(plan, guard, open)?;
    let end = front.event_loop()?;
    front.leave(&end);
    Ok(end)
}

struct Front {
    open: OpenKeeper,
    detached: bool,
    /// The default until CMD starts.
    margins: Margins,
    channel: Channel,
    guard: Pid,
    guard_process: OwnedFd,
    guard_is_alive: bool,
    deadline: DeadlineCell,
    signals: Signals,
    alarm: Alarm,
    terminal: Option<Terminal>,
    /// The process of CMD, which is also its group.
    command: Option<Pid>,
    /// The control group of CMD, if it has one.
    group: Option<Arc<ControlGroup>>,
    release_token: Vec<u8>,
    until: LeaseInstant,
    /// Front or guard has sent TERM.
    term_sent: bool,
    phase: Phase,
}

enum Phase {
    /// CMD has not started, or runs with a valid permit.
    Waiting,
    /// D - K has passed: the front kills, and the guard should too. The guard has until
    /// `give_up_at` to report the end.
    Overdue { sweep: Sweep, give_up_at: LeaseInstant },
    /// The guard has died.
    Orphaned(Sweep),
}

impl Front {
    fn start(plan: RunPlan, guard: Option<EarlyGuard>, open: OpenKeeper) -> io::Result<Self> {
        if plan.detached {
            setsid()?;
            // If `kgate acquire` dies before the grant, the token would be lost. After the grant
            // this signal is ignored.
            set_parent_process_death_signal(Some(process::Signal::HUP))?;
        }
        let blocked = blocked_before()?;
        let mut caught = not_ignored(&FORWARDED);
        caught.extend([Signal::SIGCHLD, Signal::SIGTTOU]);
        let signals = Signals::block(&caught)?;
        set_child_subreaper(Some(getpid()))?;
        let EarlyGuard { channel, deadline, process: guard, .. } = match guard {
            Some(guard) if !plan.detached && guard.command == plan.command => guard,
            // What was taken for the command before parsing is not the command.
            Some(guard) => {
                guard.dismiss();
                EarlyGuard::fork(&plan.command, open)?
            }
            None => EarlyGuard::fork(&plan.command, open)?,
        };
        let hello = ToGuard::Hello {
            request: Box::new(plan.request),
            busy_code: plan.busy_code,
            verbose: plan.verbose,
            quiet: plan.quiet,
            detached: plan.detached,
            terminal_of: terminal::is_all_ours().then(|| getpgrp().as_raw_nonzero().get()),
            blocked,
        };
        channel.send(&hello, &[])?;
        Ok(Front {
            open,
            detached: plan.detached,
            margins: Margins::default(),
            channel,
            guard,
            guard_process: pidfd_open(guard, PidfdFlags::empty())?,
            guard_is_alive: true,
            deadline,
            signals,
            alarm: Alarm::new()?,
            terminal: Terminal::open(),
            command: None,
            group: None,
            release_token: Vec::new(),
            until: LeaseInstant::NEVER,
            term_sent: false,
            phase: Phase::Waiting,
        })
    }

    fn event_loop(&mut self) -> io::Result<End> {
        loop {
            if let Some(end) = self.read_guard()? {
                return Ok(end);
            }
            for signal in self.signals.take() {
                self.on_signal(signal);
            }
            let now = LeaseInstant::now();
            if let Some(end) = self.check_deadline(now)? {
                return Ok(end);
            }
            self.alarm.set(self.wake_at(now), now)?;
            self.sleep()?;
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let mut sources = vec![self.signals.as_fd(), self.alarm.as_fd()];
        if self.guard_is_alive {
            sources.extend([self.channel.as_fd(), self.guard_process.as_fd()]);
        }
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the guard's messages before it checks for its death: its last message counts.
    fn read_guard(&mut self) -> io::Result<Option<End>> {
        let died = self.guard_is_alive && self.guard_is_dead(Timespec { tv_sec: 0, tv_nsec: 0 })?;
        while self.guard_is_alive {
            match self.channel.take()? {
                Received::Message(
                    ToFront::Started { process, release_token, margins, control_group },
                    _,
                ) => {
                    self.command = Pid::from_raw(process);
                    self.group =
                        control_group.and_then(|path| ControlGroup::open(path).ok()).map(Arc::new);
                    (self.release_token, self.margins) = (release_token, margins);
                    if self.detached {
                        super::close_output()?;
                    }
                }
                Received::Message(ToFront::LineCleared, _) => {}
                Received::Message(ToFront::Stopped(signal), _) => self.on_stopped(signal),
                Received::Message(ToFront::Stopping, _) => self.term_sent = true,
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
        self.guard_is_alive = false;
        if self.command.is_none() {
            tree::reap_except(None);
            let message = "the guard died before the command was started".to_owned();
            return Some(End::Refused { code: exit::FAILED, message });
        }
        let kill_at = LeaseInstant::now() + self.margins.grace;
        let tree = Tree::own().and_group(self.group.clone());
        self.phase = Phase::Orphaned(Sweep::terminate(tree, self.command, kill_at));
        None
    }

    fn check_deadline(&mut self, now: LeaseInstant) -> io::Result<Option<End>> {
        let Some(command) = self.command else { return Ok(None) };
        // If no value can be read, the previous one stays: it is earlier and therefore safe.
        self.until = self.deadline.read().unwrap_or(self.until);
        let latest = self.margins.kill_at(self.until);
        if matches!(self.phase, Phase::Waiting) {
            match self.margins.check(self.until, now) {
                Due::Nothing => {}
                Due::Term if !self.term_sent && now >= self.term_at() => {
                    self.term_sent = true;
                    self.send_stopping();
                    let _gone = kill_process_group(command, process::Signal::TERM);
                    let _gone = kill_process_group(command, process::Signal::CONT);
                }
                Due::Term => {}
                Due::Kill => {
                    self.send_stopping();
                    let tree = Tree::own_and_below(self.guard).and_group(self.group.clone());
                    // The front may have been frozen too: the guard has its time from now on.
                    let give_up_at = self.until.max(now) + self.margins.kill;
                    self.phase =
                        Phase::Overdue { sweep: Sweep::kill_now(tree, self.command), give_up_at };
                }
            }
        }
        match &mut self.phase {
            Phase::Waiting => Ok(None),
            Phase::Overdue { sweep, give_up_at } => {
                let gone = sweep.advance(now, latest);
                if gone && now >= *give_up_at {
                    // The guard is frozen, or as slow as if it were.
                    let _gone = kill_process(self.guard, process::Signal::KILL);
                    return Ok(Some(
                        self.lost("not renewed in time, and the guard does not respond"),
                    ));
                }
                Ok(None)
            }
            Phase::Orphaned(sweep) => {
                let gone = sweep.advance(now, latest);
                tree::reap_except(self.command);
                Ok(gone.then(|| self.lost("the guard process died")))
            }
        }
    }

    /// The tree is gone and the guard cannot release the permit, so the front does.
    fn lost(&self, reason: &str) -> End {
        if let Some(group) = &self.group {
            group.remove();
        }
        if !self.release_token.is_empty() {
            (self.open)().release_orphaned(&self.release_token, self.margins.grace);
        }
        End::Lost(reason.to_owned())
    }

    /// Announces to the guard, before CMD ends, that the front ends it: a guard that wakes in
    /// between would take it for CMD's own end. An error means that the guard is dead.
    fn send_stopping(&self) {
        let _dead = self.channel.send(&ToGuard::Stopping, &[]);
    }

    /// The guard sends TERM at D - K - G. A quarter of the grace later the guard counts as frozen,
    /// and the front sends it.
    fn term_at(&self) -> LeaseInstant {
        self.margins.kill_at(self.until) - self.margins.grace / 4 * 3
    }

    fn wake_at(&self, now: LeaseInstant) -> LeaseInstant {
        let latest = self.margins.kill_at(self.until);
        match &self.phase {
            Phase::Waiting if self.command.is_none() => LeaseInstant::FOR_EVER,
            Phase::Waiting if self.term_sent => latest,
            Phase::Waiting => self.term_at(),
            Phase::Overdue { sweep, .. } | Phase::Orphaned(sweep) => sweep.wake_at(now, latest),
        }
    }

    fn on_signal(&mut self, signal: Signal) {
        match (signal, self.command) {
            (Signal::SIGCHLD | Signal::SIGTTOU, _) => {}
            (Signal::SIGCONT, _) => self.resume(),
            (Signal::SIGTSTP, None) => self.stop_while_waiting(),
            // `kgate acquire` has printed its token and has exited.
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

    /// Ctrl-Z before the grant: the guard keeps waiting. First it clears its line, because after
    /// the stop the terminal is the shell's. A frozen guard draws nothing, so its answer is not
    /// awaited for long; any other message means that the wait is over and the line is gone.
    fn stop_while_waiting(&self) {
        let signal = |signal: Signal| self.channel.send(&ToGuard::Signal(signal as i32), &[]);
        if signal(Signal::SIGTSTP).is_ok() {
            let mut answered = [PollFd::new(&self.channel, PollFlags::IN)];
            let _late = poll(&mut answered, Some(&Timespec { tv_sec: 0, tv_nsec: 200_000_000 }));
        }
        stop_by(|| kill_process(getpid(), process::Signal::TSTP));
        let _dead = signal(Signal::SIGCONT);
    }

    /// CMD was stopped by its terminal. Either it needs the terminal, which this process has, or
    /// the whole job stops with it, so that the shell shows its prompt. A plain SIGSTOP concerns
    /// CMD alone.
    fn on_stopped(&mut self, signal: i32) {
        let needs_terminal = signal == Signal::SIGTTIN as i32 || signal == Signal::SIGTTOU as i32;
        let Some(terminal) = &self.terminal else { return };
        if needs_terminal && terminal.is_ours() {
            self.resume();
        } else if needs_terminal || signal == Signal::SIGTSTP as i32 {
            // To the whole job: the shell would wait for the other processes. The kernel does not
            // stop an orphaned process group; then CMD continues as well.
            stop_by(|| kill_current_process_group(process::Signal::TSTP));
            self.resume();
        }
    }

    /// Continues CMD, in the foreground or background as the shell has put this job.
    fn resume(&self) {
        let Some(command) = self.command else { return };
        if let Some(terminal) = &self.terminal
            && terminal.is_ours()
        {
            terminal.give_to(command);
        }
        let _gone = kill_process_group(command, process::Signal::CONT);
    }

    /// Takes the terminal back and waits for the end of the guard, so that no process of kgate is
    /// left when the caller continues. Does not return if a key of the terminal ended the run.
    fn leave(&self, end: &End) {
        let command_had_terminal = match (&self.terminal, self.command) {
            (Some(terminal), Some(command)) => terminal.take_back_from(command),
            (Some(_) | None, _) => false,
        };
        let quarter_second = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
        if self.guard_is_alive && self.guard_is_dead(quarter_second).is_ok() {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        }
        if let (Some(key), false) = (exit::key_of(end), self.detached) {
            die_by(key, command_had_terminal);
        }
    }
}

/// Dies by the signal of a key, as CMD did: a shell ends its script or loop for such a command, and
/// goes on after one that exits with 130. If CMD had the terminal, the key did not reach the other
/// processes of this job, such as the script itself, so they get it now. Returns if the signal is
/// ignored.
fn die_by(key: Signal, whole_job: bool) {
    // CMD has written its core, if any; one of kgate would say nothing.
    let limit = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    let _kept = setrlimit(Resource::Core, limit);
    if let Some(signal) = to_send(key as i32) {
        let _sent = if whole_job {
            kill_current_process_group(signal)
        } else {
            kill_process(getpid(), signal)
        };
        let _survived = set_of(&[key]).thread_unblock();
    }
}

/// Stops this process by SIGTSTP, if the kernel allows it; returns when it is continued.
fn stop_by(send: impl FnOnce() -> rustix::io::Result<()>) {
    let stop = set_of(&[Signal::SIGTSTP]);
    if stop.thread_unblock().is_ok() {
        let _sent = send();
        let _blocked = stop.thread_block();
    }
}
