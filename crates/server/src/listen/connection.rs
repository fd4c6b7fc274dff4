//! One connection, from its first byte to its polite end.

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

use super::monitored_stream::{Progress, Watched};
use super::problem_body::Explained;
use super::shutdown::{ShutdownPhase, ShutdownSignal};
use super::timeouts::{Patience, Ruling};
use super::{Front, ListenProtocol, ServerLoad};

/// The most bytes of a request's head.
pub(super) const HEAD_MAX: usize = 64 * 1024;
/// The most header lines of a request: hyper's own bound, because any other would cost an
/// allocation for each request.
pub(super) const HEADERS_MAX: usize = 100;
/// The most requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;
/// A connection on which nothing was said for so long while the server is leaving will not be
/// missed.
const QUIET: Duration = Duration::from_millis(500);
/// How often a connection is looked at while the server is leaving.
const LEAVING_TICK: Duration = Duration::from_millis(50);

/// Serves a connection until it ends.
pub(super) async fn serve<F: Front>(
    stream: TcpStream,
    peer: SocketAddr,
    protocol: ListenProtocol,
    front: Arc<F>,
    load: Arc<ServerLoad>,
    stop: ShutdownSignal,
) {
    // Answers are one segment; nothing is gained by waiting for more.
    drop(stream.set_nodelay(true));
    let progress = Arc::new(Progress::default());
    let stream = Watched::new(stream, progress.clone());
    let header_timeout = (protocol == ListenProtocol::Http1).then_some(load.limits.header_timeout);
    let patience = Patience::new(header_timeout, load.limits.idle_timeout);
    let answering = Answering {
        front,
        peer,
        load,
        progress: progress.clone(),
        stop: stop.clone(),
    };
    // An HTTP/2 client is told at once, and what it has begun is finished all the same.
    let leaves_at_once = protocol == ListenProtocol::Http2;
    let watch = Watch {
        progress,
        patience,
        stop,
        leaves_at_once,
    };
    match protocol {
        ListenProtocol::Http1 => {
            let service = service_fn(|request| answering.http1(request));
            let mut connection = http1::Builder::new()
                .max_buf_size(HEAD_MAX)
                .max_header_size(HEAD_MAX)
                // Whoever has said everything may say so, and still wants an answer.
                .half_close(true)
                .serve_connection(TokioIo::new(Explained::new(stream)), service);
            let ended = watch
                .over(
                    Pin::new(&mut connection),
                    http1::Connection::graceful_shutdown,
                )
                .await;
            if let Some(Err(_)) = ended {
                // What the client is told of it must not be lost because more has arrived.
                drop(connection.into_parts().io.into_inner().shutdown().await);
            }
        }
        ListenProtocol::Http2 => {
            let answering = Arc::new(answering);
            let service = service_fn(move |request| answering.clone().http2(request));
            let connection = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(u32::try_from(HEAD_MAX).unwrap_or(u32::MAX))
                .keep_alive_interval(Some(Duration::from_secs(30)))
                .serve_connection(TokioIo::new(stream), service);
            watch
                .over(pin!(connection), http2::Connection::graceful_shutdown)
                .await;
        }
    }
}

/// What it takes to answer the requests of a connection.
struct Answering<F> {
    front: Arc<F>,
    peer: SocketAddr,
    load: Arc<ServerLoad>,
    progress: Arc<Progress>,
    stop: ShutdownSignal,
}

impl<F: Front> Answering<F> {
    async fn http1(&self, request: Request<Incoming>) -> Result<Response<F::Body>, Infallible> {
        self.progress.begin();
        let mut response = self.answer(request).await;
        self.progress.end();
        if self.stop.phase() > ShutdownPhase::Serving {
            // Whoever reads this connects anew, to a server that stays.
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }

    /// In one piece, because every request's future is moved about, and each layer of it would hold
    /// the request again.
    async fn http2(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<F::Body>, Infallible> {
        self.progress.begin();
        let response = match self.load.request() {
            Some(_place) => self.front.answer(request, self.peer).await,
            None => self.front.shed(),
        };
        self.progress.end();
        Ok(response)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<F::Body> {
        match self.load.request() {
            Some(_place) => self.front.answer(request, self.peer).await,
            None => self.front.shed(),
        }
    }
}

/// Watches over a connection.
struct Watch {
    progress: Arc<Progress>,
    patience: Patience,
    stop: ShutdownSignal,
    /// Whether the connection has a way to say that it takes no more requests.
    leaves_at_once: bool,
}

impl Watch {
    /// Drives a connection until it ends, is given up, or the server is over. Gives how it ended by
    /// itself.
    async fn over<C: Future>(
        mut self,
        mut connection: Pin<&mut C>,
        retire: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut tick = self.patience.tick();
        let mut looks = looks_every(tick);
        let mut is_leaving = false;
        let mut over = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                ended = &mut connection => return Some(ended),
                _ = looks.tick() => match self.patience.look(&self.progress, tick) {
                    Ruling::Cut => return None,
                    Ruling::Retire => retire(connection.as_mut()),
                    Ruling::Keep if is_leaving && self.patience.is_quiet(QUIET) => retire(connection.as_mut()),
                    Ruling::Keep => {}
                },
                () = self.stop.reached(ShutdownPhase::Draining), if !is_leaving => {
                    is_leaving = true;
                    self.patience.start_over();
                    if self.leaves_at_once {
                        retire(connection.as_mut());
                    }
                    tick = LEAVING_TICK;
                    looks = looks_every(tick);
                }
                () = over.reached(ShutdownPhase::Expired), if is_leaving => return None,
            }
        }
    }
}

fn looks_every(tick: Duration) -> tokio::time::Interval {
    let mut looks = interval(tick);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is due at once, and there is nothing to see yet.
    looks.reset();
    looks
}
