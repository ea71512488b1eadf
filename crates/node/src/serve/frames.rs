//! Sessions in frames (`kgate_api::frames`) on a Unix socket, for clients that start for one
//! command: no HTTP.
//!
//! The kernel names the user, so nothing is sent that identifies a client; one that has a token uses
//! gRPC. Rights, quotas and sessions are those of gRPC. Like the head of an HTTP request, preface
//! and first message must arrive in a given time, and later the rest of each frame.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use kgate_api::frames::{Decoder, FrameError, encode};
use kgate_api::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::StreamExt;

use super::CoreHandle;
use super::access::Reason;
use super::authorisation::Identity;
use super::error::ApiError;
use super::session::{Replies, SessionStream};
use crate::holder_tree::Peer;
use crate::shell::{End, ended};

/// Replies that are ready are written together, up to about this size.
const WRITE_MAX: usize = 64 << 10;

/// Why a connection ends.
enum Ended {
    /// The client has closed it, or the stream is over.
    Closed,
    Refused(ApiError),
}

/// Serves one connection to its end. A client that does not complete a frame, or does not read what
/// it is sent, within `max_stall` is left.
pub(super) async fn serve(
    stream: UnixStream,
    core: &CoreHandle,
    who: &Identity,
    peer: Option<Peer>,
    max_stall: Duration,
    end: &mut watch::Receiver<End>,
) {
    let (reader, writer) = stream.into_split();
    let mut writer = Writer { stream: writer, max_stall };
    let mut reader = Reader::new(reader, core.clone(), max_stall);
    let opened = async {
        let first = tokio::select! {
            first = reader.first() => first?,
            _ = ended(end) => return Err(Ended::Closed),
        };
        // As one request of HTTP.
        core.access.admit_request(who).map_err(Ended::Refused)?;
        let (session, replies) =
            SessionStream::open(core, who, peer).await.map_err(Ended::Refused)?;
        Ok((first, session, replies))
    };
    let (first, session, replies) = match opened.await {
        Ok(opened) => opened,
        Err(Ended::Closed) => return,
        Err(Ended::Refused(refusal)) => return writer.refuse(refusal).await,
    };
    let mut writing = pin!(writer.write(replies));
    let ended = tokio::select! {
        ended = read(&mut reader, &session, first) => Some(ended),
        () = &mut writing => None,
    };
    if let Some(Ended::Refused(refusal)) = &ended {
        session.refuse(refusal.clone()).await;
    }
    session.close().await;
    if ended.is_some() {
        // What the core has said before is still delivered.
        writing.await;
    }
}

/// Passes the messages of a client to its session.
async fn read(reader: &mut Reader, session: &SessionStream, first: v1::ClientMessage) -> Ended {
    let mut message = first;
    while session.receive(message).await {
        message = match reader.next().await {
            Ok(message) => message,
            Err(ended) => return ended,
        };
    }
    Ended::Closed
}

/// The sending side of a connection.
struct Writer {
    stream: OwnedWriteHalf,
    max_stall: Duration,
}

impl Writer {
    /// Sends the replies until there are no more, or the client does not take them.
    async fn write(&mut self, mut replies: Replies) {
        let mut bytes = BytesMut::new();
        while let Some(reply) = replies.next().await {
            encode(&reply, &mut bytes);
            while bytes.len() < WRITE_MAX
                && let Some(reply) = replies.try_next()
            {
                encode(&reply, &mut bytes);
            }
            if !self.flush(&mut bytes).await {
                return;
            }
        }
    }

    /// Refuses a client that has no session.
    async fn refuse(&mut self, ApiError { code, message }: ApiError) {
        let closed = v1::Closed { code: code.into(), message };
        let message = Some(v1::server_message::Message::Closed(closed));
        let mut bytes = BytesMut::new();
        encode(&v1::ServerMessage { message }, &mut bytes);
        self.flush(&mut bytes).await;
    }

    /// False if the client has gone or does not read.
    async fn flush(&mut self, bytes: &mut BytesMut) -> bool {
        let written = timeout(self.max_stall, self.stream.write_all_buf(bytes)).await;
        matches!(written, Ok(Ok(())))
    }
}

/// The receiving side of a connection.
struct Reader {
    stream: OwnedReadHalf,
    decoder: Decoder,
    core: CoreHandle,
    max_stall: Duration,
    /// When the frame that has begun must have arrived.
    due: Option<Instant>,
}

impl Reader {
    fn new(stream: OwnedReadHalf, core: CoreHandle, max_stall: Duration) -> Self {
        let decoder = Decoder::new(core.access.message_bytes());
        Self { stream, decoder, core, max_stall, due: None }
    }

    /// Preface and first message.
    async fn first(&mut self) -> Result<v1::ClientMessage, Ended> {
        self.due = Some(Instant::now() + self.max_stall);
        while !self.decoder.preface().map_err(|error| self.malformed(&error))? {
            self.fill().await?;
        }
        self.message().await
    }

    async fn next(&mut self) -> Result<v1::ClientMessage, Ended> {
        self.due = None;
        self.message().await
    }

    async fn message(&mut self) -> Result<v1::ClientMessage, Ended> {
        loop {
            if let Some(message) = self.decoder.next().map_err(|error| self.malformed(&error))? {
                return Ok(message);
            }
            if self.decoder.is_pending() {
                self.due.get_or_insert_with(|| Instant::now() + self.max_stall);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), Ended> {
        let reading = self.stream.read_buf(self.decoder.room());
        let read = match self.due {
            None => reading.await,
            Some(due) => match timeout_at(due, reading).await {
                Ok(read) => read,
                Err(_) => {
                    let text = format!("timed out: no complete frame within {:?}", self.max_stall);
                    let refusal = self.core.access.refuse(Reason::Handshake, text);
                    return Err(Ended::Refused(refusal));
                }
            },
        };
        match read {
            Ok(0) | Err(_) => Err(Ended::Closed),
            Ok(_) => Ok(()),
        }
    }

    fn malformed(&self, error: &FrameError) -> Ended {
        let access = &self.core.access;
        Ended::Refused(match error {
            FrameError::TooLong { .. } => access.too_long(),
            FrameError::NotFrames | FrameError::Version(_) | FrameError::Malformed(_) => {
                access.refuse(Reason::Malformed, error.to_string())
            }
        })
    }
}
