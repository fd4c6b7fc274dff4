//! What happens to a request that cannot be decided.
//!
//! Envoy treats a gRPC error as a failed service and by default lets the request pass. So errors
//! are only for what a client of the proxy cannot cause: a misconfigured proxy, an unavailable
//! store. What a client can cause, such as a header that is too long or an invalid address, is
//! denied instead. Otherwise clients could bypass the limits on purpose.

use std::fmt;

use tollgate_envoy::tonic::Status;
use tollgate_gate::api::select_code;
use tollgate_gate::metrics::Metrics;
use tollgate_gate::{AccessError, DecideError};
use tollgate_rules::SelectError;

/// Why a request could not be decided, with the code that it is counted under.
#[derive(Debug)]
pub(super) enum GrpcError {
    /// Answered with a gRPC error: the proxy is misconfigured, or the store is unavailable.
    Status(&'static str, Box<Status>),
    /// Answered with a denial: no key can be made from a value that the client chose.
    Denied(&'static str, String),
    /// Answered with a denial: limits cannot be selected for what the client sent.
    Refused(SelectError),
}

impl GrpcError {
    fn status(code: &'static str, status: Status) -> Self {
        Self::Status(code, Box::new(status))
    }

    /// The proxy sent an invalid request, because it is misconfigured.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::status("invalid-request", Status::invalid_argument(message))
    }

    /// The client sent a value that no key can be made from.
    pub(super) fn denied(code: &'static str, reason: impl fmt::Display) -> Self {
        Self::Denied(code, reason.to_string())
    }

    /// The port has too many requests in flight, which a client of the proxy can cause.
    pub(super) fn shed() -> Self {
        Self::denied(
            "overloaded",
            "too many requests in flight; retry in a second",
        )
    }

    /// The port has too many connections.
    pub(super) fn overloaded() -> Self {
        Self::status("overloaded", overloaded())
    }

    /// The message did not arrive in time.
    pub(super) fn too_slow(message: impl Into<String>) -> Self {
        Self::status("body-too-slow", Status::deadline_exceeded(message))
    }

    /// The limits decided to deny a charge because the store is unavailable.
    pub(super) fn not_charged() -> Self {
        let reason = "the store is unavailable, and nothing was charged; retry later";
        Self::status("store-unavailable", Status::unavailable(reason))
    }

    /// Counts it, under the code that other fronts use for the same cause.
    pub(super) fn count(&self, metrics: &Metrics) {
        let code = match self {
            Self::Status(code, _) | Self::Denied(code, _) => code,
            Self::Refused(error) => {
                metrics.count_refusal(error);
                select_code(error)
            }
        };
        metrics.count_error(code);
    }

    /// The status of a call that is never answered with a denial.
    pub(super) fn into_status(self) -> Status {
        match self {
            Self::Status(_, status) => *status,
            Self::Denied(_, reason) => Status::invalid_argument(reason),
            Self::Refused(error) => Status::invalid_argument(error.to_string()),
        }
    }
}

impl From<AccessError> for GrpcError {
    fn from(error: AccessError) -> Self {
        let status = match &error {
            AccessError::MissingToken | AccessError::UnknownToken => {
                Status::unauthenticated(format!(
                    "{error}: send one of `server.tokens` in the metadata `authorization`, as \
                     `Bearer <token>`, or `x-tollgate-token`"
                ))
            }
            AccessError::NotPermitted { .. } => Status::permission_denied(error.to_string()),
        };
        Self::status(error.code(), status)
    }
}

impl From<SelectError> for GrpcError {
    fn from(error: SelectError) -> Self {
        match error {
            // The proxy, not its client, names the entries of a descriptor.
            SelectError::TokenKind(_) => {
                let status = Status::invalid_argument(error.to_string());
                Self::status(select_code(&error), status)
            }
            error => Self::Refused(error),
        }
    }
}

impl From<DecideError> for GrpcError {
    fn from(error: DecideError) -> Self {
        let code = error.code();
        if let Some(store_error) = error.store_error() {
            return Self::status(code, Status::unavailable(store_error.to_string()));
        }
        match error {
            DecideError::Select(error) => error.into(),
            DecideError::Limiter(error) => {
                Self::status(code, Status::invalid_argument(error.to_string()))
            }
        }
    }
}

/// The status `UNAVAILABLE`, which Envoy's outlier detection counts like a 503, so that it turns to
/// other replicas. `RESOURCE_EXHAUSTED` would count as a success there. For the request itself both
/// have the same effect: `failure_mode_deny` decides.
pub(super) fn overloaded() -> Status {
    Status::unavailable(
        "too many connections or requests in flight; try another replica, or retry in a second",
    )
}
