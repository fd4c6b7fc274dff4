//! An open connection, as its port and the front see it.

use std::borrow::Borrow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use parking_lot::Mutex;

use super::connection_table::{ConnectionRoom, ConnectionState};
use super::load::{PortLoad, RequestSlot};
use super::progress::ConnectionProgress;

/// What an incomplete request occupies besides its header fields and body, in bytes: its stream,
/// its task and a timer.
const REQUEST_BYTES: usize = 8 << 10;
/// What a header field occupies besides its name and value, in bytes.
const FIELD_BYTES: usize = 32;

/// An open connection. It counts towards its port's connections until it is dropped.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    load: Arc<PortLoad>,
    state: Arc<ConnectionState>,
    /// The connection is one beyond `connections_max`.
    is_reserved: AtomicBool,
}

impl ClientConnection {
    /// Adds a connection to its port; none if the port is full.
    pub(super) fn open(load: &Arc<PortLoad>, peer: SocketAddr) -> Option<Arc<Self>> {
        let (state, room) = load.connections.insert()?;

        Some(Arc::new(Self {
            peer,
            load: load.clone(),
            state,
            is_reserved: AtomicBool::new(room == ConnectionRoom::Reserved),
        }))
    }

    /// Whether the request may be handled. If not, the port has too many connections, and only
    /// health probes are answered on this one. Asked before the request's body is read.
    pub(crate) fn admits_request(&self) -> bool {
        let is_admitted = !self.is_reserved.load(Relaxed) || self.load.connections.has_room();
        if is_admitted {
            self.is_reserved.store(false, Relaxed);
        } else {
            self.load.count_shed();
        }
        is_admitted
    }

    /// A slot for the decision on a request that has arrived completely; none if too many requests
    /// are in flight.
    pub(crate) fn try_slot(&self) -> Option<RequestSlot<'_>> {
        self.load.try_request()
    }

    /// Lets the connection be evicted while the rest of a request is discarded.
    pub(super) fn start_discarding(&self) -> DiscardedRequest<'_> {
        self.progress().lock().discarding += 1;
        DiscardedRequest(self)
    }

    pub(super) fn progress(&self) -> &Mutex<ConnectionProgress> {
        &self.state.progress
    }

    /// Tells the port since when the connection is idle.
    pub(super) fn refresh(&self) {
        self.load.connections.refresh(&self.state);
    }

    /// Waits until the connection must end, to make room for another.
    pub(super) async fn evicted(&self) {
        self.state.eviction.notified().await;
    }

    /// Whether the connection still has to end. Not if a request has arrived in the meantime.
    pub(super) fn confirm_eviction(&self) -> bool {
        self.load.connections.confirm_eviction(&self.state)
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.load.connections.remove(&self.state);
    }
}

/// A request in flight: until it is dropped, its connection is not idle and is not evicted.
#[derive(Debug)]
pub(crate) struct InFlightRequest<C: Borrow<ClientConnection>>(C);

impl<C: Borrow<ClientConnection>> InFlightRequest<C> {
    /// Marks a request as in flight.
    pub(crate) fn new(connection: C) -> Self {
        connection.borrow().progress().lock().start_request();
        Self(connection)
    }
}

/// Also runs if the client cancels the request.
impl<C: Borrow<ClientConnection>> Drop for InFlightRequest<C> {
    fn drop(&mut self) {
        let connection = self.0.borrow();
        let now = connection.load.connections.tick();
        connection.progress().lock().end_request(now);
    }
}

/// A request whose answer only waits for the rest of its body.
#[derive(Debug)]
pub(super) struct DiscardedRequest<'a>(&'a ClientConnection);

impl Drop for DiscardedRequest<'_> {
    fn drop(&mut self) {
        self.0.progress().lock().discarding -= 1;
    }
}

/// The memory of a request that has not arrived completely; returned when dropped.
#[derive(Debug)]
pub(crate) struct IncompleteRequest {
    connection: Arc<ClientConnection>,
    /// What the head occupies, in bytes, until it is reserved.
    head_bytes: usize,
    /// What is reserved, in bytes.
    bytes: usize,
}

impl IncompleteRequest {
    /// A request with this head. Reserves nothing yet: most requests are complete at once.
    pub(crate) fn new(connection: Arc<ClientConnection>, head: &HeaderMap) -> Self {
        let field_bytes = |(name, value): (&HeaderName, &HeaderValue)| {
            name.as_str().len() + value.len() + FIELD_BYTES
        };

        Self {
            connection,
            head_bytes: REQUEST_BYTES + head.iter().map(field_bytes).sum::<usize>(),
            bytes: 0,
        }
    }

    /// Reserves memory for more bytes of the body, and at the first call for the head. False if
    /// the incomplete requests of the port have too much.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let bytes = bytes + std::mem::take(&mut self.head_bytes);
        let is_reserved = bytes == 0 || self.connection.load.try_reserve(bytes);
        if is_reserved {
            self.bytes += bytes;
        }
        is_reserved
    }
}

impl Drop for IncompleteRequest {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.connection.load.unreserve(self.bytes);
        }
    }
}
