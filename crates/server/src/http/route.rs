//! The paths of the HTTP port.

use tollgate_gate::api::ApiOperation;
use tollgate_rules::Permission;

/// The path of forward-auth; Envoy appends the path of the original request.
pub(super) const FORWARD_AUTH: &str = "/v1/forward-auth";

/// An operation of the HTTP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpRoute {
    /// An operation of the decision API.
    Api(ApiOperation),
    /// Many operations.
    Batch,
    ForwardAuth,
    Alive,
    Ready,
    OpenApi,
}

/// Every path. Only forward-auth also has paths below its own.
const ROUTES: [(&str, HttpRoute); 13] = [
    ("/v1/check", HttpRoute::Api(ApiOperation::Check)),
    ("/v1/peek", HttpRoute::Api(ApiOperation::Peek)),
    ("/v1/refund", HttpRoute::Api(ApiOperation::Refund)),
    ("/v1/release", HttpRoute::Api(ApiOperation::Release)),
    ("/v1/reserve", HttpRoute::Api(ApiOperation::Reserve)),
    ("/v1/settle", HttpRoute::Api(ApiOperation::Settle)),
    ("/v1/cancel", HttpRoute::Api(ApiOperation::Cancel)),
    ("/v1/reset", HttpRoute::Api(ApiOperation::Reset)),
    ("/v1/batch", HttpRoute::Batch),
    (FORWARD_AUTH, HttpRoute::ForwardAuth),
    ("/healthz", HttpRoute::Alive),
    ("/readyz", HttpRoute::Ready),
    ("/openapi.json", HttpRoute::OpenApi),
];

impl HttpRoute {
    /// The operation at a path; none if the path is unknown.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        let exact = ROUTES
            .iter()
            .find(|(known, _)| *known == path)
            .map(|(_, route)| *route);
        let below = || {
            path.strip_prefix(FORWARD_AUTH)
                .filter(|rest| rest.starts_with('/'))
        };
        exact.or_else(|| below().map(|_| Self::ForwardAuth))
    }

    /// Whether everyone may use it: health checks and the description.
    pub(super) const fn is_public(self) -> bool {
        matches!(self, Self::Alive | Self::Ready | Self::OpenApi)
    }

    /// What a token must allow. None if that depends on the body, and for public routes.
    pub(super) const fn permission(self) -> Option<Permission> {
        match self {
            Self::Api(operation) => Some(operation.permission()),
            Self::ForwardAuth => Some(Permission::Check),
            Self::Batch | Self::Alive | Self::Ready | Self::OpenApi => None,
        }
    }

    /// The operation's path, without what follows forward-auth.
    pub(super) fn path(self) -> &'static str {
        ROUTES
            .iter()
            .find(|(_, route)| *route == self)
            .map_or("", |(path, _)| path)
    }
}

#[cfg(test)]
mod tests;
