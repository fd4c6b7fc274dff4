//! What can go wrong, as errors for the program that embeds Tollgate.

use tollgate_gate::{DecideError, StoreOpenError};
use tollgate_rules::config::ConfigError;

/// Why a configuration cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store cannot be opened with the configured settings.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// The system gives no thread to work on.
    #[error("cannot start a thread: {0}")]
    Runtime(std::io::Error),
}

/// Why an operation failed. Nothing was charged.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The request does not fit the limits, or the store could not carry it out.
    #[error(transparent)]
    Decide(#[from] DecideError),
    /// The text is neither the name of a limit nor a JSON object with a `name`.
    #[error("invalid limit: expected a name, or a JSON object with the fields of a limit")]
    Limit,
    /// A program that looks up ever new limits puts into their names what belongs into the key.
    #[error("more than {max} limits: put what differs from request to request into the key")]
    TooManyLimits {
        /// The most limits that can be looked up.
        max: usize,
    },
    /// The clock is that of the system.
    #[error("the clock cannot be moved: open the limiter for tests")]
    SystemClock,
}
