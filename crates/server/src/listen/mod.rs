//! Listeners: how many connections they accept, how long a connection may take, how it ends.
//!
//! Owns sockets and timeouts. Knows nothing of limits or of what requests mean: a [`Front`]
//! answers them.

mod accept;
mod connection;
mod monitored_stream;
mod problem_body;
mod shutdown;
mod timeouts;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

pub(crate) use accept::run;
pub(crate) use shutdown::{ShutdownHandle, ShutdownPhase, ShutdownSignal};

/// Handles the requests of a port.
pub(crate) trait Front: Send + Sync + 'static {
    /// The body of responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Handles a request that came from `peer`.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The response when there are too many requests in flight.
    fn overloaded_response(&self) -> Response<Self::Body>;
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS and without an upgrade ("prior knowledge"), as gRPC uses it.
    Http2,
}

/// The bounds of the connections and requests that a server accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenLimits {
    pub(crate) connections_max: usize,
    pub(crate) in_flight_max: usize,
    /// How long the head of a request, or its body, may take to arrive.
    pub(crate) header_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub(crate) idle_timeout: Duration,
}

/// The connections and requests in progress, and their bounds.
#[derive(Debug)]
pub(crate) struct ServerLoad {
    limits: ListenLimits,
    connections: AtomicUsize,
    in_flight: AtomicUsize,
    shed: AtomicU64,
}

impl ServerLoad {
    pub(crate) fn new(limits: ListenLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            connections: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            shed: AtomicU64::new(0),
        })
    }

    /// A load of its own with the same timeouts, for a port that must be reachable while the others
    /// are overloaded.
    pub(crate) fn with_limits(&self, connections_max: usize, in_flight_max: usize) -> Arc<Self> {
        Self::new(ListenLimits {
            connections_max,
            in_flight_max,
            ..self.limits
        })
    }

    /// The number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// The number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// The number of requests and connections rejected so far.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Relaxed)
    }

    /// A slot for one more request; none when there are too many in flight.
    fn try_request(&self) -> Option<LoadSlot<'_>> {
        LoadSlot::try_acquire(&self.in_flight, self.limits.in_flight_max)
            .or_else(|| self.count_shed())
    }

    /// A slot for one more connection; none when there are too many.
    fn try_connection(&self) -> Option<LoadSlot<'_>> {
        LoadSlot::try_acquire(&self.connections, self.limits.connections_max)
            .or_else(|| self.count_shed())
    }

    fn count_shed<T>(&self) -> Option<T> {
        self.shed.fetch_add(1, Relaxed);
        None
    }
}

/// One of a bounded number of connections or requests; freed when dropped.
struct LoadSlot<'a>(&'a AtomicUsize);

impl<'a> LoadSlot<'a> {
    fn try_acquire(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let slot = Self(count);
        // Beyond the bound the count is one too high until the slot is dropped.
        (count.fetch_add(1, Relaxed) < max).then_some(slot)
    }
}

impl Drop for LoadSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
