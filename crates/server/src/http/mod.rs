//! The HTTP port: decisions, forward-auth, health.
//!
//! Each request takes four steps: decode, select, spend, encode. An [`ApiError`] can end any of
//! them; it knows its status and its body.

mod api;
mod body;
mod forward_auth;
mod health;
mod respond;
mod timing;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use tollgate_gate::api::{ApiContext, ApiError, ApiOperation};
use tollgate_gate::{ActiveConfig, Caller, Gate};
use tollgate_rules::Permission;
use tracing::Instrument as _;

pub(crate) use body::{BodyLimits, read as read_body};
pub(crate) use health::{Readiness, alive};
pub(crate) use respond::{Body, json, problem};

use self::forward_auth::{FORWARD_AUTH, ForwardAuthWarnings};
use crate::guard::{BrowserGuard, expect_host, presented_token};
use crate::listen::{self, ClientConnection, Front};
use crate::traces;

/// The description of this port, in the `OpenAPI` format.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpRoute {
    /// An operation of the decision API; none for a batch of them.
    Api(Option<ApiOperation>),
    ForwardAuth,
    Alive,
    Ready,
    OpenApi,
}

/// Every path. Only forward-auth also has paths below its own.
const ROUTES: [(&str, HttpRoute); 14] = [
    ("/v1/check", HttpRoute::Api(Some(ApiOperation::Check))),
    ("/v1/peek", HttpRoute::Api(Some(ApiOperation::Peek))),
    ("/v1/refund", HttpRoute::Api(Some(ApiOperation::Refund))),
    ("/v1/release", HttpRoute::Api(Some(ApiOperation::Release))),
    ("/v1/reserve", HttpRoute::Api(Some(ApiOperation::Reserve))),
    ("/v1/settle", HttpRoute::Api(Some(ApiOperation::Settle))),
    ("/v1/cancel", HttpRoute::Api(Some(ApiOperation::Cancel))),
    ("/v1/reset", HttpRoute::Api(Some(ApiOperation::Reset))),
    ("/v1/limits", HttpRoute::Api(Some(ApiOperation::Limits))),
    ("/v1/batch", HttpRoute::Api(None)),
    (FORWARD_AUTH, HttpRoute::ForwardAuth),
    ("/healthz", HttpRoute::Alive),
    ("/readyz", HttpRoute::Ready),
    ("/openapi.json", HttpRoute::OpenApi),
];

impl HttpRoute {
    /// What a path is for, with the path that it is listed under; none if the path is unknown.
    fn find(path: &str) -> Option<(&'static str, Self)> {
        let listed = match path.strip_prefix(FORWARD_AUTH) {
            Some(below) if below.starts_with('/') => FORWARD_AUTH,
            _ => path,
        };
        ROUTES.into_iter().find(|(known, _)| *known == listed)
    }

    /// Whether everyone may use it: health checks and the description.
    const fn is_public(self) -> bool {
        matches!(self, Self::Alive | Self::Ready | Self::OpenApi)
    }

    /// What a token must allow. None if that depends on the body, and for public routes.
    fn permission(self) -> Option<Permission> {
        match self {
            Self::Api(operation) => operation.map(ApiOperation::permission),
            Self::ForwardAuth => Some(Permission::Check),
            Self::Alive | Self::Ready | Self::OpenApi => None,
        }
    }
}

/// Handles the requests of the HTTP port.
#[derive(Debug)]
pub(crate) struct HttpFront {
    gate: Arc<Gate>,
    readiness: Arc<Readiness>,
    /// Whether the port can be reached from this machine only.
    is_loopback: bool,
    warnings: ForwardAuthWarnings,
}

impl HttpFront {
    /// The handler of a port with this address.
    pub(crate) fn new(gate: Arc<Gate>, readiness: Arc<Readiness>, address: SocketAddr) -> Self {
        Self {
            gate,
            readiness,
            is_loopback: address.ip().to_canonical().is_loopback(),
            warnings: ForwardAuthWarnings::default(),
        }
    }

    /// Borrows the request: a future that owned it would be larger and be moved with it.
    async fn route(
        &self,
        route: Option<HttpRoute>,
        request: &mut Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Result<Response<Body>, ApiError> {
        expect_host(request)?;
        let is_probe = matches!(route, Some(HttpRoute::Alive | HttpRoute::Ready));
        if !is_probe && !connection.admits_request() {
            return Err(ApiError::too_many_connections());
        }

        let route = route.ok_or_else(|| ApiError::not_found(request.uri().path()))?;
        let (gate, active) = (&*self.gate, &*self.gate.active());
        let caller = self.authorize(active, route, request)?;
        let context = ApiContext {
            gate,
            active,
            caller,
            origin: &active.origin(request.headers()),
        };

        match route {
            HttpRoute::Api(operation) => {
                api::handle(operation, context, post(request)?, connection).await
            }
            HttpRoute::Alive => get(request).map(|()| alive()),
            HttpRoute::Ready => get(request).map(|()| self.readiness.response(gate)),
            HttpRoute::OpenApi => get(request).map(|()| json(StatusCode::OK, OPENAPI)),
            HttpRoute::ForwardAuth => {
                let warnings = &self.warnings;
                Box::pin(forward_auth::handle(context, request, connection, warnings)).await
            }
        }
    }

    /// Decides whether the request may use the operation: by its token if tokens are configured,
    /// otherwise anyone may but the web pages of other sites.
    fn authorize<B>(
        &self,
        active: &ActiveConfig,
        route: HttpRoute,
        request: &Request<B>,
    ) -> Result<Caller, ApiError> {
        if route.is_public() {
            return Ok(Caller::ANYONE);
        }
        if active.requires_token() {
            // A page of another site does not know the token, so no further check is needed.
            let token = presented_token(request.headers());
            let caller = active.identify(token)?;
            if let Some(permission) = route.permission() {
                active.permit(caller, permission)?;
            }
            active.count_accepted(caller);
            return Ok(caller);
        }

        // A proxy passes on the headers of its clients, and many of those are browsers.
        if route == HttpRoute::ForwardAuth {
            return Ok(Caller::ANYONE);
        }
        let browsers = BrowserGuard::new(&active.config.server.access);
        // Other addresses have names that this service does not know.
        if self.is_loopback {
            browsers.expect_own_host(request)?;
        }
        browsers.expect_own_page(request)?;
        Ok(Caller::ANYONE)
    }
}

impl Front for HttpFront {
    type Body = Body;

    async fn handle(
        &self,
        mut request: Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> Response<Body> {
        let (name, route) = HttpRoute::find(request.uri().path()).unzip();
        // Spans are named after the route, so that the number of names is bounded.
        let span = traces::span(name.unwrap_or("unknown"), request.headers());

        let result = if span.is_disabled() {
            self.route(route, &mut request, connection).await
        } else {
            // Boxed, so that the future of an untraced request does not reserve space for it.
            Box::pin(
                self.route(route, &mut request, connection)
                    .instrument(span.clone()),
            )
            .await
        };

        let response = result.unwrap_or_else(|error| {
            self.gate.metrics().count_error(error.code);
            problem(&error)
        });
        traces::record_status(&span, response.status());
        listen::discard_unread(&mut request, response, connection).await
    }
}

fn post(request: &mut Request<Incoming>) -> Result<&mut Request<Incoming>, ApiError> {
    if request.method() == Method::POST {
        Ok(request)
    } else {
        Err(ApiError::method_not_allowed(request.method(), "POST"))
    }
}

pub(crate) fn get<B>(request: &Request<B>) -> Result<(), ApiError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        ref other => Err(ApiError::method_not_allowed(other, "GET, HEAD")),
    }
}

#[cfg(test)]
mod tests;
