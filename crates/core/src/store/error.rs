//! Why a store call failed.

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
    /// The store did not reply within its deadline. It may or may not have done the step.
    #[error("store call timed out")]
    Timeout,
    /// The store could not be reached, or the connection was lost during the call.
    #[error("store unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The call was not sent, because too many calls are already in flight.
    #[error("store overloaded: too many calls in flight")]
    Overloaded,
    /// The store replied with an error that needs an operator: a missing permission, an unsupported
    /// version, a memory limit.
    #[error("store refused the request")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// True when the same call may succeed later without any change by an operator.
    pub const fn is_transient(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// The kind of the error as used in logs and metrics: `timeout`, `unavailable`, `overloaded` or
    /// `refused`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unavailable(_) => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Refused(_) => "refused",
        }
    }
}
