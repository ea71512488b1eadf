//! A session stream in frames (`kgate_api::frames`), by a Unix socket.

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::path::Path;

use bytes::{Buf, BytesMut};
use kgate_api::frames::{self, Decoder, FrameError, PREFACE};
use kgate_api::v1;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Maximum size of what the node has not read. It is more than all requests of a client need, so a
/// node that lets it grow so far has stopped reading.
const UNSENT_MAX: usize = 16 << 20;

/// Why a stream has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamEnd {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("the node does not speak frames as this client does ({0}): restart it")]
    Frames(#[from] FrameError),
    #[error("the node does not read what this client sends")]
    NotRead,
}

/// A stream of messages to a node and back.
pub(crate) struct FrameStream {
    stream: UnixStream,
    decoder: Decoder,
    /// What the socket has not taken yet.
    unsent: BytesMut,
}

impl FrameStream {
    pub(crate) async fn connect(socket: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket).await?;
        let decoder = Decoder::new(frames::SERVER_MESSAGE_MAX);
        Ok(Self { stream, decoder, unsent: BytesMut::from(&PREFACE[..]) })
    }

    /// Sends a message. What the socket does not take now is sent by [`Self::receive`], which also
    /// notices errors.
    pub(crate) fn send(&mut self, message: &v1::ClientMessage) {
        if self.unsent.len() < UNSENT_MAX {
            frames::encode(message, &mut self.unsent);
            let _noticed = self.write();
        }
    }

    /// The next message; none at the end of the stream. May be dropped and called again.
    pub(crate) async fn receive(&mut self) -> Result<Option<v1::ServerMessage>, StreamEnd> {
        loop {
            if let Some(message) = self.decoder.next()? {
                return Ok(Some(message));
            }
            if self.unsent.len() >= UNSENT_MAX {
                return Err(StreamEnd::NotRead);
            }
            let waits = if self.unsent.is_empty() {
                Interest::READABLE
            } else {
                Interest::READABLE | Interest::WRITABLE
            };
            let ready = self.stream.ready(waits).await?;
            // First what has arrived: the reason of a node that has closed the stream.
            if ready.is_readable() {
                match self.stream.try_read_buf(self.decoder.room()) {
                    Ok(0) => return Ok(None),
                    Ok(_) => continue,
                    Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.write()?;
        }
    }

    /// Writes what the socket takes.
    fn write(&mut self) -> std::io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.try_write(&self.unsent) {
                Ok(written) => self.unsent.advance(written),
                Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
