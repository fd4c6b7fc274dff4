//! Serves one connection from its first byte to its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::client_connection::{ClientConnection, InFlightRequest};
use super::front::{ConnectionServer, Front, ListenProtocol, Port, StreamFront, StreamPort};
use super::monitored_stream::MonitoredStream;
use super::shutdown::ShutdownPhase;
use super::timeouts::{ConnectionTimeouts, TimeoutAction};
use super::tls::ServerStream;

/// The most bytes of a request's head.
const HEAD_MAX: u32 = 64 * 1024;
/// The most header lines of a request: more than any honest client sends through a proxy. hyper
/// reserves room for all of them with each request, so more would cost every request.
const HEADER_LINES_MAX: usize = 256;
/// The most concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;
/// How often an HTTP/2 client is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// While draining, a connection is closed after this time without a request.
const DRAIN_IDLE: Duration = Duration::from_millis(500);
/// How often a connection is examined while draining.
const DRAIN_TICK: Duration = Duration::from_millis(50);
/// How long an evicted connection may take to end gracefully.
const EVICTION_GRACE: Duration = Duration::from_millis(100);

/// Requests over HTTP.
impl<F: Front> ConnectionServer for F {
    async fn serve(
        port: &Arc<Port<Self>>,
        stream: ServerStream,
        connection: Arc<ClientConnection>,
    ) {
        let handler = Arc::new(ConnectionHandler {
            port: port.clone(),
            connection: connection.clone(),
        });
        let stream = TokioIo::new(MonitoredStream::new(stream, connection));
        let service = {
            let handler = handler.clone();
            service_fn(move |request| handler.clone().respond(request))
        };

        match port.protocol {
            ListenProtocol::Http1 => {
                let mut connection = http1::Builder::new()
                    .max_buf_size(HEAD_MAX as usize)
                    .max_header_size(HEAD_MAX as usize)
                    .max_headers(HEADER_LINES_MAX)
                    // A client may close its sending side after the request and still wait for the
                    // response.
                    .half_close(true)
                    .serve_connection(stream, service);

                let close = http1::Connection::graceful_shutdown;
                if let Some(Err(_)) = handler.drive(Pin::new(&mut connection), close).await {
                    handler
                        .linger(connection.into_parts().io.into_inner())
                        .await;
                }
            }
            ListenProtocol::Http2 => {
                let connection = http2::Builder::new(TokioExecutor::new())
                    .timer(TokioTimer::new())
                    .max_concurrent_streams(STREAMS_MAX)
                    .max_header_list_size(HEAD_MAX)
                    .keep_alive_interval(Some(PING_INTERVAL))
                    .serve_connection(stream, service);

                let close = http2::Connection::graceful_shutdown;
                handler.drive(pin!(connection), close).await;
            }
            // Served by a `StreamPort`.
            ListenProtocol::Resp => {}
        }
    }
}

/// A front that reads and writes the stream itself.
impl<F: StreamFront> ConnectionServer for StreamPort<F> {
    async fn serve(
        port: &Arc<Port<Self>>,
        stream: ServerStream,
        connection: Arc<ClientConnection>,
    ) {
        let Self(front) = &*port.front;
        let handler = ConnectionHandler {
            port: port.clone(),
            connection: connection.clone(),
        };
        let stream = MonitoredStream::new(stream, connection.clone());

        let closing = Notify::new();
        let serving = pin!(front.serve(stream, &connection, &closing));
        if let Some(stream) = handler.drive(serving, |_| closing.notify_one()).await {
            handler.linger(stream).await;
        }
    }
}

/// Handles the requests of a connection, and applies timeouts and the shutdown to it.
struct ConnectionHandler<F> {
    port: Arc<Port<F>>,
    connection: Arc<ClientConnection>,
}

impl<F: Front> ConnectionHandler<F> {
    /// Not divided further: the future of a request is moved, and each nested future would hold the
    /// request once more.
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<F::Body>, Infallible> {
        let Port {
            protocol,
            front,
            shutdown,
            ..
        } = &*self.port;

        let in_flight = InFlightRequest::new(&*self.connection);
        let mut response = front.handle(request, &self.connection).await;
        drop(in_flight);

        // The client's next connection then goes to another replica. HTTP/2 has a frame for that.
        if *protocol == ListenProtocol::Http1 && shutdown.phase() > ShutdownPhase::Serving {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

impl<F> ConnectionHandler<F> {
    /// Drives a connection until it ends, times out, is evicted, or the shutdown expires. Returns
    /// the connection's result if it ended by itself.
    async fn drive<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        close: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut timeouts = ConnectionTimeouts::new(self.port.protocol, &self.port.load.limits);
        let mut tick = timeouts.tick();
        let mut shutdown = self.port.shutdown.clone();
        let mut next_phase = ShutdownPhase::Draining;

        loop {
            let is_draining = next_phase > ShutdownPhase::Draining;
            tokio::select! {
                biased;
                result = &mut connection => return Some(result),
                () = tokio::time::sleep(tick) => match self.check(&mut timeouts, tick) {
                    TimeoutAction::Abort => return None,
                    TimeoutAction::Close => close(connection.as_mut()),
                    TimeoutAction::Keep if is_draining && timeouts.idle() >= DRAIN_IDLE => {
                        close(connection.as_mut());
                    }
                    TimeoutAction::Keep => {}
                },
                () = self.connection.evicted() => if self.connection.confirm_eviction() {
                    if self.can_end_now() {
                        return None;
                    }
                    close(connection.as_mut());
                    let ended = timeout(EVICTION_GRACE, &mut connection).await;
                    if ended.is_ok() || self.connection.confirm_eviction() {
                        return ended.ok();
                    }
                },
                () = shutdown.wait_for(next_phase) => {
                    match next_phase {
                        ShutdownPhase::Expired => return None,
                        // A busy client reconnects, now to another replica: this one accepts no
                        // more connections.
                        ShutdownPhase::Closing => {
                            next_phase = ShutdownPhase::Expired;
                            close(connection.as_mut());
                            continue;
                        }
                        ShutdownPhase::Serving | ShutdownPhase::Draining => {}
                    }
                    next_phase = self.phase_after_draining();
                    timeouts.reset_idle();
                    tick = DRAIN_TICK;
                    // HTTP/2 can announce the end of a connection and still finish the requests in
                    // flight.
                    if self.port.protocol == ListenProtocol::Http2 {
                        close(connection.as_mut());
                    }
                }
            }
        }
    }

    /// Shuts down slowly: closing a socket with unread input could reset it, and the client would
    /// lose the error response.
    async fn linger(&self, mut stream: MonitoredStream) {
        tokio::select! {
            _ = stream.shutdown() => {}
            () = self.connection.evicted() => {}
        }
    }

    /// Checks the timeouts, and tells the port since when the connection is idle.
    fn check(&self, timeouts: &mut ConnectionTimeouts, elapsed: Duration) -> TimeoutAction {
        self.connection.refresh();
        timeouts.update(*self.connection.progress().lock(), elapsed)
    }

    /// The next phase of a shutdown that concerns a connection. A response over HTTP says that the
    /// connection will be closed; the protocol of Redis has no word for it.
    fn phase_after_draining(&self) -> ShutdownPhase {
        match self.port.protocol {
            ListenProtocol::Http1 | ListenProtocol::Http2 => ShutdownPhase::Expired,
            ListenProtocol::Resp => ShutdownPhase::Closing,
        }
    }

    /// Whether an idle connection can be closed without a word: only HTTP/2 has one for it.
    fn can_end_now(&self) -> bool {
        let is_blocked = self.connection.progress().lock().is_blocked;
        self.port.protocol != ListenProtocol::Http2 && !is_blocked
    }
}
