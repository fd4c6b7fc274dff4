//! Why a store call failed.

use super::degraded::DegradedReason;
use crate::name::LimitName;

/// Why a store call failed. The text of the error and of its sources is logged, so stores must keep
/// secrets and keys out of it.
///
/// ```
/// use tollgate::StoreError;
///
/// let error = StoreError::Unavailable("connection refused".into());
/// assert_eq!(error.to_string(), "store unavailable");
/// assert_eq!((error.kind(), error.is_transient()), ("unavailable", true));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not reply in time. It may or may not have done the step.
    #[error("the store did not reply in time")]
    Timeout,
    /// The store could not be reached, or the connection was lost during the call.
    #[error("store unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This process did not make or finish the call in the time of a decision: too many calls
    /// wait, or it does not get enough of the processor. The store may or may not have done the
    /// step.
    #[error("overloaded: the decision took too long in this process")]
    Overloaded,
    /// The store replied with an error that needs an operator: a missing permission, an unsupported
    /// version, a memory limit.
    #[error("store refused the request")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A counter has as many open reservations as it may have. The call changed nothing.
    #[error("too many open reservations of one counter")]
    Bound {
        /// The limit of the counter, if it is known.
        limit: Option<LimitName>,
    },
    /// Another program has written to a counter. The counter was deleted and begins again, empty.
    #[error("a counter was malformed, and was deleted")]
    Malformed {
        /// The limit of the counter, if it is known.
        limit: Option<LimitName>,
    },
    /// The store's own program failed. The call may have changed something.
    #[error("the script of the store failed")]
    Script(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a request is denied although neither its cost nor an outage is the reason: the store is
/// available and found a fault. The failure policy does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The key has as many open reservations as it may have.
    Bound,
    /// The counter was malformed, and begins again, empty.
    Malformed,
    /// The store's own program failed.
    Script,
}

impl Refusal {
    /// The code of the problem document of such a denial.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Bound => "too-many-reservations",
            Self::Malformed => "malformed-counter",
            Self::Script => "script-error",
        }
    }
}

impl StoreError {
    /// True when the same call may succeed later without any change by an operator.
    pub const fn is_transient(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::Script(_))
    }

    /// Why a request that fails with this error is denied, and the limit that denies it, if it is
    /// known. `None` if the store is unavailable: then the limits' failure policies decide.
    pub const fn refusal(&self) -> Option<(Refusal, Option<LimitName>)> {
        match self {
            Self::Bound { limit } => Some((Refusal::Bound, *limit)),
            Self::Malformed { limit } => Some((Refusal::Malformed, *limit)),
            Self::Script(_) => Some((Refusal::Script, None)),
            _ => None,
        }
    }

    /// The kind of the error as used in decisions, logs and metrics: `store_timeout`,
    /// `unavailable`, `overload`, `refused`, `bound`, `malformed` or `script`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => DegradedReason::StoreTimeout.as_str(),
            Self::Unavailable(_) => DegradedReason::Unavailable.as_str(),
            Self::Overloaded => DegradedReason::Overload.as_str(),
            Self::Refused(_) => DegradedReason::Refused.as_str(),
            Self::Bound { .. } => "bound",
            Self::Malformed { .. } => "malformed",
            Self::Script(_) => "script",
        }
    }
}
