//! The reasons why a load has no report, and why a request has no decision.

use std::io;
use std::time::Duration;

use crate::http::HttpResponse;

/// An error that prevents a load from starting, or leaves it without any decision to report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The replica is unreachable, timed out, or did not respond with a decision.
    #[error("no decision from {url}: {reason}")]
    Unavailable {
        /// URL of the replica.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The replica rejected the first request with a client error.
    #[error("{url} rejected the request with status {status}: {detail}")]
    Rejected {
        /// URL of the replica.
        url: String,
        /// HTTP status of the response.
        status: u16,
        /// The `detail` member of the problem document in the response.
        detail: String,
    },
    /// Requests were sent, but no response was a decision.
    #[error("none of {sent} requests got a decision; first error: {reason}")]
    NoDecision {
        /// Number of requests sent.
        sent: u64,
        /// The first error.
        reason: String,
    },
}

/// Why a request got no decision.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("no response within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Connection(io::Error),
    #[error("status {} without a decision", .0.status().as_u16())]
    Response(Box<HttpResponse>),
}
