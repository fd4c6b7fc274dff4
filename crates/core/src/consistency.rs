//! How replicas share the counters of a limit.

use crate::algorithm::{LeakyMode, Quota};

/// How replicas share a limit's counters, and how much a decision may rely on local state.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Consistency, Limit};
///
/// // Protects this process alone: every replica allows 1,000 per second.
/// let limit = Limit::sliding_window("per-replica", 1_000, Duration::from_secs(1))
///     .consistency(Consistency::Local);
/// assert_eq!(limit.validate()?.consistency(), Consistency::Local);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Consistency {
    /// Shared by all replicas on the same store. Every decision is one atomic step in the store.
    /// The default.
    #[default]
    Strict,
    /// Shared by all replicas on the same store. Each replica leases units from the store in
    /// advance and decides most requests from memory. Never admits more than the limit. See
    /// [`lease`](crate::store::lease).
    Leased,
    /// Shared by all replicas on the same store. Each replica counts locally and reports to the
    /// store in batches. With the expected number of replicas, admits at most a tenth more than
    /// the limit. See [`lease`](crate::store::lease).
    Eventual,
    /// Counted in this process alone, whatever the store is.
    Local,
}

impl Consistency {
    /// The consistency that the algorithm of `quota` supports.
    ///
    /// Queues and concurrency limits give out each position and each permit individually, so they
    /// are always strict. A sliding log records the time of every request at the store, so it
    /// cannot be counted elsewhere first: [`Eventual`](Self::Eventual) becomes
    /// [`Leased`](Self::Leased), which saves the store calls for denials.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Concurrency, Consistency};
    ///
    /// let in_flight = Concurrency::new(20, Duration::from_secs(30))?.into();
    /// assert_eq!(Consistency::Leased.for_quota(&in_flight), Consistency::Strict);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn for_quota(self, quota: &Quota) -> Self {
        let is_queue = match quota {
            Quota::LeakyBucket(bucket) => matches!(bucket.mode(), LeakyMode::Queue),
            _ => false,
        };

        match (self, quota) {
            (Self::Leased | Self::Eventual, Quota::Concurrency(_)) => Self::Strict,
            (Self::Leased | Self::Eventual, _) if is_queue => Self::Strict,
            (Self::Eventual, Quota::SlidingLog(_)) => Self::Leased,
            _ => self,
        }
    }

    /// The name used in configurations: `strict`, `leased`, `eventual` or `local`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Leased => "leased",
            Self::Eventual => "eventual",
            Self::Local => "local",
        }
    }
}
