//! The guard: holds the permit, is the parent of CMD, and ends the tree when the permit ends.
//!
//! It has its own process group, so that no key of the terminal reaches it, and it ignores the
//! signals that would end it: it runs as long as the permit is held. It is a subreaper, so no
//! descendant of CMD can leave the tree. It has no session of its own: CMD's group would be
//! orphaned there, and Ctrl-Z would have no effect on it.
//!
//! ```text
//! requesting --granted--> running --CMD ended, permit lost, front died--> sweeping
//!    `--refused, timed out, signal--------------------------------------> sweeping
//! sweeping --tree gone--> releasing --released--> over
//! ```
//!
//! Invariant: the permit is released only when the tree is gone, and the guard never waits for CMD.
//! The process id of CMD, and so that of its group, stays in use until the front has ended: no
//! signal of kgate can reach another process that reuses the id.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use kgate_node::control_group::ControlGroup;
use kgate_node::process_tree::{self as tree, Tree};
use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, getpid, kill_process_group, pidfd_open,
    set_child_subreaper, waitid,
};

use super::alarm::Alarm;
use super::channel::{Channel, End, Go, NotRun, Received, ToFront, ToGuard};
use super::deadline_cell::DeadlineCell;
use super::fork::{Forked, exit_after, fork};
use super::keeper::{
    AcquireRequest, EventReceiver, Granted, Keeper, KeeperEvent, OpenKeeper, UseCgroup, Wait,
    event_channel,
};
use super::lease_clock::LeaseInstant;
use super::margins::{Due, Margins};
use super::signals::{IGNORED_BY_GUARD, Signals, to_send};
use super::sweep::Sweep;
use super::waiting::WaitLine;
use super::{exit, messages, stage};

/// Maximum time to wait for the answer to a release. Without an answer the session expires.
const RELEASE_MAX: Duration = Duration::from_secs(1);

const NOT_RENEWED: &str = "not renewed in time";

/// Runs the guard of a command, in a fork of the front. Returns its exit code.
pub(crate) fn main(
    command: &[OsString],
    channel: Channel,
    deadline: DeadlineCell,
    front: Pid,
    open: OpenKeeper,
) -> u8 {
    let ran = Guard::start(command, channel, deadline, front, open).and_then(|mut guard| {
        guard.as_mut().map_or(Ok(()), Guard::event_loop)?;
        // Exit while the guard is still there: dropping it takes time, and the caller waits.
        std::process::exit(0)
    });
    if let Err::<(), _>(error) = ran {
        super::print_message(&format!("the guard cannot continue: {error}"));
    }
    exit::FAILED
}

struct Guard {
    request: AcquireRequest,
    busy_code: u8,
    verbose: bool,
    detached: bool,
    terminal_of: Option<i32>,
    blocked: Vec<i32>,
    /// Name of CMD, for messages.
    name: String,
    deadline: DeadlineCell,
    front: Option<Front>,
    stage: Option<Channel>,
    /// The process of CMD, or of the stage that becomes it.
    command: Pid,
    /// The control group of CMD, if it has one.
    group: Option<Arc<ControlGroup>>,
    /// The locks of the slots, where permits are bound to processes. CMD has them too, but may
    /// close them; the slots stay in use as long as this process has them.
    locks: Vec<OwnedFd>,
    keeper: Box<dyn Keeper>,
    events: EventReceiver,
    signals: Signals,
    alarm: Alarm,
    requested_at: LeaseInstant,
    wait_line: WaitLine,
    /// The deadline D.
    until: LeaseInstant,
    /// The default until the grant.
    margins: Margins,
    phase: Phase,
    /// The first reason counts.
    end: Option<End>,
}

/// The front, while it is alive.
struct Front {
    channel: Channel,
    process: OwnedFd,
}

enum Phase {
    Requesting { give_up_at: LeaseInstant },
    Running,
    Sweeping(Sweep),
    Releasing { give_up_at: LeaseInstant },
    Over,
}

impl Guard {
    /// Starts the guard; none if the front has closed the channel without a request.
    fn start(
        arguments: &[OsString],
        channel: Channel,
        deadline: DeadlineCell,
        front: Pid,
        open: OpenKeeper,
    ) -> io::Result<Option<Self>> {
        let name = arguments.first().map(|name| name.to_string_lossy().into_owned());
        let mut caught = IGNORED_BY_GUARD.to_vec();
        caught.push(Signal::SIGCHLD);
        let signals = Signals::block(&caught)?;
        set_child_subreaper(Some(getpid()))?;
        // The stage starts while the front parses its command line and the request is pending.
        let (stage, command) = fork_stage(arguments, &deadline)?;
        let mut keeper = open();
        keeper.prepare();
        // While the keeper starts. Without these files nothing is requested.
        tree::check()?;
        let Received::Message(hello, _) = channel.wait()? else { return Ok(None) };
        let ToGuard::Hello { request, busy_code, verbose, quiet, detached, terminal_of, blocked } =
            hello
        else {
            return Err(io::Error::other("the first message of the front is not its request"));
        };
        // If the front has died before this, the descriptor belongs to another process. The closed
        // channel reveals it.
        let front_process = front;
        let front = Front { channel, process: pidfd_open(front, PidfdFlags::empty())? };

        let wait_line = WaitLine::new(front_process, &request.gate, quiet, verbose, detached);
        let requested_at = LeaseInstant::now();
        let (sender, events) = event_channel()?;
        let give_up_at = match request.wait {
            Wait::AtMost(span) => requested_at + span,
            Wait::ForEver | Wait::No => LeaseInstant::FOR_EVER,
        };
        let mut guard = Guard {
            request: *request,
            busy_code,
            verbose,
            detached,
            terminal_of,
            blocked,
            name: name.unwrap_or_default(),
            deadline,
            front: Some(front),
            stage: Some(stage),
            command,
            group: None,
            locks: Vec::new(),
            keeper,
            events,
            signals,
            alarm: Alarm::new()?,
            requested_at,
            wait_line,
            until: LeaseInstant::NEVER,
            margins: Margins::default(),
            phase: Phase::Requesting { give_up_at },
            end: None,
        };
        match guard.create_group() {
            Ok(()) => {
                guard.keeper.acquire(&guard.request, sender);
                guard.print_verbose(&messages::requesting(&guard.request));
            }
            Err(message) => guard.finish(End::Refused { code: exit::USAGE, message }),
        }
        Ok(Some(guard))
    }

    /// Moves the stage into a control group of its own, if that is wanted. The error says why the
    /// command must not be run.
    fn create_group(&mut self) -> Result<(), String> {
        if self.request.cgroup == UseCgroup::Off {
            return Ok(());
        }
        match ControlGroup::create(self.command) {
            Ok(group) => {
                self.print_verbose(&format!("control group {}", group.path().display()));
                self.request.control_group = Some(group.path().to_owned());
                self.group = Some(Arc::new(group));
                Ok(())
            }
            Err(error) if self.request.cgroup == UseCgroup::Require => {
                Err(format!("--cgroup require: {error}"))
            }
            Err(error) => {
                self.print_verbose(&format!("no control group: {error}"));
                Ok(())
            }
        }
    }

    /// The processes below this one.
    fn tree(&self) -> Tree {
        Tree::own().and_group(self.group.clone())
    }

    fn event_loop(&mut self) -> io::Result<()> {
        loop {
            self.read_stage()?;
            self.read_signals()?;
            self.read_front()?;
            self.read_keeper()?;
            let now = LeaseInstant::now();
            self.check_deadline(now);
            let wake_at = match &self.phase {
                Phase::Requesting { give_up_at } | Phase::Releasing { give_up_at } => *give_up_at,
                Phase::Running => self.margins.term_at(self.until),
                Phase::Sweeping(sweep) => sweep.wake_at(now, self.latest()),
                Phase::Over => break,
            };
            self.alarm.set(wake_at, now)?;
            self.sleep()?;
        }
        let end = self.end.take().unwrap_or(End::Cancelled(Signal::SIGHUP as i32));
        self.send_front(&ToFront::Ended(end), "the end");
        Ok(())
    }

    fn sleep(&self) -> io::Result<()> {
        let mut sources = vec![self.signals.as_fd(), self.events.as_fd(), self.alarm.as_fd()];
        sources.extend(self.stage.as_ref().map(AsFd::as_fd));
        sources.extend(
            self.front.iter().flat_map(|front| [front.channel.as_fd(), front.process.as_fd()]),
        );
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|source| PollFd::from_borrowed_fd(*source, PollFlags::IN)).collect();
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The stage sends a message only if CMD could not be executed; a closed channel means that CMD
    /// runs.
    fn read_stage(&mut self) -> io::Result<()> {
        let Some(stage) = &self.stage else { return Ok(()) };
        match stage.take::<NotRun>()? {
            Received::Message(NotRun { errno }, _) => {
                let (code, message) = messages::not_run(&self.name, errno);
                self.end.get_or_insert(End::Refused { code, message });
                self.stage = None;
            }
            Received::Nothing => {}
            Received::Closed => self.stage = None,
        }
        Ok(())
    }

    fn read_signals(&mut self) -> io::Result<()> {
        if self.signals.take().contains(&Signal::SIGCHLD) {
            tree::reap_except(Some(self.command));
            self.check_command()?;
        }
        Ok(())
    }

    fn check_command(&mut self) -> io::Result<()> {
        let command = WaitId::Pid(self.command);
        let no_wait = WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | WaitIdOptions::EXITED;
        if let Some(status) = waitid(command, no_wait)? {
            // A message of the stage was sent before, and so was one of the front if it has ended
            // CMD.
            self.read_stage()?;
            self.read_front()?;
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Exited(code),
                // Front and guard were frozen beyond the deadline, and the node has ended CMD.
                (None, Some(9))
                    if self.margins.check(self.until, LeaseInstant::now()) != Due::Nothing =>
                {
                    End::Lost(NOT_RENEWED.to_owned())
                }
                (None, Some(signal)) => End::Killed(signal),
                (None, None) => return Ok(()),
            };
            if matches!(self.phase, Phase::Running) {
                self.end.get_or_insert(end);
                self.stop_leftovers();
            } else if matches!(self.phase, Phase::Requesting { .. }) {
                let message = "the stage died before it became the command".to_owned();
                self.finish(End::Refused { code: exit::FAILED, message });
            }
            return Ok(());
        }
        let stopped =
            waitid(WaitId::Pid(self.command), WaitIdOptions::NOHANG | WaitIdOptions::STOPPED)?;
        if let Some(signal) = stopped.and_then(|status| status.stopping_signal()) {
            self.send_front(&ToFront::Stopped(signal), "the stop of the command");
        }
        Ok(())
    }

    /// CMD has ended. The processes that it left running have no permit and are stopped.
    fn stop_leftovers(&mut self) {
        if self.tree().is_gone() {
            return self.start_release(LeaseInstant::now());
        }
        let leftovers = self.tree().living();
        if !leftovers.is_empty() {
            self.print_always(&messages::leftovers(&self.name, leftovers.len()));
        }
        self.stop();
    }

    fn read_front(&mut self) -> io::Result<()> {
        let Some(front) = &self.front else { return Ok(()) };
        let mut dead = [PollFd::new(&front.process, PollFlags::IN)];
        poll(&mut dead, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        if !dead[0].revents().is_empty() {
            self.front_died();
            return Ok(());
        }
        while let Some(front) = &self.front {
            match front.channel.take()? {
                Received::Message(ToGuard::Signal(signal), _) => self.forward(signal),
                Received::Message(ToGuard::Stopping, _) => self.lost(NOT_RENEWED.to_owned()),
                Received::Message(ToGuard::Hello { .. }, _) => {}
                Received::Nothing => break,
                Received::Closed => self.front_died(),
            }
        }
        Ok(())
    }

    fn front_died(&mut self) {
        self.front = None;
        match &self.phase {
            Phase::Requesting { .. } => self.finish(End::Cancelled(Signal::SIGHUP as i32)),
            Phase::Running => {
                self.print_verbose("the front has died: stopping the command");
                self.stop();
            }
            Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
    }

    /// Forwards a signal that arrived before CMD started. One that ends processes ends the wait.
    fn forward(&mut self, signal: i32) {
        const ENDING: [Signal; 4] =
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
        match &self.phase {
            Phase::Requesting { .. } if ENDING.iter().any(|ending| *ending as i32 == signal) => {
                self.finish(End::Cancelled(signal));
            }
            Phase::Requesting { .. } => self.wait_signal(signal),
            // It crossed the grant: the front stops, as a job whose command runs in the background.
            Phase::Running if signal == Signal::SIGTSTP as i32 => {}
            // `kgate acquire` has printed its token and has exited; the front got the signal first.
            Phase::Running if self.detached && signal == Signal::SIGHUP as i32 => {}
            Phase::Running => {
                if let Some(signal) = to_send(signal) {
                    let _gone = kill_process_group(self.command, signal);
                }
            }
            Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
    }

    /// A signal that concerns the line on the terminal.
    fn wait_signal(&self, signal: i32) {
        if signal == Signal::SIGTSTP as i32 {
            self.wait_line.suspend(true);
            self.send_front(&ToFront::LineCleared, "the cleared line");
        } else if signal == Signal::SIGCONT as i32 {
            self.wait_line.suspend(false);
        } else if signal == Signal::SIGWINCH as i32 {
            self.wait_line.draw();
        }
    }

    fn read_keeper(&mut self) -> io::Result<()> {
        for event in self.events.take() {
            match event {
                KeeperEvent::Renewed(until) if until > self.until => {
                    self.until = until;
                    self.deadline.write(until)?;
                }
                KeeperEvent::Renewed(_) => {}
                KeeperEvent::Waiting(report) => {
                    if matches!(self.phase, Phase::Requesting { .. }) {
                        self.wait_line.show(report);
                    }
                }
                KeeperEvent::Granted(granted) => self.granted(granted)?,
                KeeperEvent::Refused(refusal) => {
                    let code = exit::of_refusal(refusal.kind, self.busy_code);
                    self.finish_if_requesting(End::Refused { code, message: refusal.message });
                }
                KeeperEvent::Lost(reason) => self.lost(reason),
                KeeperEvent::Released => {
                    if matches!(self.phase, Phase::Releasing { .. }) {
                        self.phase = Phase::Over;
                    }
                }
            }
        }
        Ok(())
    }

    fn granted(&mut self, granted: Granted) -> io::Result<()> {
        let (Phase::Requesting { .. }, Some(stage)) = (&self.phase, &self.stage) else {
            return Ok(());
        };
        self.wait_line.clear();
        let now = LeaseInstant::now();
        self.margins = granted.margins;
        // LEASES S2: a grant that is too late to be used safely is released.
        if self.margins.check(self.until, now) != Due::Nothing {
            let reason = "granted too late to start the command before TERM is due";
            self.finish(End::Lost(reason.to_owned()));
            return Ok(());
        }
        self.print_verbose(&messages::granted(
            &self.request,
            &granted,
            now.after(self.requested_at),
            &self.name,
        ));
        if let Some(text) = messages::third_killer(&granted.third_killer) {
            self.print_verbose(&text);
        }
        let variables = messages::variables(&self.request, &granted);
        self.locks = granted.inherited;
        // The front must know the process before CMD runs, to kill it if necessary.
        let process = self.command.as_raw_nonzero().get();
        self.send_front(
            &ToFront::Started {
                process,
                release_token: granted.release_token,
                margins: self.margins,
                control_group: self.request.control_group.clone(),
            },
            "the start of the command",
        );
        if self.wait_line.is_suspended() {
            // Ctrl-Z while waiting: CMD starts when the job continues, and not before.
            let _gone = kill_process_group(self.command, rustix::process::Signal::STOP);
        }
        let go = Go { variables, terminal_of: self.terminal_of, blocked: self.blocked.clone() };
        let descriptors: Vec<_> = self.locks.iter().map(AsFd::as_fd).collect();
        stage.send(&go, &descriptors)?;
        self.phase = Phase::Running;
        if self.detached {
            super::close_output()?;
        }
        Ok(())
    }

    fn lost(&mut self, reason: String) {
        match &self.phase {
            Phase::Requesting { .. } => self.finish(End::Lost(reason)),
            Phase::Running => {
                self.end.get_or_insert(End::Lost(reason));
                self.send_front(&ToFront::Stopping, "the stop of the command");
                self.stop();
            }
            Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
    }

    fn check_deadline(&mut self, now: LeaseInstant) {
        match &self.phase {
            Phase::Requesting { give_up_at } if now >= *give_up_at => {
                let message = messages::timed_out(&self.request);
                self.finish(End::Refused { code: self.busy_code, message });
            }
            Phase::Running => match self.margins.check(self.until, now) {
                Due::Nothing => {}
                Due::Term | Due::Kill => self.lost(NOT_RENEWED.to_owned()),
            },
            Phase::Releasing { give_up_at } if now >= *give_up_at => self.phase = Phase::Over,
            Phase::Requesting { .. }
            | Phase::Sweeping(_)
            | Phase::Releasing { .. }
            | Phase::Over => {}
        }
        let latest = self.latest();
        if let Phase::Sweeping(sweep) = &mut self.phase
            && sweep.advance(now, latest)
        {
            self.start_release(now);
        }
    }

    /// No process is left: the permit is released.
    fn start_release(&mut self, now: LeaseInstant) {
        if let Some(group) = &self.group {
            group.remove();
        }
        // The node grants the slots again when no process has the locks.
        self.locks.clear();
        self.keeper.release();
        let give_up_at = (now + RELEASE_MAX).min(self.until.max(now));
        self.phase = Phase::Releasing { give_up_at };
    }

    /// D - K: no process may live longer. Before the grant the tree has only the stage.
    fn latest(&self) -> LeaseInstant {
        self.margins.kill_at(self.until)
    }

    /// Sends TERM to the tree, and KILL after the grace.
    fn stop(&mut self) {
        let kill_at = LeaseInstant::now() + self.margins.grace;
        self.phase = Phase::Sweeping(Sweep::terminate(self.tree(), Some(self.command), kill_at));
    }

    /// Ends the run before CMD has started: only the stage is killed.
    fn finish(&mut self, end: End) {
        self.wait_line.clear();
        self.end.get_or_insert(end);
        self.stage = None;
        self.phase = Phase::Sweeping(Sweep::kill_now(self.tree(), Some(self.command)));
    }

    fn finish_if_requesting(&mut self, end: End) {
        if matches!(self.phase, Phase::Requesting { .. }) {
            self.finish(end);
        }
    }

    /// Sends to the front. On an error the front is dead or frozen; its descriptor shows which.
    fn send_front(&self, message: &ToFront, what: &str) {
        if let Some(front) = &self.front
            && let Err(error) = front.channel.send(message, &[])
        {
            self.print_verbose(&format!("cannot report {what} to the front: {error}"));
        }
    }

    fn print_verbose(&self, text: &str) {
        if self.verbose {
            self.print_always(text);
        }
    }

    /// A closed standard error must not end the guard.
    fn print_always(&self, text: &str) {
        self.wait_line.clear();
        let _closed = writeln!(io::stderr(), "kgate: {}", kgate_api::printable_lines(text));
    }
}

fn fork_stage(command: &[OsString], deadline: &DeadlineCell) -> io::Result<(Channel, Pid)> {
    let (ours, theirs) = Channel::pair()?;
    let guard = getpid();
    match fork(c"kgate stage")? {
        Forked::Child => {
            drop(ours);
            exit_after(|| stage::main(command, &theirs, deadline, guard))
        }
        Forked::Parent(stage) => Ok((ours, stage)),
    }
}
