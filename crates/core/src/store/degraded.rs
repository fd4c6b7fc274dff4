//! Why a decision was made by failure policies.

use super::error::StoreError;

/// Why failure policies made a decision: see [`Decision::degraded_reason`](crate::Decision::degraded_reason).
///
/// ```
/// use tollgate::DegradedReason;
///
/// assert_eq!(DegradedReason::Overload.as_str(), "overload");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DegradedReason {
    /// The store did not reply in time.
    StoreTimeout,
    /// The store cannot be reached, or the connection was lost.
    Unavailable,
    /// The store is fast enough, but this process did not make or finish the call in the time of a
    /// decision.
    Overload,
    /// The store replied with an error that needs an operator.
    Refused,
}

impl DegradedReason {
    /// The reason as used in answers, logs and metrics: `store_timeout`, `unavailable`, `overload`
    /// or `refused`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StoreTimeout => "store_timeout",
            Self::Unavailable => "unavailable",
            Self::Overload => "overload",
            Self::Refused => "refused",
        }
    }
}

impl From<&StoreError> for DegradedReason {
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Timeout => Self::StoreTimeout,
            StoreError::Unavailable(_) => Self::Unavailable,
            StoreError::Overloaded => Self::Overload,
            // The others are denials, which no policy decides.
            StoreError::Refused(_)
            | StoreError::Bound { .. }
            | StoreError::Malformed { .. }
            | StoreError::Script(_) => Self::Refused,
        }
    }
}
