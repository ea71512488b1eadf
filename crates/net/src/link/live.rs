//! A connection that carries messages: one future reads, one writes, one listens for silence; the
//! first to end ends all.
//!
//! They are futures of one task, not tasks: a message crosses no queue but the owner's. A message
//! counts as received in the same instant in which it is put into that queue, after room for it was
//! found; so a connection may be dropped at any point at which its futures wait, and nothing is
//! lost or told twice.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::greet::{Call, Met};
use super::{Over, Peer, stopped};
use crate::links::{LinkEvent, LinkLimits};
use crate::tls::Socket;
use crate::wire::{Decoder, Frame};

/// So much is written at once, if so much is there.
const WRITE_AT_ONCE: usize = 64 * 1024;

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum End {
    /// Closed, cut, or silent for too long.
    Lost,
    /// The peer has called again.
    Replaced(Call),
    /// The channel is broken.
    Broken,
    /// What came was no frame, or the peer does not want to go on.
    Refused(String),
    /// The owner wants no more.
    Stopped,
}

pub(super) async fn carry(
    met: Met,
    peer: &Peer,
    limits: &LinkLimits,
    events: &mpsc::Sender<LinkEvent>,
    stop: watch::Receiver<bool>,
) -> End {
    let (reader, writer) = tokio::io::split(met.socket);
    let ear = Ear::default();
    tokio::select! {
        end = read(reader, met.decoder, peer, limits, events, &ear) => end,
        end = write(writer, peer, limits, stop) => end,
        end = listen(&ear, limits) => end,
    }
}

/// Whether anything came since somebody looked last.
#[derive(Default)]
struct Ear {
    heard: AtomicBool,
    /// The reader waits for the owner: then silence means nothing.
    waits: AtomicBool,
}

async fn read(
    mut reader: ReadHalf<Box<dyn Socket>>,
    mut decoder: Decoder,
    peer: &Peer,
    limits: &LinkLimits,
    events: &mpsc::Sender<LinkEvent>,
    ear: &Ear,
) -> End {
    loop {
        loop {
            match decoder.next() {
                Ok(Some(frame)) => {
                    if let Err(end) = take(frame, peer, limits, events, ear).await {
                        return end;
                    }
                }
                Ok(None) => break,
                Err(junk) => {
                    return End::Refused(format!(
                        "the link to {} was closed: it sent {junk}",
                        peer.id
                    ));
                }
            }
        }
        match read_some(&mut reader, &mut decoder).await {
            Some(_) => ear.heard.store(true, Ordering::Relaxed),
            None => return End::Lost,
        }
    }
}

async fn read_some(reader: &mut (impl AsyncRead + Unpin), decoder: &mut Decoder) -> Option<usize> {
    reader.read_buf(decoder.room()).await.ok().filter(|count| *count > 0)
}

async fn take(
    frame: Frame,
    peer: &Peer,
    limits: &LinkLimits,
    events: &mpsc::Sender<LinkEvent>,
    ear: &Ear,
) -> Result<(), End> {
    let broken = |why| {
        peer.break_off(why);
        End::Broken
    };
    match frame {
        Frame::Data { number, ack, bytes } => {
            let room = room(events, ear).await.map_err(|Over| End::Stopped)?;
            let (fresh, owed) = {
                let mut state = peer.state();
                let fresh = state.carrier.arrived(number, ack);
                (fresh, state.carrier.owed())
            };
            if fresh.map_err(broken)? {
                room.send(LinkEvent::Frame { from: peer.id, bytes });
            }
            // The first starts the writer's clock, and the last does not wait for it.
            if owed == 1 || owed >= limits.ack_frames {
                peer.work.notify_one();
            }
            Ok(())
        }
        Frame::Ack(ack) => peer.acknowledged(ack).map_err(broken),
        Frame::Refuse(why) => Err(End::Refused(format!("{} refuses: {why}", peer.id))),
        Frame::Hello(_) => {
            Err(End::Refused(format!("the link to {} was closed: it greets again", peer.id)))
        }
    }
}

/// Room in the owner's queue, waited for if need be.
async fn room<'e>(
    events: &'e mpsc::Sender<LinkEvent>,
    ear: &Ear,
) -> Result<mpsc::Permit<'e, LinkEvent>, Over> {
    if let Ok(room) = events.try_reserve() {
        return Ok(room);
    }
    ear.waits.store(true, Ordering::Relaxed);
    let room = events.reserve().await;
    ear.waits.store(false, Ordering::Relaxed);
    ear.heard.store(true, Ordering::Relaxed);
    room.map_err(|_| Over)
}

async fn write(
    mut writer: WriteHalf<Box<dyn Socket>>,
    peer: &Peer,
    limits: &LinkLimits,
    mut stop: watch::Receiver<bool>,
) -> End {
    let mut out = Vec::new();
    // The first acknowledgement, alone, is the last step of the handshake.
    let mut due = true;
    let mut clock = Clock::new(limits);
    let alarm = sleep_until(clock.rings());
    tokio::pin!(alarm);
    loop {
        out.clear();
        let owed = peer.write(WRITE_AT_ONCE, due, limits.ack_frames, &mut out);
        if !out.is_empty() {
            due = false;
            clock.wrote();
            if written(&mut writer, &out).await.is_none() {
                return End::Lost;
            }
            continue;
        }
        clock.owes(owed > 0);
        if clock.rings() < alarm.deadline() {
            alarm.as_mut().reset(clock.rings());
        }
        tokio::select! {
            biased;
            () = peer.work.notified() => {}
            () = alarm.as_mut() => {
                due = clock.is_due();
                alarm.as_mut().reset(if due { Instant::now() + limits.keep_alive } else { clock.rings() });
            }
            () = stopped(&mut stop) => {
                let _ = writer.shutdown().await;
                return End::Stopped;
            }
        }
    }
}

async fn written(writer: &mut (impl AsyncWrite + Unpin), out: &[u8]) -> Option<()> {
    writer.write_all(out).await.ok()?;
    writer.flush().await.ok()
}

/// When an acknowledgement must go alone. It rings too early rather than being set anew with every
/// message.
struct Clock<'l> {
    limits: &'l LinkLimits,
    wrote: Instant,
    owes_since: Option<Instant>,
}

impl<'l> Clock<'l> {
    fn new(limits: &'l LinkLimits) -> Self {
        Self { limits, wrote: Instant::now(), owes_since: None }
    }

    fn wrote(&mut self) {
        (self.wrote, self.owes_since) = (Instant::now(), None);
    }

    fn owes(&mut self, owes: bool) {
        self.owes_since =
            if owes { self.owes_since.or_else(|| Some(Instant::now())) } else { None };
    }

    fn rings(&self) -> Instant {
        let alive = self.wrote + self.limits.keep_alive;
        self.owes_since.map_or(alive, |since| alive.min(since + self.limits.ack_delay))
    }

    fn is_due(&self) -> bool {
        self.rings() <= Instant::now()
    }
}

/// Ends when nothing has come for the time of silence, unless it was the owner who did not listen.
async fn listen(ear: &Ear, limits: &LinkLimits) -> End {
    loop {
        sleep(limits.silence).await;
        if !ear.heard.swap(false, Ordering::Relaxed) && !ear.waits.load(Ordering::Relaxed) {
            return End::Lost;
        }
    }
}
