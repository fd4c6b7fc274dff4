//! The connections and requests in progress, and their bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

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
    pub(crate) limits: ListenLimits,
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

    /// A slot for one more connection; none when there are too many.
    pub(super) fn try_connection(&self) -> Option<LoadSlot<'_>> {
        self.try_acquire(&self.connections, self.limits.connections_max)
    }

    /// A slot for one more request; none when there are too many in flight.
    pub(super) fn try_request(&self) -> Option<LoadSlot<'_>> {
        self.try_acquire(&self.in_flight, self.limits.in_flight_max)
    }

    fn try_acquire<'a>(&self, count: &'a AtomicUsize, max: usize) -> Option<LoadSlot<'a>> {
        let slot = LoadSlot(count);
        if count.fetch_add(1, Relaxed) < max {
            return Some(slot);
        }

        // The count is one too high until the slot is dropped.
        self.shed.fetch_add(1, Relaxed);
        None
    }
}

/// One of a bounded number of connections or requests; freed when dropped.
pub(super) struct LoadSlot<'a>(&'a AtomicUsize);

impl Drop for LoadSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
