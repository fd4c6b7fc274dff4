//! The connections and requests in progress on a port, and their bounds.
//!
//! Each port has bounds of its own, so that the clients of one port cannot use up what those of
//! another need.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::connection_table::ConnectionTable;

/// The most bytes that all incomplete requests of a port may occupy.
const INCOMPLETE_BYTES_MAX: usize = 256 << 20;

/// The bounds of the connections and requests that a port accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenLimits {
    /// The most open connections.
    pub(crate) connections_max: usize,
    /// The most requests that are decided at the same time.
    pub(crate) in_flight_max: usize,
    /// How long the head of a request, or its body, may take to arrive.
    pub(crate) header_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub(crate) idle_timeout: Duration,
}

/// The connections and requests in progress on a port, and their bounds.
#[derive(Debug)]
pub(crate) struct PortLoad {
    /// The port's name, for the log.
    pub(super) name: &'static str,
    pub(crate) limits: ListenLimits,
    pub(super) connections: ConnectionTable,
    in_flight: AtomicUsize,
    incomplete_bytes: AtomicUsize,
    shed: AtomicU64,
}

impl PortLoad {
    pub(crate) fn new(name: &'static str, limits: ListenLimits) -> Arc<Self> {
        Arc::new(Self {
            name,
            limits,
            connections: ConnectionTable::new(limits.connections_max),
            in_flight: AtomicUsize::new(0),
            incomplete_bytes: AtomicUsize::new(0),
            shed: AtomicU64::new(0),
        })
    }

    /// The number of open connections.
    pub(crate) fn connections(&self) -> usize {
        self.connections.open()
    }

    /// The number of idle connections that were closed to make room for new ones.
    pub(crate) fn evicted(&self) -> u64 {
        self.connections.evicted()
    }

    /// The number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// The number of requests and connections rejected so far.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Relaxed)
    }

    /// A slot for one more decision; none when too many requests are in flight. Taken when the
    /// request has arrived completely, so that slow clients cannot hold slots.
    pub(crate) fn try_request(&self) -> Option<RequestSlot<'_>> {
        let slot = RequestSlot(&self.in_flight);
        if self.in_flight.fetch_add(1, Relaxed) < self.limits.in_flight_max {
            return Some(slot);
        }

        // The count is one too high until the slot is dropped.
        self.count_shed();
        None
    }

    /// Counts a rejected request or connection.
    pub(super) fn count_shed(&self) {
        self.shed.fetch_add(1, Relaxed);
    }

    /// Reserves memory for an incomplete request. False when all of them together have too much.
    pub(super) fn try_reserve(&self, bytes: usize) -> bool {
        let before = self.incomplete_bytes.fetch_add(bytes, Relaxed);
        if before.saturating_add(bytes) <= INCOMPLETE_BYTES_MAX {
            return true;
        }

        self.unreserve(bytes);
        self.count_shed();
        false
    }

    /// Returns memory that was reserved.
    pub(super) fn unreserve(&self, bytes: usize) {
        self.incomplete_bytes.fetch_sub(bytes, Relaxed);
    }
}

/// One of a bounded number of requests in flight; freed when dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot<'a>(&'a AtomicUsize);

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(in_flight_max: usize) -> Arc<PortLoad> {
        PortLoad::new(
            "test",
            ListenLimits {
                connections_max: 1,
                in_flight_max,
                header_timeout: Duration::ZERO,
                idle_timeout: Duration::ZERO,
            },
        )
    }

    #[test]
    fn slots_are_bounded_and_returned() {
        let load = load(2);
        let slots = [load.try_request(), load.try_request()];
        assert!(slots.iter().all(Option::is_some));
        assert!(load.try_request().is_none());
        assert_eq!((load.in_flight(), load.shed()), (2, 1));

        drop(slots);
        assert!(load.try_request().is_some());
        assert_eq!((load.in_flight(), load.shed()), (0, 1));
    }

    #[test]
    fn the_memory_of_incomplete_requests_is_bounded_and_returned() {
        let load = load(1);
        assert!(load.try_reserve(INCOMPLETE_BYTES_MAX - 1));
        assert!(!load.try_reserve(2));
        assert!(load.try_reserve(1));
        assert!(!load.try_reserve(1));
        assert!(!load.try_reserve(usize::MAX / 2));
        assert_eq!(load.shed(), 3);

        load.unreserve(INCOMPLETE_BYTES_MAX);
        assert!(load.try_reserve(INCOMPLETE_BYTES_MAX));
    }
}
