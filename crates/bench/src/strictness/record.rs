//! The result of one request, as its sender saw it.

/// The source of a decision, as reported in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionSource {
    Store,
    /// Units leased in advance, or reported to the store later.
    Lease,
    DenyCache,
    /// A counter of the replica itself.
    Local,
    /// The failure policy, because the store was unavailable.
    Fallback,
    /// No response, or one that is not a decision.
    Missing,
}

/// One request. Times are microseconds since the load began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) scheduled_us: u64,
    /// Rounded down, so that it is not later than the sending.
    pub(super) sent_us: u64,
    /// Rounded up, so that it is not earlier than the arrival.
    pub(super) received_us: u64,
    pub(super) key: u32,
    pub(super) cost: u32,
    pub(super) admitted: bool,
    pub(super) source: DecisionSource,
}

impl DecisionSource {
    /// Parses the response's `source`.
    pub(super) fn from_word(word: &[u8]) -> Self {
        match word {
            b"store" => Self::Store,
            b"lease" => Self::Lease,
            b"deny_cache" => Self::DenyCache,
            b"local" => Self::Local,
            b"fallback" => Self::Fallback,
            _ => Self::Missing,
        }
    }

    /// Whether the replica answered without a store call.
    pub(super) const fn is_local(self) -> bool {
        matches!(self, Self::Lease | Self::DenyCache | Self::Local)
    }
}

impl Record {
    /// The latency from the time at which the request was due, so that a slow response also counts
    /// for the requests that waited behind it.
    pub(super) const fn latency_us(&self) -> u64 {
        self.received_us.saturating_sub(self.scheduled_us)
    }

    /// How late the request was sent.
    pub(super) const fn late_us(&self) -> u64 {
        self.sent_us.saturating_sub(self.scheduled_us)
    }

    /// Whether the request was denied by a decision, not by a failure.
    pub(super) const fn is_denied(&self) -> bool {
        !self.admitted
            && !matches!(
                self.source,
                DecisionSource::Fallback | DecisionSource::Missing
            )
    }
}
