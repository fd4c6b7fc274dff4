//! Ports: who may connect, how long a connection may take, and how it ends.
//!
//! Owns sockets and time-outs. Knows nothing of limits or of what requests mean: a [`Front`]
//! answers them.

mod accept;
mod connection;
mod monitored_stream;
mod problem_body;
mod shutdown;
mod timeouts;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

pub(crate) use accept::run;
pub(crate) use shutdown::{ShutdownHandle, ShutdownPhase, ShutdownSignal};

/// What answers the requests of a port.
pub(crate) trait Front: Send + Sync + 'static {
    /// The body of its answers.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// The answer to a request from this address.
    fn answer(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The answer when as many requests are being answered as may.
    fn shed(&self) -> Response<Self::Body>;
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS, known beforehand, as gRPC has it.
    Http2,
}

/// What all ports together may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenLimits {
    pub(crate) connections_max: usize,
    pub(crate) in_flight_max: usize,
    pub(crate) header_timeout: std::time::Duration,
    pub(crate) idle_timeout: std::time::Duration,
}

/// How much is going on.
#[derive(Debug)]
pub(crate) struct ServerLoad {
    limits: ListenLimits,
    connections: AtomicUsize,
    in_flight: AtomicUsize,
    shed: std::sync::atomic::AtomicU64,
}

impl ServerLoad {
    pub(crate) fn new(limits: ListenLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            connections: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            shed: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Room of its own for a port that must be reached when the others are full, with the same
    /// patience.
    pub(crate) fn apart(&self, connections_max: usize, in_flight_max: usize) -> Arc<Self> {
        Self::new(ListenLimits {
            connections_max,
            in_flight_max,
            ..self.limits
        })
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// Requests and connections turned away so far.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Relaxed)
    }

    /// A place for one more request, if there is one.
    fn request(&self) -> Option<Place<'_>> {
        Place::take(&self.in_flight, self.limits.in_flight_max).or_else(|| self.turn_away())
    }

    /// A place for one more connection, if there is one.
    fn connection(&self) -> Option<Place<'_>> {
        Place::take(&self.connections, self.limits.connections_max).or_else(|| self.turn_away())
    }

    fn turn_away<T>(&self) -> Option<T> {
        self.shed.fetch_add(1, Relaxed);
        None
    }
}

/// One of a bounded number, given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(count: &'a AtomicUsize, most: usize) -> Option<Self> {
        let place = Self(count);
        // One too many is counted for a moment, and given back with the place.
        (count.fetch_add(1, Relaxed) < most).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
