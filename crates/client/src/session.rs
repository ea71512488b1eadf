//! The session: one task that talks to the node for all permits of a client.
//!
//! It says `Renew` every half a second and counts from when it said so (rule S1 of the leases). When the connection is cut it dials again and goes on with its
//! session; whoever waited is asked for anew, which the node has forgotten, and permits are kept. When its time passes before the node is heard again,
//! all permits are lost, whatever the node may think.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::ask::Ask as Say;
use kgate_api::v1::tell::Tell as Told;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::permit::Granted;
use crate::{Address, Error, LeaseInstant, Refusal};

/// How often the node is told that this client lives.
const RENEW: Duration = Duration::from_millis(500);
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
}

type Answer = oneshot::Sender<Result<Granted, Error>>;

/// What is asked of the task.
#[derive(Debug)]
pub(crate) enum Command {
    Acquire(u64, Wish, Answer),
    Withdraw(u64),
    Release(u64, Option<oneshot::Sender<()>>),
    Bind(u64),
    Bye,
}

/// A session's name and secret: who has them can go on with it, or end it. So a log does not show the secret.
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
    pub(crate) node: u32,
}

/// A stream to the node and back.
struct Line {
    say: mpsc::Sender<v1::Ask>,
    hear: Streaming<v1::Tell>,
}

/// A permit in hand, as the task knows it.
struct Held {
    lost: watch::Sender<Option<String>>,
    /// Bound to a lock of its holder's: it counts whatever becomes of the node.
    bound: bool,
}

/// The session of a client.
pub(crate) struct Session {
    address: Address,
    process: v1::Process,
    commands: mpsc::UnboundedReceiver<Command>,
    line: Line,
    ticket: watch::Sender<Ticket>,
    until: watch::Sender<LeaseInstant>,
    /// When each `Renew` that is not answered was sent.
    renewals: BTreeMap<u64, LeaseInstant>,
    sequence: u64,
    waiting: BTreeMap<u64, (Wish, Answer)>,
    held: BTreeMap<u64, Held>,
    /// Those that are bound to a lock, and of which the node that is there now knows nothing.
    orphans: BTreeMap<u64, Held>,
    releasing: BTreeMap<u64, Vec<oneshot::Sender<()>>>,
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
        let session = Self {
            address,
            process,
            commands,
            line,
            ticket,
            until,
            renewals: BTreeMap::new(),
            sequence: 0,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            orphans: BTreeMap::new(),
            releasing: BTreeMap::new(),
            ending: false,
        };
        let opened = Opened { until: until_seen, ticket: ticket_seen, node: welcome.node };
        Ok((session, opened))
    }

    /// Runs until the client is gone and everything was given back.
    pub(crate) async fn run(mut self) {
        loop {
            let cut = self.talk().await;
            if self.ending && self.held.is_empty() {
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
        let mut renew = tokio::time::interval(RENEW);
        renew.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                told = self.line.hear.message() => match told {
                    Ok(Some(v1::Tell { tell: Some(told) })) => {
                        if let Some(why) = self.on_told(told).await {
                            return why;
                        }
                    }
                    Ok(Some(v1::Tell { tell: None })) => {}
                    Ok(None) => return "the node has closed the stream".into(),
                    Err(status) => return status.message().to_owned(),
                },
                command = self.commands.recv(), if !self.ending => match command {
                    Some(command) => self.on_command(command).await,
                    None => self.end().await,
                },
                _ = renew.tick() => self.renew().await,
            }
            if self.is_late() {
                return "the node was silent for too long".into();
            }
        }
    }

    fn is_late(&self) -> bool {
        *self.until.borrow() <= LeaseInstant::now()
    }

    async fn say(&self, say: Say) {
        // A line that is cut is noticed by whoever listens to it.
        let _ = self.line.say.send(v1::Ask { ask: Some(say) }).await;
    }

    async fn renew(&mut self) {
        self.sequence += 1;
        self.renewals.insert(self.sequence, LeaseInstant::now());
        self.say(Say::Renew(v1::Renew { sequence: self.sequence })).await;
    }

    async fn end(&mut self) {
        self.ending = true;
        self.say(Say::Bye(v1::Bye {})).await;
    }

    async fn on_command(&mut self, command: Command) {
        match command {
            Command::Acquire(number, wish, answer) => {
                self.say(ask_for(number, &wish)).await;
                self.waiting.insert(number, (wish, answer));
            }
            Command::Withdraw(number) => {
                if self.waiting.remove(&number).is_some() {
                    self.say(Say::Withdraw(v1::Withdraw { number })).await;
                }
                self.release(number, None).await;
            }
            Command::Release(number, done) => self.release(number, done).await,
            Command::Bind(number) => {
                if let Some(held) = self.held.get_mut(&number) {
                    held.bound = true;
                }
            }
            Command::Bye => self.end().await,
        }
    }

    async fn release(&mut self, number: u64, done: Option<oneshot::Sender<()>>) {
        if self.orphans.remove(&number).is_some() {
            // The node that is there now finds out by the lock.
            done.into_iter().for_each(tell_done);
        } else if self.held.remove(&number).is_some() {
            self.releasing.entry(number).or_default().extend(done);
            self.say(Say::Release(v1::Release { number })).await;
        }
    }

    /// What the node says. A reason, if it ends the stream.
    async fn on_told(&mut self, told: Told) -> Option<String> {
        match told {
            Told::Welcome(_) | Told::Withdrawn(_) => {}
            Told::Granted(granted) => self.on_granted(granted).await,
            Told::Refused(v1::Refused { number, why, text }) => {
                if let Some((_, answer)) = self.waiting.remove(&number) {
                    let _ = answer.send(Err(Error::Refused(Refusal::new(why, text))));
                }
            }
            Told::Lost(v1::Lost { number, text }) => {
                if let Some(held) = self.held.remove(&number) {
                    held.lost.send_replace(Some(text));
                }
            }
            Told::Released(v1::Released { number }) => {
                let waiting = self.releasing.remove(&number).unwrap_or_default();
                waiting.into_iter().for_each(tell_done);
            }
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
            Told::Closed(v1::Closed { why, text }) => {
                match v1::Why::try_from(why) {
                    Ok(v1::Why::NoSession) if self.ending => self.held.clear(),
                    Ok(v1::Why::NoSession | v1::Why::NoNode) => self.lose_held(&text),
                    // The same words once more would be refused once more.
                    Ok(v1::Why::BadRequest) => self.refuse_waiting(why, &text),
                    Ok(_) | Err(_) => {}
                }
                return Some(text);
            }
        }
        None
    }

    async fn on_granted(&mut self, granted: v1::Granted) {
        let v1::Granted { number, slots, fence, k } = granted;
        let (lost, seen) = watch::channel(None);
        self.held.insert(number, Held { lost, bound: false });
        let fence = fence.and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
        let granted = Granted { number, slots, fence, k, lost: seen };
        let answer = self.waiting.remove(&number).map(|(_, answer)| answer);
        let taken = answer.is_some_and(|answer| answer.send(Ok(granted)).is_ok());
        if !taken {
            // Nobody waits for it any more.
            self.release(number, None).await;
        }
    }

    /// The line is cut: makes a new one in time, or says why not.
    async fn dial_again(&mut self, cut: String) -> Result<(), String> {
        let mut pauses = AGAIN.into_iter();
        let mut last = cut;
        loop {
            if self.is_late() {
                self.lose_held(&last);
            }
            // Nobody is left who could want something.
            if self.held.is_empty() && (self.ending || self.commands.is_closed()) {
                return Err(last);
            }
            while let Ok(command) = self.commands.try_recv() {
                self.on_command(command).await;
            }
            let until = *self.until.borrow();
            let ticket = *self.ticket.borrow();
            let resume = (!self.held.is_empty()).then_some(ticket);
            let sent = LeaseInstant::now();
            match dial(&self.address, &self.process, resume).await {
                Ok((line, welcome)) => {
                    self.line = line;
                    self.renewals.clear();
                    self.ticket.send_replace(ticket_of(&welcome).map_err(|error| error.to_string())?);
                    self.until.send_replace(counts_until(sent, welcome.valid_for_ns).max(until));
                    self.ask_anew(&welcome).await;
                    return Ok(());
                }
                Err(Error::Refused(Refusal { why: v1::Why::NoSession, text })) => self.lose_held(&text),
                Err(
                    error @ (Error::NoNode { .. }
                    | Error::TimedOut(_)
                    | Error::Refused(_)
                    | Error::Credentials(_)
                    | Error::Address(_)),
                ) => {
                    last = error.to_string();
                    if self.held.is_empty() && self.orphans.is_empty() && pauses.len() == 0 {
                        return Err(last);
                    }
                    let pause = pauses.next().unwrap_or(AGAIN[AGAIN.len() - 1]);
                    let left = until.after(LeaseInstant::now());
                    tokio::time::sleep(pause.min(left.max(Duration::from_millis(1)))).await;
                }
            }
        }
    }

    /// On a new line: whoever waits is asked for once more; what the node does not know to be held is lost; what was given back meanwhile is told again.
    async fn ask_anew(&mut self, welcome: &v1::Welcome) {
        let unknown: Vec<u64> =
            self.held.keys().filter(|number| !welcome.holds.contains(number)).copied().collect();
        for number in unknown {
            match self.held.remove(&number) {
                Some(held) if held.bound => drop(self.orphans.insert(number, held)),
                Some(held) => drop(held.lost.send_replace(Some("its node does not know it any more".into()))),
                None => {}
            }
        }
        let wishes: Vec<Say> =
            self.waiting.iter().map(|(number, (wish, _))| ask_for(*number, wish)).collect();
        let releases: Vec<u64> =
            welcome.holds.iter().filter(|number| !self.held.contains_key(number)).copied().collect();
        for number in releases {
            self.say(Say::Release(v1::Release { number })).await;
        }
        for (_, waiting) in std::mem::take(&mut self.releasing) {
            waiting.into_iter().for_each(tell_done);
        }
        for wish in wishes {
            self.say(wish).await;
        }
        if self.ending {
            self.end().await;
        }
    }

    fn lose_held(&mut self, why: &str) {
        for (number, held) in std::mem::take(&mut self.held) {
            if held.bound {
                self.orphans.insert(number, held);
            } else {
                held.lost.send_replace(Some(why.to_owned()));
            }
        }
    }

    fn refuse_waiting(&mut self, why: i32, text: &str) {
        for (_, (_, answer)) in std::mem::take(&mut self.waiting) {
            let _ = answer.send(Err(Error::Refused(Refusal::new(why, text.to_owned()))));
        }
    }

    fn lose_everything(&mut self, why: &str) {
        self.lose_held(why);
        for (_, (_, answer)) in std::mem::take(&mut self.waiting) {
            let error = Error::NoNode { address: self.address.to_string(), why: why.to_owned() };
            let _ = answer.send(Err(error));
        }
    }
}

/// A new line, and the node's first words.
async fn dial(
    address: &Address,
    process: &v1::Process,
    ticket: Option<Ticket>,
) -> Result<(Line, v1::Welcome), Error> {
    let no_node = |why: String| Error::NoNode { address: address.to_string(), why };
    let hello = v1::Hello {
        process: Some(process.clone()),
        session: ticket.map(|ticket| ticket.session),
        secret: ticket.map_or_else(Vec::new, |ticket| ticket.secret.to_be_bytes().to_vec()),
    };
    let attempt = async {
        let mut api = address.connect(CONNECT).await?;
        let (say, said) = mpsc::channel(UNREAD);
        let first = v1::Ask { ask: Some(Say::Hello(hello)) };
        say.send(first).await.map_err(|_| no_node("the line is cut".into()))?;
        let answer = api.gates.session(ReceiverStream::new(said)).await;
        let mut hear = answer.map_err(|status| api.said_no(&status))?.into_inner();
        let told = hear.message().await.map_err(|status| api.said_no(&status))?;
        match told.and_then(|told| told.tell) {
            Some(Told::Welcome(welcome)) => Ok((Line { say, hear }, welcome)),
            Some(Told::Closed(v1::Closed { why, text })) => Err(Error::Refused(Refusal::new(why, text))),
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
        Error::Refused(Refusal { why: v1::Why::Unknown, text: "the node's welcome has no secret".into() })
    })?;
    Ok(Ticket { session: welcome.session, secret })
}

fn counts_until(sent: LeaseInstant, valid_for_ns: Option<u64>) -> LeaseInstant {
    valid_for_ns.map_or(LeaseInstant::FOR_EVER, |span| sent + Duration::from_nanos(span))
}

/// Whoever waited for that may have gone.
fn tell_done(done: oneshot::Sender<()>) {
    let _ = done.send(());
}

fn ask_for(number: u64, wish: &Wish) -> Say {
    let Wish { gate, permits, k, no_wait, process } = wish.clone();
    Say::Acquire(v1::Acquire { number, gate, permits, k, no_wait, process })
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
