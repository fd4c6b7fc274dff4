//! Who shares the counters of a limit, and how much they agree on before they answer.

use crate::algorithm::{LeakyMode, Quota};

/// Who shares a limit's counters.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Consistency, Limit};
///
/// // Protects this process, whatever the others see.
/// let own = Limit::sliding_window("per-process", 1_000, Duration::from_secs(1)).consistency(Consistency::Local);
/// assert_eq!(own.rule()?.consistency(), Consistency::Local);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Consistency {
    /// Everyone on the same store: every decision is one atomic step there.
    #[default]
    Strict,
    /// Everyone on the same store, by units taken from it in advance: never above the limit, and
    /// mostly answered from memory. See [`lease`](crate::lease).
    Leased,
    /// Everyone on the same store, counted here and told there in batches: above the limit by no
    /// more than a tenth of it when as many processes share it as expected. See
    /// [`lease`](crate::lease).
    Eventual,
    /// This process alone, in its memory, whatever the store is.
    Local,
}

impl Consistency {
    /// What of this the algorithm can do. A queue hands out turns and a concurrency limit places,
    /// one at a time, so they are always strict. A log stamps every hit when it comes, so it is
    /// never counted elsewhere first: eventual is leased there, and what leased saves are the trips
    /// for denials.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Concurrency, Consistency};
    ///
    /// let places = Concurrency::new(20, Duration::from_secs(30))?.into();
    /// assert_eq!(Consistency::Leased.for_quota(&places), Consistency::Strict);
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    #[must_use]
    pub const fn for_quota(self, quota: &Quota) -> Self {
        let is_queue = matches!(quota, Quota::LeakyBucket(bucket) if matches!(bucket.mode(), LeakyMode::Queue));
        match (self, quota) {
            (Self::Leased | Self::Eventual, Quota::Concurrency(_)) => Self::Strict,
            (Self::Leased | Self::Eventual, _) if is_queue => Self::Strict,
            (Self::Eventual, Quota::SlidingLog(_)) => Self::Leased,
            _ => self,
        }
    }

    /// The word used in configurations.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Leased => "leased",
            Self::Eventual => "eventual",
            Self::Local => "local",
        }
    }
}
