//! Messages of gRPC of which only a part has arrived: each keeps up to `message_bytes` of memory
//! until the rest comes. So the rest must come in time, and each client may have only so many.
//!
//! The first message of a request must be complete within the timeout, and so must each later one,
//! counted from its first byte. Between two messages a session may be silent; any other request has
//! one message, and ends within the timeout.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::Status;

use super::access::{AccessControl, Reason};
use super::authorisation::Identity;
use super::limits::{Counted, Kind};

/// The flag and the length in front of each message.
const PREFIX: usize = 5;

/// Which part of a message has arrived.
#[derive(Debug, Default)]
struct Framing {
    prefix: [u8; PREFIX],
    /// The bytes of the prefix that have arrived.
    prefixed: usize,
    /// The bytes that the message lacks, once its prefix is complete.
    lacking: usize,
}

impl Framing {
    /// Whether a message has begun and is not complete.
    fn is_pending(&self) -> bool {
        self.prefixed > 0
    }

    fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.prefixed < PREFIX {
                let taken = bytes.len().min(PREFIX - self.prefixed);
                let (head, rest) = bytes.split_at(taken);
                self.prefix[self.prefixed..self.prefixed + taken].copy_from_slice(head);
                (self.prefixed, bytes) = (self.prefixed + taken, rest);
                let [_, length @ ..] = self.prefix;
                self.lacking = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            } else {
                let taken = bytes.len().min(self.lacking);
                (self.lacking, bytes) = (self.lacking - taken, &bytes[taken..]);
            }
            if self.prefixed == PREFIX && self.lacking == 0 {
                *self = Self::default();
            }
        }
    }
}

/// The body of a request, with its timeout and its count.
struct Bounded {
    inner: BodyDataStream,
    access: Arc<AccessControl>,
    who: Identity,
    /// Whether it may be silent between two messages.
    is_session: bool,
    framing: Framing,
    timeout: Duration,
    due: Option<Pin<Box<Sleep>>>,
    counted: Option<Counted>,
}

/// The body of a request of gRPC, bounded.
pub(super) fn bounded(
    body: Body,
    access: Arc<AccessControl>,
    who: Identity,
    is_session: bool,
    timeout: Duration,
) -> Body {
    Body::from_stream(Bounded {
        inner: body.into_data_stream(),
        access,
        who,
        is_session,
        framing: Framing::default(),
        timeout,
        due: Some(Box::pin(tokio::time::sleep(timeout))),
        counted: None,
    })
}

impl Bounded {
    fn on_bytes(&mut self, bytes: &[u8]) -> Result<(), Status> {
        self.framing.advance(bytes);
        if !self.framing.is_pending() {
            self.counted = None;
            if self.is_session {
                self.due = None;
            }
            return Ok(());
        }
        if self.counted.is_none() {
            self.counted = Some(self.access.reserve(&self.who, Kind::Unfinished)?);
        }
        let timeout = self.timeout;
        self.due.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        Ok(())
    }
}

impl Stream for Bounded {
    type Item = Result<Bytes, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        match Pin::new(&mut this.inner).poll_next(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                Poll::Ready(Some(this.on_bytes(&bytes).map(|()| bytes)))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::cancelled(error.to_string()))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let Some(due) = &mut this.due else { return Poll::Pending };
                std::task::ready!(due.as_mut().poll(context));
                this.due = None;
                let text = format!("timed out: no complete message within {:?}", this.timeout);
                let refusal = this.access.refuse(Reason::Handshake, text);
                Poll::Ready(Some(Err(refusal.into())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kgate_api::v1::ErrorCode;
    use tokio::sync::mpsc;
    use tokio_stream::StreamExt;
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;
    use crate::config::Config;
    use crate::serve::limits::Limits;

    const TIMEOUT: Duration = Duration::from_millis(50);

    type Sender = mpsc::Sender<Result<Bytes, std::io::Error>>;

    /// Bodies of one client that may have one unfinished message.
    fn bodies(count: usize, is_session: bool) -> Vec<(Sender, BodyDataStream)> {
        let limits = Limits { unfinished: 1, ..Limits::default() };
        let config = Config { limits, ..Config::alone("unix:x") };
        let access = Arc::new(AccessControl::new(&config).unwrap());
        let body = |_| {
            let (sender, receiver) = mpsc::channel(8);
            let body = Body::from_stream(ReceiverStream::new(receiver));
            let who = Identity::Anonymous(std::net::Ipv4Addr::LOCALHOST.into());
            let body = bounded(body, access.clone(), who, is_session, TIMEOUT);
            (sender, body.into_data_stream())
        };
        (0..count).map(body).collect()
    }

    fn message(length: u8) -> Vec<u8> {
        [&[0, 0, 0, 0, length][..], &vec![7; length.into()]].concat()
    }

    async fn send(sender: &Sender, bytes: &[u8]) {
        sender.send(Ok(Bytes::copy_from_slice(bytes))).await.unwrap();
    }

    /// The code of the refusal with which a body ends.
    async fn refusal(body: &mut BodyDataStream) -> Option<ErrorCode> {
        while let Some(bytes) = body.next().await {
            if let Err(error) = bytes {
                let mut source: &dyn std::error::Error = &error;
                loop {
                    if let Some(status) = source.downcast_ref::<Status>() {
                        return ErrorCode::of_grpc_status(status);
                    }
                    source = source.source().expect("a status");
                }
            }
        }
        None
    }

    /// The ends of messages are found wherever their bytes are divided.
    #[test]
    fn framing() {
        let all = [message(0), message(1), message(200), message(3)].concat();
        for size in 1..all.len() {
            let mut framing = Framing::default();
            for chunk in all.chunks(size) {
                framing.advance(chunk);
            }
            assert!(!framing.is_pending(), "in pieces of {size}");
            framing.advance(&message(9)[..size.min(13)]);
            assert!(framing.is_pending());
        }
    }

    /// A request whose message is not complete in time is refused, however far it has come, also
    /// one whose only message is complete but whose end does not come.
    #[tokio::test]
    async fn a_message_that_does_not_come() {
        for length in 0..=message(10).len() {
            let (sender, mut body) = bodies(1, false).remove(0);
            send(&sender, &message(10)[..length]).await;
            assert_eq!(refusal(&mut body).await, Some(ErrorCode::LimitExceeded), "{length} bytes");
        }
    }

    /// A session may be silent between two messages, and not in the middle of one.
    #[tokio::test]
    async fn a_silent_session() {
        let (sender, mut body) = bodies(1, true).remove(0);
        send(&sender, &message(10)).await;
        body.next().await.unwrap().unwrap();
        let silent = tokio::time::timeout(TIMEOUT * 3, body.next()).await;
        assert!(silent.is_err());
        send(&sender, &message(10)[..9]).await;
        assert_eq!(refusal(&mut body).await, Some(ErrorCode::LimitExceeded));
    }

    /// A client may have only so many unfinished messages, whatever the number of its requests; a
    /// complete one does not count.
    #[tokio::test]
    async fn unfinished_messages_are_counted() {
        let mut all = bodies(3, true);
        for (sender, body) in &mut all[..2] {
            send(sender, &message(10)).await;
            body.next().await.unwrap().unwrap();
        }
        let [first, second, third] = &mut all[..] else { panic!("three") };
        send(&first.0, &message(10)[..7]).await;
        first.1.next().await.unwrap().unwrap();
        send(&second.0, &message(10)[..7]).await;
        assert_eq!(refusal(&mut second.1).await, Some(ErrorCode::LimitExceeded));
        send(&first.0, &message(10)[7..]).await;
        first.1.next().await.unwrap().unwrap();
        send(&third.0, &message(10)[..7]).await;
        assert!(third.1.next().await.unwrap().is_ok(), "the first one is complete");
    }
}
