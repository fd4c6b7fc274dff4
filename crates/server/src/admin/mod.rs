//! The admin port: the dashboard, the admin API and the metrics page.
//!
//! Every request is authorised (`guard`), routed and answered. The port keeps no state besides the
//! dashboard's: responses are built from the service at the time of the request. Errors are
//! [`ApiError`]s, as on the HTTP port.

mod dashboard;
mod guard;
mod keys;
mod limits;
mod metrics;
mod query;
mod reload;
mod status;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use self::dashboard::AdminBody;
pub(crate) use self::dashboard::{Dashboard, watch};
use self::guard::AdminGuard;
use crate::http::{ApiError, Body, alive, get, json, problem};
use crate::listen::{Front, ServerLoad};
use crate::serve::Service;

/// The most connections to the admin port.
const CONNECTIONS_MAX: usize = 256;
/// The most requests in flight on the admin port.
const IN_FLIGHT_MAX: usize = 64;

/// The handler of the admin port.
#[derive(Debug)]
pub(crate) struct AdminFront {
    service: Arc<Service>,
    guard: AdminGuard,
}

/// The admin port's own connection and request limits, so that operators get in when clients have
/// used up those of the service.
pub(crate) fn admin_load(service_load: &ServerLoad) -> Arc<ServerLoad> {
    service_load.with_limits(CONNECTIONS_MAX, IN_FLIGHT_MAX)
}

impl AdminFront {
    /// Creates the handler. With a `token`, requests must carry it.
    pub(crate) fn new(service: Arc<Service>, token: Option<String>) -> Self {
        Self {
            service,
            guard: AdminGuard::new(token),
        }
    }

    async fn route(&self, request: &Request<Incoming>) -> Result<Response<Body>, ApiError> {
        let service = &*self.service;
        let path = request.uri().path();

        // Health probes need neither a token nor a known host name.
        match path {
            "/healthz" => return get(request).map(|()| alive()),
            "/readyz" => return get(request).map(|()| service.readiness.response(&service.gate)),
            _ => {}
        }

        if let Some(file) = dashboard::file(path) {
            self.guard.authorize_page(request)?;
            return get(request).map(|()| file);
        }

        self.guard.authorize(request)?;
        match path {
            "/metrics" => get(request).and_then(|()| metrics::respond(service)),
            "/admin/limits" => get(request).map(|()| limits::respond(service)),
            "/admin/status" => get(request).map(|()| status::respond(service)),
            "/admin/keys" => match *request.method() {
                Method::GET | Method::HEAD => keys::show(service, request).await,
                Method::DELETE => keys::reset(service, request).await,
                ref other => Err(ApiError::method_not_allowed(other, "GET, HEAD, DELETE")),
            },
            "/admin/reload" => match *request.method() {
                Method::POST => reload::respond(service).await,
                ref other => Err(ApiError::method_not_allowed(other, "POST")),
            },
            _ => Err(ApiError::admin_not_found(path)),
        }
    }

    fn events(&self, request: &Request<Incoming>) -> Result<Response<AdminBody>, ApiError> {
        self.guard.authorize_events(request)?;
        match *request.method() {
            Method::GET => dashboard::events(&self.service),
            ref other => Err(ApiError::method_not_allowed(other, "GET")),
        }
    }
}

impl Front for AdminFront {
    type Body = AdminBody;

    async fn handle(&self, request: Request<Incoming>, _peer: SocketAddr) -> Response<AdminBody> {
        let result = match request.uri().path() {
            "/admin/events" => self.events(&request),
            _ => self
                .route(&request)
                .await
                .map(|response| response.map(AdminBody::from)),
        };
        let mut response = result.unwrap_or_else(|error| problem(&error).map(AdminBody::from));

        let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
        let headers = response.headers_mut();
        // Responses change from second to second and may be for authorised clients only.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if is_unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn overloaded_response(&self) -> Response<AdminBody> {
        problem(&ApiError::overloaded()).map(AdminBody::from)
    }
}

/// A 200 response with `body` as JSON.
fn json_ok(body: &impl Serialize) -> Response<Body> {
    // Structs of text, numbers and lists never fail to serialise.
    json(StatusCode::OK, serde_json::to_vec(body).unwrap_or_default())
}

/// A time or a duration in whole milliseconds, rounded down.
const fn millis(time: tollgate::Micros) -> u64 {
    time.get() / 1_000
}
