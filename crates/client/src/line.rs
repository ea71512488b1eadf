//! A connection with TLS that remembers what TLS had against it.
//!
//! A node that does not accept our certificate says so only after our side of the handshake is
//! over. By then HTTP owns the connection, and all that comes out of it is that the connection has
//! ended; so the reason is noted where it comes in.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::tls::meaning;

/// What TLS had against a connection, if anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Option<String>>>);

impl Note {
    pub(crate) fn read(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The connection.
pub(crate) struct Noting {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) name: String,
    pub(crate) note: Note,
}

impl AsyncRead for Noting {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read
            && let Some(text) = meaning(error, &self.name)
        {
            *self.note.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
        read
    }
}

impl AsyncWrite for Noting {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
