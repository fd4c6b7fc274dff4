//! Why a request is rejected.

use http::StatusCode;
use thiserror::Error;
use tollgate::{Decision, KeyError, LimitName};
use tollgate_http::Problem;

/// Why a request is rejected. Displays as a sentence for the client.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RejectionCause {
    /// A limit denied the request, or its failure policy did because the store is unavailable.
    #[error("{}", detail(.0))]
    Denied(Decision),
    /// The request is on the deny list of the layer.
    #[error("The request is on the deny list.")]
    DenyListed,
    /// The request has no key, and the limit rejects such requests.
    #[error("The request is missing {description}.")]
    MissingKey {
        /// The status that was given to [`or_reject`](crate::by::OptionalKey::or_reject).
        status: StatusCode,
        /// The missing key as a noun with its article, such as `the header x-api-key`.
        description: String,
    },
    /// The request has several different values for a key.
    #[error("The request has several values for {description}.")]
    AmbiguousKey {
        /// The key as a noun with its article, such as `the header x-api-key`.
        description: String,
    },
    /// The key is invalid, for example too long.
    #[error("Invalid key for the limit {limit:?}: {source}.")]
    InvalidKey {
        /// The limit that the key is for.
        limit: LimitName,
        /// What is wrong with the key.
        source: KeyError,
    },
    /// The body is longer than the [`ReadBodyLayer`](crate::ReadBodyLayer) reads.
    #[error("The request body is longer than {bytes_max} bytes.")]
    BodyTooLong {
        /// The maximum length in bytes.
        bytes_max: usize,
    },
    /// The body could not be read.
    #[error("The request body could not be read.")]
    BodyUnreadable,
    /// The layer is set up wrongly.
    #[error("The server cannot apply its rate limits.")]
    Misconfigured {
        /// What is wrong and how to fix it. It is logged, and clients do not see it.
        reason: String,
    },
}

impl RejectionCause {
    /// An error of the limiter. Failure policies decide when the store is unavailable, so what is
    /// left is a mistake in the application, such as a quota of another algorithm.
    #[cold]
    pub(crate) fn misconfigured(error: &tollgate::Error) -> Box<Self> {
        Box::new(Self::Misconfigured {
            reason: error.to_string(),
        })
    }

    /// The HTTP status for the cause.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Denied(decision) if decision.is_unavailable() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Denied(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::DenyListed => StatusCode::FORBIDDEN,
            Self::MissingKey { status, .. } => *status,
            Self::AmbiguousKey { .. } | Self::InvalidKey { .. } | Self::BodyUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::BodyTooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Misconfigured { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The decision, if a limit denied the request.
    pub const fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Denied(decision) => Some(decision),
            _ => None,
        }
    }

    /// The problem document for the cause.
    pub(super) fn problem(&self) -> Problem<'_> {
        self.decision()
            .and_then(Problem::denied)
            .unwrap_or_else(|| Problem::new(self.status(), self.to_string()))
    }
}

/// A sentence about a denial.
fn detail(decision: &Decision) -> String {
    Problem::denied(decision).map_or_else(
        || "Rate limit exceeded.".into(),
        |problem| problem.detail.into_owned(),
    )
}
