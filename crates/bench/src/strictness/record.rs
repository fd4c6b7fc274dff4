//! What became of one request, as its sender saw it.

/// Who decided, as the answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Store,
    /// From units that were taken before, or are told the store later.
    Lease,
    DenyCache,
    /// By a counter of the replica's own.
    Local,
    /// By policy, because the store did not answer.
    Fallback,
    /// There was no answer, or none that is a decision.
    Nothing,
}

/// One request. Moments are microseconds since the load began.
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
    pub(super) told: Told,
}

impl Told {
    /// The word in the answer's `source`.
    pub(super) fn from_word(word: &[u8]) -> Self {
        match word {
            b"store" => Self::Store,
            b"lease" => Self::Lease,
            b"deny_cache" => Self::DenyCache,
            b"local" => Self::Local,
            b"fallback" => Self::Fallback,
            _ => Self::Nothing,
        }
    }

    /// Whether the replica answered without asking anybody.
    pub(super) const fn is_local(self) -> bool {
        matches!(self, Self::Lease | Self::DenyCache | Self::Local)
    }
}

impl Record {
    /// Counted from the moment at which it was due, so that a slow answer also counts for those who
    /// waited behind it.
    pub(super) const fn latency_us(&self) -> u64 {
        self.received_us.saturating_sub(self.scheduled_us)
    }

    /// How long after its moment it was sent.
    pub(super) const fn late_us(&self) -> u64 {
        self.sent_us.saturating_sub(self.scheduled_us)
    }

    /// Refused by a decision, not for want of one.
    pub(super) const fn is_denied(&self) -> bool {
        !self.admitted && !matches!(self.told, Told::Fallback | Told::Nothing)
    }
}
