//! `kgate guard`: holds the permit, is CMD's parent, and ends the tree when the permit ends.
//!
//! It has a process group of its own, so that no key of the terminal reaches it, and shrugs off
//! what would end it politely: it is alive as long as the permit is held. It is a subreaper, so no
//! descendant of CMD can slip away. It is not in a session of its own: CMD's group would be an
//! orphan there, and Ctrl-Z would have no effect on it.
//!
//! ```text
//! asking --granted--> running --CMD ended, permit lost, front died--> sweeping --nobody left--> releasing --released--> over
//!    \--refused, wait over, signal-----------------------------------^
//! ```
//!
//! Invariant: the permit is given back only when the tree is gone, and CMD itself is never waited
//! for here. Its number, and so the number of its group, stays taken until the front is done too:
//! no signal of ours can meet a stranger.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, getpid, getppid, kill_process_group, pidfd_open,
    set_child_subreaper, waitid,
};

use super::alarm::Alarm;
use super::channel::{Channel, End, Go, NotRun, Received, ToFront, ToGuard};
use super::keeper::{Granted, Keeper, MailBox, News, OpenKeeper, Wait, Wish, mail};
use super::lease_clock::LeaseInstant;
use super::margins::{Margins, Verdict};
use super::page::Page;
use super::signals::{SHRUGGED_OFF, Signals, to_send};
use super::sweep::Sweep;
use super::tree::{self, Tree};
use super::{exit, words};

/// A node that does not answer a release is told by our silence in the end.
const RELEASE_MAX: Duration = Duration::from_secs(1);

const NOT_RENEWED: &str = "it was not renewed in time";

/// `kgate guard CMD [ARG..]`.
pub(crate) fn main(command: &[OsString], open: OpenKeeper) -> ExitCode {
    match Guard::start(command, open)
        .and_then(|guard| guard.map_or(Ok(()), |mut guard| guard.work()))
    {
        // Nothing is left to do, and taking everything apart takes time that somebody waits for.
        Ok(()) => std::process::exit(0),
        Err(error) => super::failed(&format!("the guard cannot go on: {error}")),
    }
}

struct Guard {
    wish: Wish,
    occupied_code: u8,
    verbose: bool,
    detached: bool,
    terminal_of: Option<i32>,
    blocked: Vec<i32>,
    /// CMD's name, for people.
    name: String,
    standard_input: OwnedFd,
    page: Page,
    front: Option<Front>,
    stage: Option<Channel>,
    /// CMD, or the stage that will become it.
    command: Pid,
    keeper: Box<dyn Keeper>,
    news: MailBox,
    signals: Signals,
    alarm: Alarm,
    asked_at: LeaseInstant,
    /// D.
    until: LeaseInstant,
    /// Known with the grant.
    margins: Margins,
    phase: Phase,
    /// The first reason counts.
    end: Option<End>,
}

/// While it is alive.
struct Front {
    channel: Channel,
    process: OwnedFd,
}

enum Phase {
    Asking { give_up_at: LeaseInstant },
    Running,
    Sweeping(Sweep),
    Releasing { give_up_at: LeaseInstant },
    Over,
}

impl Guard {
    /// None if nobody wants CMD to run after all.
    fn start(arguments: &[OsString], open: OpenKeeper) -> io::Result<Option<Self>> {
        let misuse =
            || io::Error::other("`kgate guard` is a part of `kgate run`, not for use by hand");
        let name = arguments.first().ok_or_else(misuse)?.to_string_lossy().into_owned();
        let mut caught = SHRUGGED_OFF.to_vec();
        caught.push(Signal::SIGCHLD);
        let signals = Signals::block(&caught)?;
        let channel = Channel::from_standard_input()?;
        let parent = getppid().ok_or_else(misuse)?;
        tree::check()?;
        set_child_subreaper(Some(getpid()))?;
        // While the front reads its command line and the answer is on its way.
        let (stage, command) = start_stage(arguments)?;
        let Received::Message(hello, descriptors) = channel.wait()? else { return Ok(None) };
        let ToGuard::Hello { wish, occupied_code, verbose, detached, terminal_of, blocked } = hello
        else {
            return Err(misuse());
        };
        let [standard_input, page] = <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| misuse())?;
        // If the front died before this, the descriptor is of somebody else; its end of the channel
        // tells then.
        let front = Front { channel, process: pidfd_open(parent, PidfdFlags::empty())? };

        let asked_at = LeaseInstant::now();
        let (post, news) = mail()?;
        let mut keeper = open();
        keeper.ask(&wish, post);
        let give_up_at = match wish.wait {
            Wait::AtMost(span) => asked_at + span,
            Wait::ForEver | Wait::No => LeaseInstant::FOR_EVER,
        };
        let guard = Guard {
            wish: *wish,
            occupied_code,
            verbose,
            detached,
            terminal_of,
            blocked,
            name,
            standard_input,
            page: page.into(),
            front: Some(front),
            stage: Some(stage),
            command,
            keeper,
            news,
            signals,
            alarm: Alarm::new()?,
            asked_at,
            until: LeaseInstant::NEVER,
            margins: Margins::default(),
            phase: Phase::Asking { give_up_at },
            end: None,
        };
        guard.say(&words::asking(&guard.wish));
        Ok(Some(guard))
    }

    fn work(&mut self) -> io::Result<()> {
        loop {
            self.hear_stage()?;
            self.hear_signals()?;
            self.hear_front()?;
            self.hear_keeper()?;
            let now = LeaseInstant::now();
            self.look_at_the_clock(now);
            let wake_at = match &self.phase {
                Phase::Asking { give_up_at } | Phase::Releasing { give_up_at } => *give_up_at,
                Phase::Running => self.margins.term_at(self.until),
                Phase::Sweeping(sweep) => sweep.wake_at(now, self.latest()),
                Phase::Over => break,
            };
            self.alarm.set(wake_at, now)?;
            self.sleep()?;
        }
        let end = self.end.take().unwrap_or(End::Cancelled(Signal::SIGHUP as i32));
        self.tell_front(&ToFront::Ended(end), "its end");
        Ok(())
    }

    fn sleep(&self) -> io::Result<()> {
        let mut sources = vec![self.signals.as_fd(), self.news.as_fd(), self.alarm.as_fd()];
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

    /// It speaks only if CMD could not be run; its silent end means that CMD runs.
    fn hear_stage(&mut self) -> io::Result<()> {
        let Some(stage) = &self.stage else { return Ok(()) };
        match stage.take::<NotRun>()? {
            Received::Message(NotRun { errno }, _) => {
                let (code, text) = words::not_run(&self.name, errno);
                self.end.get_or_insert(End::Refused { code, text });
                self.stage = None;
            }
            Received::Nothing => {}
            Received::Closed => self.stage = None,
        }
        Ok(())
    }

    fn hear_signals(&mut self) -> io::Result<()> {
        if self.signals.take().contains(&Signal::SIGCHLD) {
            tree::reap_except(Some(self.command));
            self.look_at_command()?;
        }
        Ok(())
    }

    fn look_at_command(&mut self) -> io::Result<()> {
        let command = WaitId::Pid(self.command);
        let no_wait = WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT | WaitIdOptions::EXITED;
        if let Some(status) = waitid(command, no_wait)? {
            // What the stage had to say, it said before; so did the front, if it was the one who
            // ended CMD.
            self.hear_stage()?;
            self.hear_front()?;
            let end = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => End::Exited(code),
                (None, Some(signal)) => End::Killed(signal),
                (None, None) => return Ok(()),
            };
            if matches!(self.phase, Phase::Running) {
                self.end.get_or_insert(end);
                self.clear_away();
            } else if matches!(self.phase, Phase::Asking { .. }) {
                let text = "the stage that was to become the command died".to_owned();
                self.finish(End::Refused { code: exit::FAILED, text });
            }
            return Ok(());
        }
        let stopped =
            waitid(WaitId::Pid(self.command), WaitIdOptions::NOHANG | WaitIdOptions::STOPPED)?;
        if let Some(signal) = stopped.and_then(|status| status.stopping_signal()) {
            self.tell_front(&ToFront::Stopped(signal), "that the command was stopped");
        }
        Ok(())
    }

    /// CMD is done; what it left running holds no permit of its own.
    fn clear_away(&mut self) {
        let left = Tree::own().living();
        if !left.is_empty() {
            self.say_always(&words::left_behind(&self.name, left.len()));
        }
        self.stop();
    }

    fn hear_front(&mut self) -> io::Result<()> {
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
            Phase::Asking { .. } => self.finish(End::Cancelled(Signal::SIGHUP as i32)),
            Phase::Running => {
                self.say("the front is gone; the command is stopped");
                self.stop();
            }
            Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
    }

    /// A signal that found no CMD when it came. One that would have ended us ends the waiting.
    fn forward(&mut self, signal: i32) {
        const ENDING: [Signal; 4] =
            [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
        match &self.phase {
            Phase::Asking { .. } if ENDING.iter().any(|ending| *ending as i32 == signal) => {
                self.finish(End::Cancelled(signal));
            }
            // `kgate acquire` has its token and is gone; the front heard of that first.
            Phase::Running if self.detached && signal == Signal::SIGHUP as i32 => {}
            Phase::Running => {
                if let Some(signal) = to_send(signal) {
                    let _gone = kill_process_group(self.command, signal);
                }
            }
            Phase::Asking { .. } | Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
    }

    fn hear_keeper(&mut self) -> io::Result<()> {
        for news in self.news.take() {
            match news {
                News::Renewed(until) if until > self.until => {
                    self.until = until;
                    self.page.write(until)?;
                }
                News::Renewed(_) => {}
                News::Granted(granted) => self.granted(granted)?,
                News::Refused(refusal) => {
                    let code = exit::of_refusal(refusal.kind, self.occupied_code);
                    self.finish_if_asking(End::Refused { code, text: refusal.text });
                }
                News::Lost(why) => self.lost(why),
                News::Released => {
                    if matches!(self.phase, Phase::Releasing { .. }) {
                        self.phase = Phase::Over;
                    }
                }
            }
        }
        Ok(())
    }

    fn granted(&mut self, granted: Granted) -> io::Result<()> {
        let (Phase::Asking { .. }, Some(stage)) = (&self.phase, &self.stage) else { return Ok(()) };
        let now = LeaseInstant::now();
        self.margins = granted.margins;
        // LEASES S2: a grant that comes too late to be used safely is given back.
        if self.margins.check(self.until, now) != Verdict::Fine {
            self.finish(End::Lost(
                "the permit came too late to be used; it was given back".to_owned(),
            ));
            return Ok(());
        }
        self.say(&words::granted(&self.wish, &granted, now.after(self.asked_at), &self.name));
        let page = self.page.read_only()?;
        let mut descriptors = vec![self.standard_input.as_fd(), page.as_fd()];
        descriptors.extend(granted.inherited.iter().map(AsFd::as_fd));
        let variables = words::variables(&self.wish, &granted);
        // The front must know whom to kill before there is anybody.
        let process = self.command.as_raw_nonzero().get();
        self.tell_front(
            &ToFront::Started { process, ticket: granted.ticket, margins: self.margins },
            "that the command starts",
        );
        let go = Go { variables, terminal_of: self.terminal_of, blocked: self.blocked.clone() };
        stage.send(&go, &descriptors)?;
        self.phase = Phase::Running;
        if self.detached {
            super::fall_silent()?;
        }
        Ok(())
    }

    fn lost(&mut self, why: String) {
        match &self.phase {
            Phase::Asking { .. } => self.finish(End::Lost(why)),
            Phase::Running => {
                self.end.get_or_insert(End::Lost(why));
                self.tell_front(&ToFront::Stopping, "that the command is stopped");
                self.stop();
            }
            Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
    }

    fn look_at_the_clock(&mut self, now: LeaseInstant) {
        match &self.phase {
            Phase::Asking { give_up_at } if now >= *give_up_at => {
                let text = words::wait_over(&self.wish);
                self.finish(End::Refused { code: self.occupied_code, text });
            }
            Phase::Running => match self.margins.check(self.until, now) {
                Verdict::Fine => {}
                Verdict::Term | Verdict::Kill => self.lost(NOT_RENEWED.to_owned()),
            },
            Phase::Releasing { give_up_at } if now >= *give_up_at => self.phase = Phase::Over,
            Phase::Asking { .. } | Phase::Sweeping(_) | Phase::Releasing { .. } | Phase::Over => {}
        }
        let latest = self.latest();
        if let Phase::Sweeping(sweep) = &mut self.phase
            && sweep.is_done(now, latest)
        {
            self.keeper.release();
            let give_up_at = (now + RELEASE_MAX).min(self.until.max(now));
            self.phase = Phase::Releasing { give_up_at };
        }
    }

    /// D - K: nobody may live longer. A tree without a permit has only the stage in it.
    fn latest(&self) -> LeaseInstant {
        self.margins.kill_at(self.until)
    }

    /// TERM to all, KILL after the grace.
    fn stop(&mut self) {
        let kill_at = LeaseInstant::now() + self.margins.grace;
        self.phase = Phase::Sweeping(Sweep::gently(Tree::own(), Some(self.command), kill_at));
    }

    /// Nothing of CMD has run: only the stage must go.
    fn finish(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.stage = None;
        self.phase = Phase::Sweeping(Sweep::at_once(Tree::own(), Some(self.command)));
    }

    fn finish_if_asking(&mut self, end: End) {
        if matches!(self.phase, Phase::Asking { .. }) {
            self.finish(end);
        }
    }

    /// A front that cannot be told is dead or frozen: its descriptor tells which.
    fn tell_front(&self, message: &ToFront, what: &str) {
        if let Some(front) = &self.front
            && let Err(error) = front.channel.send(message, &[])
        {
            self.say(&format!("cannot tell the front {what}: {error}"));
        }
    }

    fn say(&self, text: &str) {
        if self.verbose {
            self.say_always(text);
        }
    }

    /// Nobody may be listening. That must not end us.
    fn say_always(&self, text: &str) {
        let _unheard = writeln!(io::stderr(), "kgate: {text}");
    }
}

fn start_stage(command: &[OsString]) -> io::Result<(Channel, Pid)> {
    let (ours, theirs) = Channel::pair()?;
    let mut stage = Command::new("/proc/self/exe");
    stage.arg0("kgate").arg("stage").arg(getpid().as_raw_nonzero().to_string()).args(command);
    let child = stage.stdin(theirs).process_group(0).spawn()?;
    Ok((ours, Pid::from_child(&child)))
}
