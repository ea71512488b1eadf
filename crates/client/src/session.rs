//! The session: one task that talks to the node for all permits of a client.
//!
//! It says `Renew` as often as the node wants and counts from when it said so (rule S1 of the
//! leases). When the connection is cut it dials again and goes on with its session by its secret
//! (S5); whoever waited is asked for anew, which the node has forgotten, and permits are kept. When
//! its time passes before the node is heard again, all permits are lost, whatever the node may
//! think; whoever waits looks for the node a while longer. What it has in hand is in `hand.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::client_message::Message as Say;
use kgate_api::v1::server_message::Message as Told;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::hand::{Hand, Taken};
use crate::permit::Granted;
use crate::{Address, Error, Lease, LeaseInstant, Refusal};

/// How long a node that is gone is looked for, by those who wait.
const LOOK: Duration = Duration::from_secs(10);
/// How long a grant is held back where the node does not say how long its leases are.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a node may take to accept a connection and to answer the first word.
const CONNECT: Duration = Duration::from_secs(3);
/// How long after a cut the first new attempt is made; later ones wait longer, up to the last.
const AGAIN: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
];
/// So much may be said that the node has not read.
const UNREAD: usize = 256;

/// What a client wants.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) gate: String,
    pub(crate) permits: u32,
    pub(crate) k: Option<u32>,
    pub(crate) no_wait: bool,
    pub(crate) process: Option<v1::Process>,
    /// Whoever gets it needs so long to stop.
    pub(crate) margin: Duration,
}

pub(crate) type Answer = oneshot::Sender<Result<Granted, Error>>;

/// What is asked of the task.
#[derive(Debug)]
pub(crate) enum Command {
    Acquire(u64, Wish, Answer),
    Withdraw(u64),
    Release(u64, Option<oneshot::Sender<()>>),
    Bind(u64),
    Bye,
}

/// A session's name and secret: who has them can go on with it, or end it. So a log does not show
/// the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// Its name.
    pub session: u64,
    /// Its secret.
    pub secret: u128,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket {{ session: {}, secret: *** }}", self.session)
    }
}

impl Ticket {
    /// As bytes.
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..].copy_from_slice(&self.secret.to_be_bytes());
        bytes
    }

    /// From bytes; none if they are no ticket.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (session, secret) = bytes.split_first_chunk::<8>()?;
        let secret = u128::from_be_bytes(secret.try_into().ok()?);
        Some(Self { session: u64::from_be_bytes(*session), secret })
    }
}

/// What is known once a session is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) until: watch::Receiver<LeaseInstant>,
    pub(crate) ticket: watch::Receiver<Ticket>,
    pub(crate) lease: watch::Receiver<Lease>,
    pub(crate) node: u32,
}

/// A stream to the node and back.
pub(crate) struct Line {
    pub(crate) say: mpsc::Sender<v1::ClientMessage>,
    pub(crate) hear: Streaming<v1::ServerMessage>,
}

/// The session of a client.
pub(crate) struct Session {
    address: Address,
    process: v1::Process,
    commands: mpsc::UnboundedReceiver<Command>,
    line: Line,
    ticket: watch::Sender<Ticket>,
    until: watch::Sender<LeaseInstant>,
    lease: watch::Sender<Lease>,
    /// When the node was last heard.
    heard: LeaseInstant,
    /// When each `Renew` that is not answered was sent.
    renewals: BTreeMap<u64, LeaseInstant>,
    sequence: u64,
    waiting: BTreeMap<u64, (Wish, Answer)>,
    hand: Hand,
    ending: bool,
}

impl Session {
    /// Begins a session, or goes on with one.
    pub(crate) async fn open(
        address: Address,
        process: v1::Process,
        commands: mpsc::UnboundedReceiver<Command>,
        ticket: Option<Ticket>,
    ) -> Result<(Self, Opened), Error> {
        let sent = LeaseInstant::now();
        let (line, welcome) = dial(&address, &process, ticket).await?;
        let (until, until_seen) = watch::channel(counts_until(sent, welcome.valid_for_ns));
        let (ticket, ticket_seen) = watch::channel(ticket_of(&welcome)?);
        let (lease, lease_seen) = watch::channel(Lease::of(&welcome));
        let session = Self {
            address,
            process,
            commands,
            line,
            ticket,
            until,
            lease,
            heard: LeaseInstant::now(),
            renewals: BTreeMap::new(),
            sequence: 0,
            waiting: BTreeMap::new(),
            hand: Hand::default(),
            ending: false,
        };
        let opened = Opened {
            until: until_seen,
            ticket: ticket_seen,
            lease: lease_seen,
            node: welcome.node,
        };
        Ok((session, opened))
    }

    /// Runs until the client is gone and everything was given back.
    pub(crate) async fn run(mut self) {
        loop {
            let cut = self.talk().await;
            if self.ending && !self.hand.owes() {
                return;
            }
            if let Err(why) = self.dial_again(cut).await {
                self.lose_everything(&why);
                return;
            }
        }
    }

    /// Talks until the line is cut, and says why it was; or until all is over.
    async fn talk(&mut self) -> String {
        let mut renew = tokio::time::interval(self.lease.borrow().renew_every);
        self.heard = LeaseInstant::now();
        renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                told = self.line.hear.message() => match told {
                    Ok(Some(v1::ServerMessage { message: Some(told) })) => {
                        self.heard = LeaseInstant::now();
                        if let Some(why) = self.on_told(told).await {
                            return why;
                        }
                    }
                    Ok(Some(v1::ServerMessage { message: None })) => {}
                    Ok(None) => return "the node has closed the stream".into(),
                    Err(status) => return status.message().to_owned(),
                },
                command = self.commands.recv(), if !self.ending => match command {
                    Some(command) => self.on_command(command).await,
                    None => self.end().await,
                },
                _ = renew.tick() => self.renew().await,
            }
            self.look_at_the_clock().await;
            let silence = LeaseInstant::now().after(self.heard);
            if self.lease.borrow().silence().is_some_and(|most| silence > most) {
                return "the node was silent for too long".into();
            }
        }
    }

    /// Time passes: permits are lost, or what was held back is handed over or goes back.
    async fn look_at_the_clock(&mut self) {
        let (now, until) = (LeaseInstant::now(), *self.until.borrow());
        if until <= now {
            self.hand.time_is_over("its node was not heard in time");
        }
        for number in self.hand.settle(now, until) {
            self.release(number, None).await;
        }
    }

    async fn say(&self, say: Say) {
        // A line that is cut is noticed by whoever listens to it.
        let _ = self.line.say.send(v1::ClientMessage { message: Some(say) }).await;
    }

    async fn renew(&mut self) {
        self.sequence += 1;
        self.renewals.insert(self.sequence, LeaseInstant::now());
        self.say(Say::Renew(v1::Renew { sequence: self.sequence })).await;
    }

    async fn end(&mut self) {
        self.ending = true;
        self.say(Say::EndSession(v1::EndSession {})).await;
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Acquire(number, wish, answer) => {
                self.say(ask_for(number, &wish)).await;
                self.waiting.insert(number, (wish, answer));
            }
            Command::Withdraw(number) => {
                if self.waiting.remove(&number).is_some() {
                    self.say(Say::Withdraw(v1::Withdraw { request_id: number })).await;
                }
                self.release(number, None).await;
            }
            Command::Release(number, done) => self.release(number, done).await,
            Command::Bind(number) => self.hand.bind(number),
            Command::Bye => self.end().await,
        }
    }

    async fn release(&mut self, number: u64, done: Option<oneshot::Sender<()>>) {
        if self.hand.release(number, done) {
            self.say(Say::Release(v1::Release { request_id: number })).await;
        }
    }

    /// What the node says. A reason, if it ends the stream.
    async fn on_told(&mut self, told: Told) -> Option<String> {
        match told {
            Told::Welcome(_) | Told::Withdrawn(_) | Told::PermitRenewed(_) => {}
            Told::Granted(granted) => self.on_granted(granted).await,
            Told::Refused(v1::Refused { request_id: number, code: why, message: text }) => {
                if let Some((_, answer)) = self.waiting.remove(&number) {
                    let _ = answer.send(Err(Error::Refused(Refusal::new(why, text))));
                }
            }
            Told::Lost(v1::Lost { request_id: number, message: text }) => {
                // Its holder stops first, and then it is given back.
                if self.hand.lose(number, &text) {
                    self.release(number, None).await;
                }
            }
            Told::Released(v1::Released { request_id: number, .. }) => self.hand.released(number),
            Told::Renewed(v1::Renewed { sequence, valid_for_ns }) => {
                if let Some(sent) = self.renewals.remove(&sequence) {
                    // Earlier ones that are answered later say less.
                    self.renewals.retain(|earlier, _| *earlier > sequence);
                    let until = counts_until(sent, valid_for_ns);
                    self.until.send_if_modified(|known| {
                        let more = until > *known;
                        *known = until.max(*known);
                        more
                    });
                }
            }
            Told::Closed(v1::Closed { code: why, message: text }) => {
                match v1::ErrorCode::try_from(why) {
                    Ok(v1::ErrorCode::SessionNotFound | v1::ErrorCode::NodeGone) => {
                        self.session_is_gone(&text)
                    }
                    // The same words once more would be refused once more.
                    Ok(v1::ErrorCode::BadRequest) => self.refuse_waiting(why, &text),
                    Ok(_) | Err(_) => {}
                }
                return Some(text);
            }
        }
        None
    }

    async fn on_granted(&mut self, granted: v1::Granted) {
        let number = granted.request_id;
        let asked = self.waiting.remove(&number);
        let patience = self.lease.borrow().length.unwrap_or(PATIENCE);
        let (now, until) = (LeaseInstant::now(), *self.until.borrow());
        match self.hand.granted(now, until, patience, granted, asked) {
            Taken::HandedOver => {}
            Taken::HeldBack => self.renew().await,
            Taken::Unwanted => self.release(number, None).await,
        }
    }

    /// The line is cut: makes a new one in time, or says why not.
    async fn dial_again(&mut self, cut: String) -> Result<(), String> {
        let give_up_at = LeaseInstant::now() + LOOK;
        let mut pauses = AGAIN.into_iter();
        let mut last = cut;
        loop {
            while let Ok(command) = self.commands.try_recv() {
                self.on_command(command).await;
            }
            self.look_at_the_clock().await;
            let (now, until) = (LeaseInstant::now(), *self.until.borrow());
            // Nobody is left who could want something, and the node finds out about the rest by
            // itself when its time is over.
            let nobody = self.ending || self.commands.is_closed();
            let over = now >= give_up_at || nobody && (!self.hand.owes() || until <= now);
            if over && !self.hand.counts() {
                return Err(last);
            }
            let ticket = *self.ticket.borrow();
            let resume = self.hand.owes().then_some(ticket);
            match dial(&self.address, &self.process, resume).await {
                Ok((line, welcome)) => {
                    self.line = line;
                    self.renewals.clear();
                    return self.go_on(now, resume, &welcome).await;
                }
                Err(Error::Refused(Refusal {
                    code: v1::ErrorCode::SessionNotFound,
                    message: text,
                })) => self.session_is_gone(&text),
                Err(
                    error @ (Error::NoNode { .. }
                    | Error::TimedOut(_)
                    | Error::Refused(_)
                    | Error::Credentials(_)
                    | Error::Address(_)),
                ) => {
                    last = error.to_string();
                    let pause = pauses.next().unwrap_or(AGAIN[AGAIN.len() - 1]);
                    // Whoever holds something is told in time that it no longer counts.
                    let left = until.after(LeaseInstant::now());
                    let pause = if left.is_zero() { pause } else { pause.min(left) };
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// A new line, by a greeting that was sent then: the session goes on by its secret (S5), or is
    /// another one.
    async fn go_on(
        &mut self,
        sent: LeaseInstant,
        resume: Option<Ticket>,
        welcome: &v1::Welcome,
    ) -> Result<(), String> {
        let ticket = ticket_of(welcome).map_err(|error| error.to_string())?;
        let until = counts_until(sent, welcome.valid_for_ns);
        if resume.is_some_and(|former| former.session == ticket.session) {
            self.until.send_modify(|known| *known = until.max(*known));
        } else {
            self.session_is_gone("its node does not know it any more");
            // What another session was told says nothing about this one.
            self.until.send_replace(until);
        }
        self.ticket.send_replace(ticket);
        self.lease.send_replace(Lease::of(welcome));
        self.ask_anew(welcome).await;
        Ok(())
    }

    /// On a new line: what was given back meanwhile is told again, and whoever waits is asked for
    /// once more.
    async fn ask_anew(&mut self, welcome: &v1::Welcome) {
        let (releases, again) = self.hand.resumed(&welcome.held_request_ids);
        self.waiting.extend(again);
        for number in releases {
            self.say(Say::Release(v1::Release { request_id: number })).await;
        }
        let wishes: Vec<Say> =
            self.waiting.iter().map(|(number, (wish, _))| ask_for(*number, wish)).collect();
        for wish in wishes {
            self.say(wish).await;
        }
        if self.ending {
            self.end().await;
        }
    }

    /// There is no such session any more. What was held back is asked for anew, in the next one.
    fn session_is_gone(&mut self, why: &str) {
        self.waiting.extend(self.hand.session_is_gone(why));
    }

    fn refuse_waiting(&mut self, why: i32, text: &str) {
        for (_, (_, answer)) in std::mem::take(&mut self.waiting) {
            let _ = answer.send(Err(Error::Refused(Refusal::new(why, text.to_owned()))));
        }
    }

    fn lose_everything(&mut self, why: &str) {
        self.session_is_gone(why);
        for (_, (_, answer)) in std::mem::take(&mut self.waiting) {
            let error = Error::NoNode { address: self.address.to_string(), why: why.to_owned() };
            let _ = answer.send(Err(error));
        }
    }
}

/// A new line, and the node's first words.
pub(crate) async fn dial(
    address: &Address,
    process: &v1::Process,
    ticket: Option<Ticket>,
) -> Result<(Line, v1::Welcome), Error> {
    let no_node = |why: String| Error::NoNode { address: address.to_string(), why };
    let hello = v1::Hello {
        process: Some(process.clone()),
        session_id: ticket.map(|ticket| ticket.session),
        secret: ticket.map_or_else(Vec::new, |ticket| ticket.secret.to_be_bytes().to_vec()),
    };
    let attempt = async {
        let mut api = address.connect(CONNECT).await?;
        let (say, said) = mpsc::channel(UNREAD);
        let first = v1::ClientMessage { message: Some(Say::Hello(hello)) };
        say.send(first).await.map_err(|_| no_node("the line is cut".into()))?;
        let answer = api.gates.session(ReceiverStream::new(said)).await;
        let mut hear = answer.map_err(|status| api.said_no(&status))?.into_inner();
        let told = hear.message().await.map_err(|status| api.said_no(&status))?;
        match told.and_then(|told| told.message) {
            Some(Told::Welcome(welcome)) => Ok((Line { say, hear }, welcome)),
            Some(Told::Closed(v1::Closed { code: why, message: text })) => {
                Err(Error::Refused(Refusal::new(why, text)))
            }
            Some(_) | None => Err(no_node("it did not answer with a welcome".into())),
        }
    };
    match tokio::time::timeout(CONNECT, attempt).await {
        Ok(done) => done,
        Err(_) => Err(no_node(format!("no answer within {CONNECT:?}"))),
    }
}

fn ticket_of(welcome: &v1::Welcome) -> Result<Ticket, Error> {
    let secret = welcome.secret.as_slice().try_into().map(u128::from_be_bytes);
    let secret = secret.map_err(|_| {
        Error::Refused(Refusal {
            code: v1::ErrorCode::Unspecified,
            message: "the node's welcome has no secret".into(),
        })
    })?;
    Ok(Ticket { session: welcome.session_id, secret })
}

fn counts_until(sent: LeaseInstant, valid_for_ns: Option<u64>) -> LeaseInstant {
    valid_for_ns.map_or(LeaseInstant::FOR_EVER, |span| sent + Duration::from_nanos(span))
}

fn ask_for(number: u64, wish: &Wish) -> Say {
    let Wish { gate, permits, k, no_wait, process, margin: _ } = wish.clone();
    Say::Acquire(v1::Acquire {
        request_id: number,
        gate,
        weight: permits,
        k,
        no_wait,
        process,
        ..v1::Acquire::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ticket is the same after it was written down; anything else is none.
    #[test]
    fn tickets_can_be_written_down() {
        let ticket = Ticket { session: 7, secret: u128::MAX - 3 };
        assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), Some(ticket));
        assert_eq!((Ticket::from_bytes(&[]), Ticket::from_bytes(&[0; 25])), (None, None));
        assert_eq!(format!("{ticket:?}"), "Ticket { session: 7, secret: *** }");
    }
}
