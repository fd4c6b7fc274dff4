//! What happens to a request that cannot be decided.
//!
//! Envoy treats a gRPC error as a failed service and by default lets the request pass. So errors
//! are only for what a client of the proxy cannot cause: a misconfigured proxy, an unavailable
//! store. What a client can cause, such as a header that is too long or an invalid address, is
//! denied instead. Otherwise clients could bypass the limits on purpose.

use std::fmt;

use tollgate_envoy::tonic::Status;
use tollgate_gate::{AccessError, DecideError};
use tollgate_rules::SelectError;

/// Why a request could not be decided.
#[derive(Debug)]
pub(super) enum GrpcError {
    /// Answered with a gRPC error: the proxy is misconfigured, or the store is unavailable.
    Status(Box<Status>),
    /// Answered with a denial: no key can be made from a value that the client chose.
    Denied(String),
    /// Answered with a denial: limits cannot be selected for what the client sent.
    Refused(SelectError),
}

impl GrpcError {
    /// The proxy sent an invalid request, because it is misconfigured.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Status(Box::new(Status::invalid_argument(message)))
    }

    /// The client sent a value that no key can be made from.
    pub(super) fn denied(reason: impl fmt::Display) -> Self {
        Self::Denied(reason.to_string())
    }
}

impl From<AccessError> for GrpcError {
    fn from(error: AccessError) -> Self {
        Self::Status(Box::new(access_denied(&error)))
    }
}

impl From<SelectError> for GrpcError {
    fn from(error: SelectError) -> Self {
        Self::Refused(error)
    }
}

impl From<DecideError> for GrpcError {
    fn from(error: DecideError) -> Self {
        if let Some(store_error) = error.store_error() {
            return Self::Status(Box::new(Status::unavailable(store_error.to_string())));
        }
        match error {
            DecideError::Select(error) => error.into(),
            DecideError::Limiter(error) => {
                Self::Status(Box::new(Status::internal(error.to_string())))
            }
        }
    }
}

/// The status of a request that lacks a token, or the permission.
pub(super) fn access_denied(error: &AccessError) -> Status {
    match error {
        AccessError::MissingToken | AccessError::UnknownToken => Status::unauthenticated(format!(
            "{error}: send one of `server.tokens` in the metadata `authorization`, as \
             `Bearer <token>`, or `x-tollgate-token`"
        )),
        AccessError::NotPermitted { .. } => Status::permission_denied(error.to_string()),
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
