//! A connection's bytes, counted as they pass.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How far a connection has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Reads that brought something.
    pub(super) reads: AtomicU64,
    /// Writes that took something.
    pub(super) writes: AtomicU64,
    /// True while a write has to wait.
    pub(super) blocked: AtomicBool,
    /// Requests whose head was complete.
    pub(super) begun: AtomicU64,
    /// Requests that were answered.
    pub(super) ended: AtomicU64,
    /// Reads up to the last request whose head was complete.
    pub(super) reads_at_head: AtomicU64,
}

impl Progress {
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
        self.reads_at_head.store(self.reads.load(Relaxed), Relaxed);
    }

    pub(super) fn end(&self) {
        self.ended.fetch_add(1, Relaxed);
        // What came meanwhile was the body.
        self.reads_at_head.store(self.reads.load(Relaxed), Relaxed);
    }
}

/// How long, and how much, is still read from a client after the last answer.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// A stream that counts. It closes slowly: a connection that is closed while something unread has
/// arrived is reset by the system, and the client may lose an answer that it has not read yet.
///
/// It takes one buffer at a time. Answers are short, and a library that could hand over several of
/// them does so for each answer that has more than 256 bytes; one that cannot copies them behind
/// each other, and all that are ready at once on an HTTP/2 connection go out in one call to the
/// system.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    progress: Arc<Progress>,
    /// What is still read after the last answer, and until when.
    lingering: Option<(usize, Pin<Box<Sleep>>)>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self {
            stream,
            progress,
            lingering: None,
        }
    }

    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.progress.blocked.store(written.is_pending(), Relaxed);
        if written.is_ready() {
            self.progress.writes.fetch_add(1, Relaxed);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> Watched<S> {
    /// Reads until the client has nothing more to say, within bounds.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (left, until) = self
            .lingering
            .get_or_insert_with(|| (LINGER_BYTES_MAX, Box::pin(tokio::time::sleep(LINGER))));
        loop {
            let mut room = [0; 8 * 1024];
            let mut buffer = ReadBuf::new(&mut room);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && *left > 0 => {
                    *left = left.saturating_sub(buffer.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return until.as_mut().poll(context),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.progress.reads.fetch_add(1, Relaxed);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
        ready!(self.poll_linger(context));
        Poll::Ready(Ok(()))
    }
}
