//! The HTTP port: decisions, forward-auth, health.
//!
//! Each request takes four steps: decode, select, spend, encode. An [`ApiError`] can end any of
//! them; it knows its status and its body.

mod api;
mod body;
mod forward_auth;
mod health;
mod host;
mod respond;
mod route;
mod timing;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use tollgate_gate::api::{ApiContext, ApiError};
use tollgate_gate::{ActiveConfig, Caller, Gate};
use tracing::Instrument as _;

pub(crate) use health::{Readiness, alive};
pub(crate) use host::expect_host;
pub(crate) use respond::{Body, json, problem};

use self::route::HttpRoute;

use crate::guard::{BrowserGuard, presented_token};
use crate::listen::{self, ClientConnection, Front};
use crate::traces;

/// The description of this port, in the `OpenAPI` format.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// Handles the requests of the HTTP port.
#[derive(Debug)]
pub(crate) struct HttpFront {
    gate: Arc<Gate>,
    readiness: Arc<Readiness>,
    /// Whether the port can be reached from this machine only.
    is_loopback: bool,
    untrusted_proxy: forward_auth::UntrustedProxyWarning,
}

impl HttpFront {
    /// The handler of a port with this address.
    pub(crate) fn new(gate: Arc<Gate>, readiness: Arc<Readiness>, address: SocketAddr) -> Self {
        Self {
            gate,
            readiness,
            is_loopback: address.ip().to_canonical().is_loopback(),
            untrusted_proxy: forward_auth::UntrustedProxyWarning::default(),
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
        };

        match route {
            HttpRoute::Api(operation) => {
                api::handle(operation, context, post(request)?, connection).await
            }
            HttpRoute::Batch => {
                Box::pin(api::handle_batch(context, post(request)?, connection)).await
            }
            HttpRoute::Alive => get(request).map(|()| alive()),
            HttpRoute::Ready => get(request).map(|()| self.readiness.response(gate)),
            HttpRoute::OpenApi => get(request).map(|()| {
                json(
                    hyper::StatusCode::OK,
                    Bytes::from_static(OPENAPI.as_bytes()),
                )
            }),
            HttpRoute::ForwardAuth => {
                let warning = &self.untrusted_proxy;
                Box::pin(forward_auth::handle(
                    gate, active, request, connection, warning,
                ))
                .await
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
        let route = HttpRoute::from_path(request.uri().path());
        // Spans are named after the route, so that the number of names is bounded.
        let span = traces::span(route.map_or("unknown", HttpRoute::path), request.headers());

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

        let response = result.unwrap_or_else(|error| problem(&error));
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
