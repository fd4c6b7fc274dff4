//! The options of a limit that are one of a few choices.

/// What happens to the units of a reservation that is not settled in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ReservationExpiry {
    /// They stay charged. The default: work that was never settled may have been done.
    #[default]
    Keep,
    /// They are returned.
    Release,
}

impl ReservationExpiry {
    /// The name in configurations: `keep` or `release`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Release => "release",
        }
    }
}

/// What the units of a limit are. It changes no decision: header fields tell it to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum QuotaUnit {
    /// Requests, or permits of a concurrency limit. The default.
    #[default]
    Requests,
    /// Tokens of a language model.
    Tokens,
    /// Tokens that a language model reads.
    InputTokens,
    /// Tokens that a language model writes.
    OutputTokens,
    /// Bytes of the content of messages.
    Bytes,
}

/// What a limit does while its store is unavailable. The memory store is always available.
///
/// | policy | a request | use it for |
/// |---|---|---|
/// | `Allow` | passes, uncounted | availability before accuracy: most public APIs |
/// | `Deny` | is denied for now | what must never pass uncounted: logins, payments |
/// | `Local` | is counted in this process, against its share of the limit | everything in between |
///
/// The share is the limit divided by
/// [`expected_replicas`](crate::limiter::LimiterBuilder::expected_replicas); see
/// [`Quota::share`](crate::Quota::share).
/// A key starts from its whole share. If the store has denied it, it starts from its share of what
/// was left, usually nothing: an attacker whose requests are denied gains nothing by causing an
/// outage.
///
/// ```
/// # use tollgate::store::{Ending, Intent, SettleReply, Settlement, SpendReply, StoreFuture};
/// # use tollgate::{Demand, Key, PermitId, Store, StoreError};
/// # #[derive(Debug)]
/// # struct UnavailableStore;
/// # impl Store for UnavailableStore {
/// #     fn spend<'a>(
/// #         &'a self,
/// #         _: &[Demand<'_>],
/// #         _: Intent,
/// #         _: PermitId,
/// #     ) -> StoreFuture<'a, SpendReply> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn refund<'a>(&'a self, _: &[Demand<'_>]) -> StoreFuture<'a, ()> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn settle<'a>(
/// #         &'a self,
/// #         _: &[Settlement<'_>],
/// #         _: Ending,
/// #     ) -> StoreFuture<'a, Vec<SettleReply>> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn reset<'a>(&'a self, _: &Key<'_>) -> StoreFuture<'a, ()> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn release<'a>(&'a self, _: &Demand<'_>, _: PermitId) -> StoreFuture<'a, bool> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// #     fn renew<'a>(&'a self, _: &Demand<'_>, _: PermitId) -> StoreFuture<'a, bool> {
/// #         StoreFuture::ready(Err(StoreError::Timeout))
/// #     }
/// # }
/// # let unavailable_store = UnavailableStore;
/// use std::time::Duration;
/// use tollgate::{FailurePolicy, Limit, Limiter};
///
/// let login = Limit::sliding_log("login", 5, Duration::from_secs(900))
///     .on_store_failure(FailurePolicy::Deny);
/// let search = Limit::sliding_window("search", 100, Duration::from_secs(60));
/// let limiter = Limiter::new(unavailable_store, [login, search])?;
///
/// # pollster::block_on(async {
/// let allowed = limiter.check("search", "ann").await?;
/// assert!(allowed.is_allowed() && allowed.is_degraded());
/// assert_eq!(allowed.limits()[0].fallback(), Some(FailurePolicy::Allow));
///
/// let denied = limiter.check("login", "ann").await?;
/// assert!(denied.is_unavailable()); // 503, not 429
/// assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
/// # Ok::<(), tollgate::Error>(())
/// # })?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FailurePolicy {
    /// Allow requests without counting them. The default.
    #[default]
    Allow,
    /// Deny requests.
    Deny,
    /// Count requests in this process, against its share of the limit.
    Local,
}

impl FailurePolicy {
    /// The policy's name in response bodies and configurations: `allow`, `deny` or `local`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local => "local",
        }
    }
}
