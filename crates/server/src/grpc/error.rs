//! What becomes of a request that cannot be decided.
//!
//! To Envoy a gRPC error is a service that is broken, and by default it then lets the request pass.
//! So an error is for what a client of the proxy cannot bring about: a proxy that is set up wrong,
//! a store that is away. What a client can bring about, by a header that is too long or an address
//! that is none, is a refusal instead, or it would be a way around.

use std::fmt;

use serde::Serialize;
use tollgate_envoy::tonic::Status;
use tollgate_rules::SelectError;

use crate::gate::DecideError;

/// Why there is no decision.
#[derive(Debug)]
pub(super) enum Fault {
    /// The question makes no sense, which is the proxy's configuration's doing.
    Wrong(Box<Status>),
    /// Some value cannot be counted by, and clients choose values.
    Uncountable(String),
}

/// The body of a refusal that no limit decided on.
#[derive(Debug, Serialize)]
pub(super) struct Uncountable<'f> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'f str,
}

impl Fault {
    pub(super) fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong(Box::new(Status::invalid_argument(what)))
    }

    pub(super) fn uncountable(what: impl fmt::Display) -> Self {
        Self::Uncountable(what.to_string())
    }
}

impl<'f> Uncountable<'f> {
    pub(super) const fn new(detail: &'f str) -> Self {
        Self {
            kind: "about:blank",
            title: "Request cannot be counted",
            status: 429,
            detail,
        }
    }
}

impl From<SelectError> for Fault {
    fn from(error: SelectError) -> Self {
        Self::uncountable(error)
    }
}

impl From<DecideError> for Fault {
    fn from(undecided: DecideError) -> Self {
        if let Some(error) = undecided.store_error() {
            return Self::Wrong(Box::new(Status::unavailable(error.to_string())));
        }
        match undecided {
            DecideError::Select(error) => error.into(),
            DecideError::Limiter(error) => {
                Self::Wrong(Box::new(Status::internal(error.to_string())))
            }
        }
    }
}
