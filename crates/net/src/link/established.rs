//! A connection that carries messages: one future reads, one writes, one watches for silence. The
//! first one to end ends the connection.
//!
//! They are futures of one task, not tasks, so a message crosses no queue but the owner's. A
//! message counts as received in the same instant in which it enters that queue, after room was
//! reserved. A connection may therefore be dropped at any point at which its futures wait, and no
//! message is lost or delivered twice.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::handshake::{Established, Incoming};
use super::{Peer, Refusal, Stopped, stopped};
use crate::links::{LinkEvent, LinkLimits};
use crate::tls::Socket;
use crate::wire::{Decoder, Frame, RefuseCode};

/// Maximum number of bytes of one write.
const WRITE_MAX: usize = 64 * 1024;

/// Why a connection has ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The connection was closed, broke, or was silent for too long.
    Lost,
    /// The peer has connected again.
    Replaced(Incoming),
    /// The channel has failed.
    ChannelFailed,
    /// The peer sent no valid frame, or refused to go on.
    Refused(Refusal),
    /// The owner has stopped the links.
    Stopped,
}

pub(super) async fn carry(
    connection: Established,
    peer: &Peer,
    limits: &LinkLimits,
    events: &mpsc::Sender<LinkEvent>,
    stop: watch::Receiver<bool>,
) -> ConnectionEnd {
    let (reader, writer) = tokio::io::split(connection.socket);
    let activity = Activity::default();
    tokio::select! {
        end = read(reader, connection.decoder, peer, limits, events, &activity) => end,
        end = write(writer, peer, limits, stop) => end,
        end = watch_silence(&activity, limits) => end,
    }
}

/// Whether the peer has sent anything since the last check.
#[derive(Default)]
struct Activity {
    received: AtomicBool,
    /// The reader waits for room in the owner's queue, so silence proves nothing.
    is_blocked: AtomicBool,
}

async fn read(
    mut reader: ReadHalf<Box<dyn Socket>>,
    mut decoder: Decoder,
    peer: &Peer,
    limits: &LinkLimits,
    events: &mpsc::Sender<LinkEvent>,
    activity: &Activity,
) -> ConnectionEnd {
    loop {
        loop {
            match decoder.next() {
                Ok(Some(frame)) => {
                    if let Err(end) = take(frame, peer, limits, events, activity).await {
                        return end;
                    }
                }
                Ok(None) => break,
                Err(error) => return closed(peer, &format!("it sent {error}")),
            }
        }
        match read_some(&mut reader, &mut decoder).await {
            Some(_) => activity.received.store(true, Ordering::Relaxed),
            None => return ConnectionEnd::Lost,
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
    activity: &Activity,
) -> Result<(), ConnectionEnd> {
    let failed = |error| {
        peer.fail(error);
        ConnectionEnd::ChannelFailed
    };
    match frame {
        Frame::Data { number, ack, bytes } => {
            let room = room(events, activity).await.map_err(|Stopped| ConnectionEnd::Stopped)?;
            let (is_new, unacknowledged) = {
                let mut state = peer.state();
                let is_new = state.buffer.arrived(number, ack);
                (is_new, state.buffer.unacknowledged())
            };
            if is_new.map_err(failed)? {
                room.send(LinkEvent::Message { from: peer.id, bytes });
            }
            // The first one starts the writer's timer; a full batch does not wait for it.
            if unacknowledged == 1 || unacknowledged >= limits.ack_frames {
                peer.work.notify_one();
            }
            Ok(())
        }
        Frame::Ack(ack) => peer.acknowledged(ack).map_err(failed),
        Frame::Refuse { code, message } => {
            let message = format!("{} refuses: {message}", peer.id);
            Err(ConnectionEnd::Refused(Refusal::by_peer(code, message)))
        }
        Frame::Hello(_) => Err(closed(peer, "it sent its handshake again")),
    }
}

fn closed(peer: &Peer, reason: &str) -> ConnectionEnd {
    let message = format!("the link to {} was closed: {reason}", peer.id);
    ConnectionEnd::Refused(Refusal::local(RefuseCode::Protocol, message))
}

/// Reserves room in the owner's queue, and waits for it if necessary.
async fn room<'e>(
    events: &'e mpsc::Sender<LinkEvent>,
    activity: &Activity,
) -> Result<mpsc::Permit<'e, LinkEvent>, Stopped> {
    if let Ok(room) = events.try_reserve() {
        return Ok(room);
    }
    activity.is_blocked.store(true, Ordering::Relaxed);
    let room = events.reserve().await;
    activity.is_blocked.store(false, Ordering::Relaxed);
    activity.received.store(true, Ordering::Relaxed);
    room.map_err(|_| Stopped)
}

async fn write(
    mut writer: WriteHalf<Box<dyn Socket>>,
    peer: &Peer,
    limits: &LinkLimits,
    mut stop: watch::Receiver<bool>,
) -> ConnectionEnd {
    let mut out = Vec::new();
    // The first acknowledgement is the last step of the handshake.
    let mut ack_is_due = true;
    let mut timer = AckTimer::new(limits);
    let alarm = sleep_until(timer.fires_at());
    tokio::pin!(alarm);
    loop {
        out.clear();
        let unacknowledged = peer.write(WRITE_MAX, ack_is_due, limits.ack_frames, &mut out);
        if !out.is_empty() {
            ack_is_due = false;
            timer.reset();
            if write_all(&mut writer, &out).await.is_err() {
                return ConnectionEnd::Lost;
            }
            continue;
        }
        timer.set_unacknowledged(unacknowledged > 0);
        if timer.fires_at() < alarm.deadline() {
            alarm.as_mut().reset(timer.fires_at());
        }
        tokio::select! {
            biased;
            () = peer.work.notified() => {}
            () = alarm.as_mut() => {
                ack_is_due = timer.is_due();
                let keep_alive = Instant::now() + limits.keep_alive;
                alarm.as_mut().reset(if ack_is_due { keep_alive } else { timer.fires_at() });
            }
            () = stopped(&mut stop) => {
                let _ = writer.shutdown().await;
                return ConnectionEnd::Stopped;
            }
        }
    }
}

async fn write_all(writer: &mut (impl AsyncWrite + Unpin), out: &[u8]) -> io::Result<()> {
    writer.write_all(out).await?;
    writer.flush().await
}

/// When an acknowledgement must be sent without a message. The timer fires early rather than being
/// set again with every message.
struct AckTimer<'l> {
    limits: &'l LinkLimits,
    last_write: Instant,
    unacknowledged_since: Option<Instant>,
}

impl<'l> AckTimer<'l> {
    fn new(limits: &'l LinkLimits) -> Self {
        Self { limits, last_write: Instant::now(), unacknowledged_since: None }
    }

    fn reset(&mut self) {
        (self.last_write, self.unacknowledged_since) = (Instant::now(), None);
    }

    fn set_unacknowledged(&mut self, is_any: bool) {
        let since = self.unacknowledged_since.or_else(|| Some(Instant::now()));
        self.unacknowledged_since = since.filter(|_| is_any);
    }

    fn fires_at(&self) -> Instant {
        let alive = self.last_write + self.limits.keep_alive;
        self.unacknowledged_since.map_or(alive, |since| alive.min(since + self.limits.ack_delay))
    }

    fn is_due(&self) -> bool {
        self.fires_at() <= Instant::now()
    }
}

/// Ends when nothing has arrived for the time of silence, unless the owner's queue was full.
async fn watch_silence(activity: &Activity, limits: &LinkLimits) -> ConnectionEnd {
    loop {
        sleep(limits.silence).await;
        if !activity.received.swap(false, Ordering::Relaxed)
            && !activity.is_blocked.load(Ordering::Relaxed)
        {
            return ConnectionEnd::Lost;
        }
    }
}
