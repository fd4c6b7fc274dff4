//! What the gate tells about a denial, for those who keep a record of them.

use std::fmt;

use http::{HeaderMap, HeaderValue};
use tollgate::{Demand, EncodedKey, LimitOutcome, Micros};

use super::active::ActiveConfig;

/// What a request says about itself, for the record. Empty unless denials are recorded.
#[derive(Clone, Debug, Default)]
pub struct RequestOrigin {
    /// The header `X-Request-Id`, as the client or a proxy sent it.
    pub request_id: Option<HeaderValue>,
    /// The header `traceparent`.
    pub traceparent: Option<HeaderValue>,
}

impl RequestOrigin {
    /// The origin of a request that says nothing about itself.
    pub const UNKNOWN: &'static Self = &Self {
        request_id: None,
        traceparent: None,
    };
}

/// One limit's denial of a request.
#[derive(Debug)]
pub struct Denial<'d> {
    /// The configuration that decided.
    pub active: &'d ActiveConfig,
    /// The limit, the key and the cost.
    pub demand: &'d Demand<'d, EncodedKey>,
    /// What the limit decided.
    pub outcome: &'d LimitOutcome,
    /// Where the request came from.
    pub origin: &'d RequestOrigin,
    /// When it was denied.
    pub now: Micros,
}

/// Keeps a record of denials. Called in the course of a decision, so it must never wait.
pub trait DenialObserver: fmt::Debug + Send + Sync {
    /// Records a denial.
    fn denied(&self, denial: &Denial<'_>);
}

impl ActiveConfig {
    /// What a request says about itself, if denials are recorded.
    pub fn origin(&self, headers: &HeaderMap) -> RequestOrigin {
        if self.config.audit_log.is_none() {
            return RequestOrigin::default();
        }
        RequestOrigin {
            request_id: headers.get("x-request-id").cloned(),
            traceparent: headers.get("traceparent").cloned(),
        }
    }
}
