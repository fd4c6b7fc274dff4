//! A stream that reports its progress, and lingers when it is shut down.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::client_connection::ClientConnection;
use super::tls::ServerStream;

/// How long input is still read from a client after the last response.
const LINGER: Duration = Duration::from_secs(1);
/// How many bytes of it are read at most.
const LINGER_BYTES_MAX: usize = 16 << 20;

/// A stream that counts its reads and writes.
///
/// It lingers on shutdown: the system resets a connection that is closed while it has unread input,
/// and the client may then lose a response that it has not read yet.
///
/// It does not implement vectored writes. With them, hyper would pass each response of more than
/// 256 bytes as a buffer of its own. Without them it copies responses into one buffer, so that all
/// responses that are ready on an HTTP/2 connection take a single system call.
#[derive(Debug)]
pub(crate) struct MonitoredStream {
    stream: ServerStream,
    connection: Arc<ClientConnection>,
    /// While lingering: the bytes that may still be read, and the deadline.
    lingering: Option<(usize, Pin<Box<Sleep>>)>,
}

impl MonitoredStream {
    pub(super) const fn new(stream: ServerStream, connection: Arc<ClientConnection>) -> Self {
        Self {
            stream,
            connection,
            lingering: None,
        }
    }

    /// Reads and discards input until the client closes its side, within the bounds.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (bytes_left, deadline) = self
            .lingering
            .get_or_insert_with(|| (LINGER_BYTES_MAX, Box::pin(tokio::time::sleep(LINGER))));

        loop {
            let mut discarded = [0; 8 * 1024];
            let mut buffer = ReadBuf::new(&mut discarded);
            match self.stream.as_mut().poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && *bytes_left > 0 => {
                    *bytes_left = bytes_left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return deadline.as_mut().poll(context),
            }
        }
    }
}

impl AsyncRead for MonitoredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.stream.as_mut().poll_read(context, buffer);

        if buffer.filled().len() > before {
            self.connection.progress().lock().reads += 1;
        }
        read
    }
}

impl AsyncWrite for MonitoredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, buffer);

        let mut progress = self.connection.progress().lock();
        progress.is_blocked = written.is_pending();
        progress.writes += u64::from(written.is_ready());
        drop(progress);

        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.as_mut().poll_shutdown(context))?;
        ready!(self.poll_linger(context));
        Poll::Ready(Ok(()))
    }
}
