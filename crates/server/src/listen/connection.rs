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
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::front::{Front, ListenProtocol, Port};
use super::monitored_stream::{ConnectionProgress, MonitoredStream};
use super::shutdown::ShutdownPhase;
use super::timeouts::{ConnectionTimeouts, TimeoutAction};

/// The most bytes of a request's head.
const HEAD_MAX: u32 = 64 * 1024;
/// The most header lines of a request: as many as nginx accepts from a client, and then some.
const HEADER_LINES_MAX: usize = 1_024;
/// The most concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;
/// How often an HTTP/2 client is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// While draining, a connection is closed after this time without a request.
const DRAIN_IDLE: Duration = Duration::from_millis(500);
/// How often a connection is examined while draining.
const DRAIN_TICK: Duration = Duration::from_millis(50);

/// Serves a connection until it ends.
pub(super) async fn serve<F: Front>(port: &Arc<Port<F>>, stream: TcpStream, peer: SocketAddr) {
    // A response is one segment; delaying it to fill a larger one gains nothing.
    drop(stream.set_nodelay(true));

    let handler = Arc::new(ConnectionHandler {
        port: port.clone(),
        peer,
        progress: Arc::default(),
    });
    let stream = TokioIo::new(MonitoredStream::new(stream, handler.progress.clone()));
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
                // Shut down slowly: closing a socket with unread input could reset it, and the
                // client would lose the error response.
                drop(connection.into_parts().io.into_inner().shutdown().await);
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
    }
}

/// Handles the requests of a connection, and applies timeouts and the shutdown to it.
struct ConnectionHandler<F> {
    port: Arc<Port<F>>,
    peer: SocketAddr,
    progress: Arc<Mutex<ConnectionProgress>>,
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
            load,
            shutdown,
        } = &*self.port;

        self.progress.lock().start_request();
        let mut response = match load.try_request() {
            Some(_slot) => front.handle(request, self.peer).await,
            None => front.overloaded_response(),
        };
        self.progress.lock().end_request();

        // The client's next connection then goes to another replica. HTTP/2 has a frame for that.
        if *protocol == ListenProtocol::Http1 && shutdown.phase() > ShutdownPhase::Serving {
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// Drives a connection until it ends, times out, or the shutdown expires. Returns the
    /// connection's result if it ended by itself.
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
                () = tokio::time::sleep(tick) => {
                    match timeouts.update(*self.progress.lock(), tick) {
                        TimeoutAction::Abort => return None,
                        TimeoutAction::Close => close(connection.as_mut()),
                        TimeoutAction::Keep if is_draining && timeouts.idle() >= DRAIN_IDLE => {
                            close(connection.as_mut());
                        }
                        TimeoutAction::Keep => {}
                    }
                }
                () = shutdown.wait_for(next_phase) => {
                    if is_draining {
                        return None;
                    }
                    next_phase = ShutdownPhase::Expired;
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
}
