//! Why there is nothing to report.

/// Why a load could not begin, or said nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Nobody is there, or not in time.
    #[error("no answer from {url}: {reason}")]
    NoAnswer {
        /// Whom was asked.
        url: String,
        /// What happened instead.
        reason: String,
    },
    /// Somebody is there and does not take the request.
    #[error("{url} refuses the request ({status}): {detail}")]
    Refused {
        /// Whom was asked.
        url: String,
        /// The status of the answer.
        status: u16,
        /// Its own words.
        detail: String,
    },
    /// The load went out, and nothing that came back was a decision.
    #[error("not one of {sent} requests was answered with a decision; most of all: {reason}")]
    NoDecision {
        /// How many were sent.
        sent: u64,
        /// What came most often instead.
        reason: String,
    },
}
