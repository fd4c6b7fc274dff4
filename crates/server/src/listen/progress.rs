//! How far a connection has got, so that timeouts can be checked without timers.

/// The progress of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionProgress {
    /// Reads that returned data.
    pub(super) reads: u64,
    /// Writes that completed.
    pub(super) writes: u64,
    /// True while a write waits for the client to read.
    pub(super) is_blocked: bool,
    /// Requests whose head has arrived.
    pub(super) started: u64,
    /// Requests that were answered.
    pub(super) ended: u64,
    /// Requests whose answer is known, and only waits for the rest of an unread body.
    pub(super) discarding: u64,
    /// The value of `reads` when the last head was complete or the last request ended.
    pub(super) reads_at_head: u64,
    /// When the connection was accepted or the last request ended, in ticks of the port's table.
    pub(super) idle_since: u64,
}

impl ConnectionProgress {
    /// The progress of a connection that was accepted `now`.
    pub(super) fn new(now: u64) -> Self {
        Self {
            idle_since: now,
            ..Self::default()
        }
    }

    /// Whether no request is in flight.
    pub(super) const fn is_idle(&self) -> bool {
        self.started == self.ended
    }

    /// Whether the connection can be closed to make room for another.
    pub(super) const fn is_evictable(&self) -> bool {
        self.started == self.ended + self.discarding
    }

    pub(super) const fn start_request(&mut self) {
        self.started += 1;
        self.reads_at_head = self.reads;
    }

    pub(super) const fn end_request(&mut self, now: u64) {
        self.ended += 1;
        self.idle_since = now;
        // Reads since the head was complete were the body's.
        self.reads_at_head = self.reads;
    }
}
