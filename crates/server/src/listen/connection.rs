//! Serves one connection from its first byte to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
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
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval};

use super::monitored_stream::{ConnectionProgress, MonitoredStream};
use super::problem_body::ProblemBodyStream;
use super::shutdown::{ShutdownPhase, ShutdownSignal};
use super::timeouts::{ConnectionTimeouts, TimeoutAction};
use super::{Front, ListenProtocol, ServerLoad};

/// The most bytes of a request's head.
pub(super) const HEAD_MAX: usize = 64 * 1024;
/// The most header lines of a request. This is hyper's default: any other value costs an allocation
/// for each request.
pub(super) const HEADERS_MAX: usize = 100;
/// The most concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;
/// While draining, a connection is closed after this time without a request.
const DRAIN_IDLE: Duration = Duration::from_millis(500);
/// How often a connection is examined while draining.
const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Serves a connection until it ends.
pub(super) async fn serve<F: Front>(
    stream: TcpStream,
    peer: SocketAddr,
    protocol: ListenProtocol,
    front: Arc<F>,
    load: Arc<ServerLoad>,
    shutdown: ShutdownSignal,
) {
    // A response is one segment; delaying it to fill a larger one gains nothing.
    drop(stream.set_nodelay(true));

    let progress = Arc::new(ConnectionProgress::default());
    let stream = MonitoredStream::new(stream, progress.clone());
    let header_timeout = (protocol == ListenProtocol::Http1).then_some(load.limits.header_timeout);
    let monitor = ConnectionMonitor {
        progress: progress.clone(),
        timeouts: ConnectionTimeouts::new(header_timeout, load.limits.idle_timeout),
        shutdown: shutdown.clone(),
        // HTTP/2 can announce the end of a connection and still finish the requests in flight.
        closes_on_drain: protocol == ListenProtocol::Http2,
    };
    let handler = RequestHandler {
        front,
        peer,
        load,
        progress,
        shutdown,
    };

    match protocol {
        ListenProtocol::Http1 => serve_http1(stream, &handler, monitor).await,
        ListenProtocol::Http2 => serve_http2(stream, handler, monitor).await,
    }
}

async fn serve_http1<F: Front>(
    stream: MonitoredStream<TcpStream>,
    handler: &RequestHandler<F>,
    monitor: ConnectionMonitor,
) {
    let service = service_fn(|request| handler.http1(request));
    let mut connection = http1::Builder::new()
        .max_buf_size(HEAD_MAX)
        .max_header_size(HEAD_MAX)
        // A client may close its sending side after the request and still wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(ProblemBodyStream::new(stream)), service);

    let result = monitor
        .drive(
            Pin::new(&mut connection),
            http1::Connection::graceful_shutdown,
        )
        .await;
    if let Some(Err(_)) = result {
        // Shut down slowly: closing a socket with unread input could reset it, and the client
        // would lose the error response.
        drop(connection.into_parts().io.into_inner().shutdown().await);
    }
}

async fn serve_http2<F: Front>(
    stream: MonitoredStream<TcpStream>,
    handler: RequestHandler<F>,
    monitor: ConnectionMonitor,
) {
    let handler = Arc::new(handler);
    let service = service_fn(move |request| handler.clone().http2(request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(HEAD_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .serve_connection(TokioIo::new(stream), service);

    monitor
        .drive(pin!(connection), http2::Connection::graceful_shutdown)
        .await;
}

/// Handles the requests of a connection.
struct RequestHandler<F> {
    front: Arc<F>,
    peer: SocketAddr,
    load: Arc<ServerLoad>,
    progress: Arc<ConnectionProgress>,
    shutdown: ShutdownSignal,
}

impl<F: Front> RequestHandler<F> {
    async fn http1(&self, request: Request<Incoming>) -> Result<Response<F::Body>, Infallible> {
        self.progress.start_request();
        let mut response = self.handle(request).await;
        self.progress.end_request();

        if self.shutdown.phase() > ShutdownPhase::Serving {
            // The client's next connection then goes to another replica.
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Does not call `handle`: the future of every HTTP/2 request is moved, and each nested future
    /// would hold the request once more.
    async fn http2(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<F::Body>, Infallible> {
        self.progress.start_request();

        let response = match self.load.try_request() {
            Some(_slot) => self.front.handle(request, self.peer).await,
            None => self.front.overloaded_response(),
        };

        self.progress.end_request();
        Ok(response)
    }

    async fn handle(&self, request: Request<Incoming>) -> Response<F::Body> {
        match self.load.try_request() {
            Some(_slot) => self.front.handle(request, self.peer).await,
            None => self.front.overloaded_response(),
        }
    }
}

/// Applies timeouts and the shutdown to a connection.
struct ConnectionMonitor {
    progress: Arc<ConnectionProgress>,
    timeouts: ConnectionTimeouts,
    shutdown: ShutdownSignal,
    /// Whether to close the connection gracefully as soon as draining starts.
    closes_on_drain: bool,
}

impl ConnectionMonitor {
    /// Drives a connection until it ends, times out, or the shutdown expires. Returns the
    /// connection's result if it ended by itself.
    async fn drive<C: Future>(
        mut self,
        mut connection: Pin<&mut C>,
        close: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut tick = self.timeouts.tick();
        let mut ticks = ticks_every(tick);
        let mut is_draining = false;
        let mut expired = self.shutdown.clone();

        loop {
            tokio::select! {
                biased;
                result = &mut connection => return Some(result),
                _ = ticks.tick() => match self.timeouts.update(&self.progress, tick) {
                    TimeoutAction::Abort => return None,
                    TimeoutAction::Close => close(connection.as_mut()),
                    TimeoutAction::Keep => {
                        if is_draining && self.timeouts.is_idle_for(DRAIN_IDLE) {
                            close(connection.as_mut());
                        }
                    }
                },
                () = self.shutdown.wait_for(ShutdownPhase::Draining), if !is_draining => {
                    is_draining = true;
                    self.timeouts.reset_idle();
                    if self.closes_on_drain {
                        close(connection.as_mut());
                    }
                    tick = DRAIN_TICK;
                    ticks = ticks_every(tick);
                }
                () = expired.wait_for(ShutdownPhase::Expired), if is_draining => return None,
            }
        }
    }
}

fn ticks_every(tick: Duration) -> tokio::time::Interval {
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Skip the first tick, which would be due now.
    ticks.reset();
    ticks
}
