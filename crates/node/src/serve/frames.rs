//! Sessions in frames (`kgate_api::frames`) on a Unix socket, for clients that start for one
//! command: no HTTP.
//!
//! The kernel names the user, so nothing is sent that identifies a client; one that has a token
//! uses gRPC. Rights, quotas and sessions are those of gRPC. Like the head of an HTTP request,
//! preface and first message must arrive in a given time, and later the rest of each frame.

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
use super::limits::{Counted, Kind};
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
    let mut reader = Reader::new(reader, core.clone(), who.clone(), max_stall);
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

/// Tells a client why it is not served.
pub(super) async fn refuse(stream: UnixStream, refusal: ApiError, max_stall: Duration) {
    let (_reader, stream) = stream.into_split();
    Writer { stream, max_stall }.refuse(refusal).await;
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
    /// The count of that frame.
    counted: Option<Counted>,
    who: Identity,
}

impl Reader {
    fn new(stream: OwnedReadHalf, core: CoreHandle, who: Identity, max_stall: Duration) -> Self {
        let decoder = Decoder::new(core.access.message_bytes());
        Self { stream, decoder, core, max_stall, due: None, counted: None, who }
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
                self.counted = None;
                return Ok(message);
            }
            if self.decoder.is_pending() {
                self.due.get_or_insert_with(|| Instant::now() + self.max_stall);
                if self.counted.is_none() {
                    let counted = self.core.access.reserve(&self.who, Kind::Unfinished);
                    self.counted = Some(counted.map_err(Ended::Refused)?);
                }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kgate_api::frames::PREFACE;
    use kgate_api::v1::ErrorCode;
    use kgate_api::v1::client_message::Message as Sent;
    use kgate_api::v1::server_message::Message as Received;
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;

    use super::super::AccessControl;
    use super::super::authorisation::LocalUser;
    use super::*;
    use crate::config::Config;
    use crate::core::{ClientMessage, ServerMessage};
    use crate::shell::Command;

    const STALL: Duration = Duration::from_millis(50);
    const DEADLINE: Duration = Duration::from_secs(20);

    /// A connection that is served, and the commands that reach the core.
    fn served() -> (UnixStream, mpsc::Receiver<Command>, JoinHandle<()>) {
        let access = AccessControl::new(&Config::alone("unix:x")).unwrap();
        let (commands, received) = mpsc::channel(16);
        let (changes, ending) = (watch::channel(0).1, watch::channel(End::NotYet));
        let core = CoreHandle::new(commands, changes, 0, 1, Arc::new(access), None);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let who = Identity::User(LocalUser { user: 0, group: 0 });
        let task = tokio::spawn(async move {
            let (_running, mut end) = ending;
            serve(theirs, &core, &who, None, STALL, &mut end).await;
        });
        (ours, received, task)
    }

    fn frame(message: Sent) -> BytesMut {
        let mut bytes = BytesMut::new();
        encode(&v1::ClientMessage { message: Some(message) }, &mut bytes);
        bytes
    }

    fn begin() -> Vec<u8> {
        [&PREFACE[..], &frame(Sent::Hello(v1::Hello::default().into()))].concat()
    }

    /// The code of the refusal with which a connection ends.
    async fn refusal(stream: &mut UnixStream) -> ErrorCode {
        let mut decoder = Decoder::new(1 << 20);
        // What the node has not read resets the connection after its last message.
        let read =
            async { while stream.read_buf(decoder.room()).await.is_ok_and(|count| count > 0) {} };
        timeout(DEADLINE, read).await.expect("the connection ends");
        let reply: v1::ServerMessage = decoder.next().unwrap().expect("a reply");
        let Some(Received::Closed(closed)) = reply.message else { panic!("{reply:?}") };
        closed.code()
    }

    async fn next(received: &mut mpsc::Receiver<Command>) -> Command {
        timeout(DEADLINE, received.recv()).await.expect("a command").expect("the core is there")
    }

    /// A client that does not complete its first message in time is refused, however far it has
    /// come, and has no session.
    #[tokio::test]
    async fn silence_at_the_beginning() {
        for length in 0..begin().len() {
            let (mut stream, mut received, task) = served();
            stream.write_all(&begin()[..length]).await.unwrap();
            assert_eq!(refusal(&mut stream).await, ErrorCode::LimitExceeded, "{length} bytes");
            task.await.unwrap();
            assert!(received.recv().await.is_none(), "{length} bytes");
        }
    }

    /// Between two frames a client may be silent; in the middle of one it may not, even if a byte
    /// comes now and then.
    #[tokio::test]
    async fn silence_within_a_frame() {
        let (mut stream, mut received, task) = served();
        stream.write_all(&begin()).await.unwrap();
        let Command::Open(client, replies) = next(&mut received).await else { panic!("open") };
        assert!(matches!(next(&mut received).await, Command::Client(..)), "Hello");
        tokio::time::sleep(STALL * 3).await;
        let renew = frame(Sent::Renew(v1::Renew { sequence: 7 }));
        stream.write_all(&renew).await.unwrap();
        let renewed = next(&mut received).await;
        let Command::Client(_, ClientMessage::Renew { sequence: 7 }) = renewed else {
            panic!("{renewed:?}")
        };
        let gate = "g".repeat(1000);
        let acquire = frame(Sent::Acquire(v1::Acquire { gate, ..v1::Acquire::default() }.into()));
        let dribble = async {
            for byte in &acquire {
                stream.write_all(&[*byte]).await.unwrap();
                tokio::time::sleep(STALL / 2).await;
            }
        };
        let gone = tokio::select! {
            () = dribble => panic!("each byte gives it more time"),
            gone = next(&mut received) => gone,
        };
        assert!(matches!(gone, Command::Gone(id) if id == client), "{gone:?}");
        drop(replies);
        assert_eq!(refusal(&mut stream).await, ErrorCode::LimitExceeded);
        task.await.unwrap();
    }

    /// A client that does not read is left: neither the core nor the connection waits for it.
    #[tokio::test]
    async fn a_client_that_does_not_read() {
        let (mut stream, mut received, task) = served();
        stream.write_all(&begin()).await.unwrap();
        let Command::Open(_, replies) = next(&mut received).await else { panic!("open") };
        let message = "x".repeat(1000);
        let lost = |number| ServerMessage::Lost { number, message: message.clone() };
        // As the core does: a full queue ends the stream.
        while replies.try_send(lost(1)).is_ok() {
            tokio::task::yield_now().await;
        }
        drop(replies);
        drop(received);
        timeout(DEADLINE, task).await.expect("the connection ends").unwrap();
    }
}
