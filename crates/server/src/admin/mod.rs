//! The admin port: what operators look at, reset and reload.
//!
//! Each request goes three steps: may it ask (`guard`), what it asks, the answer. Owns no state:
//! everything shown is read from the service at the moment of the question. What goes wrong is a
//! [`ApiError`], as on the HTTP port.

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
use self::guard::Guard;
use crate::http::{ApiError, Body, alive, get, json, problem};
use crate::listen::{Front, ServerLoad};
use crate::serve::Service;

/// The most connections of operators and their programs.
const CONNECTIONS_MAX: usize = 256;
/// The most of their requests at once.
const IN_FLIGHT_MAX: usize = 64;

/// Answers the requests of the admin port.
#[derive(Debug)]
pub(crate) struct AdminFront {
    service: Arc<Service>,
    guard: Guard,
}

/// Room of its own, so that an operator gets in when clients have filled the service.
pub(crate) fn load(of_clients: &ServerLoad) -> Arc<ServerLoad> {
    of_clients.with_limits(CONNECTIONS_MAX, IN_FLIGHT_MAX)
}

impl AdminFront {
    /// A front that wants this token, or none.
    pub(crate) fn new(service: Arc<Service>, token: Option<String>) -> Self {
        Self {
            service,
            guard: Guard::new(token),
        }
    }

    async fn route(&self, request: &Request<Incoming>) -> Result<Response<Body>, ApiError> {
        let service = &*self.service;
        let path = request.uri().path();
        match path {
            "/healthz" => return get(request).map(|()| alive()),
            "/readyz" => return get(request).map(|()| service.readiness.answer(&service.gate)),
            _ => {}
        }
        if let Some(file) = dashboard::file(path) {
            self.guard.admit_to_page(request)?;
            return get(request).map(|()| file);
        }
        self.guard.admit(request)?;
        match path {
            "/metrics" => get(request).and_then(|()| metrics::answer(service)),
            "/admin/limits" => get(request).map(|()| limits::answer(service)),
            "/admin/status" => get(request).map(|()| status::answer(service)),
            "/admin/keys" => match *request.method() {
                Method::GET | Method::HEAD => keys::look(service, request).await,
                Method::DELETE => keys::reset(service, request).await,
                ref other => Err(ApiError::method_not_allowed(other, "GET, HEAD, DELETE")),
            },
            "/admin/reload" => match *request.method() {
                Method::POST => reload::answer(service).await,
                ref other => Err(ApiError::method_not_allowed(other, "POST")),
            },
            _ => Err(ApiError::admin_not_found(path)),
        }
    }

    fn events(&self, request: &Request<Incoming>) -> Result<Response<AdminBody>, ApiError> {
        self.guard.admit_to_events(request)?;
        match *request.method() {
            Method::GET => dashboard::events(&self.service),
            ref other => Err(ApiError::method_not_allowed(other, "GET")),
        }
    }
}

impl Front for AdminFront {
    type Body = AdminBody;

    async fn answer(&self, request: Request<Incoming>, _peer: SocketAddr) -> Response<AdminBody> {
        let answer = match request.uri().path() {
            "/admin/events" => self.events(&request),
            _ => self
                .route(&request)
                .await
                .map(|response| response.map(AdminBody::from)),
        };
        let mut response = answer.unwrap_or_else(|fault| problem(&fault).map(AdminBody::from));
        let is_refused = response.status() == StatusCode::UNAUTHORIZED;
        let headers = response.headers_mut();
        // True for a moment, and for whoever asked.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if is_refused {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }

    fn shed(&self) -> Response<AdminBody> {
        problem(&ApiError::overloaded()).map(AdminBody::from)
    }
}

/// A body of this.
fn shown(body: &impl Serialize) -> Response<Body> {
    // Structs of text, numbers and lists never fail to serialise.
    json(StatusCode::OK, serde_json::to_vec(body).unwrap_or_default())
}

/// A moment, or a length of time, in whole milliseconds.
const fn millis(time: tollgate::Micros) -> u64 {
    time.get() / 1_000
}
