//! The HTTP port: decisions, forward-auth, health.
//!
//! Each request goes four steps: decode, select, spend, encode. What goes wrong on the way is a
//! [`ApiError`], which knows its status and its body.

mod api;
mod body;
mod error;
mod forward_auth;
mod health;
mod respond;
mod route;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use tracing::Instrument as _;

pub(crate) use body::{ATTRIBUTES_MAX, NamedAttributes, is_same_attribute};
pub(crate) use error::ApiError;
pub(crate) use health::{Readiness, alive};
pub(crate) use respond::{Body, json, problem};

use self::route::Route;
use crate::gate::Gate;
use crate::listen::Front;
use crate::traces;

/// The description of what this port answers.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// Answers the requests of the HTTP port.
#[derive(Debug)]
pub(crate) struct HttpFront {
    gate: Arc<Gate>,
    readiness: Arc<Readiness>,
    /// So that a proxy that nobody trusts is mentioned once.
    untrusted: forward_auth::Untrusted,
}

impl HttpFront {
    pub(crate) fn new(gate: Arc<Gate>, readiness: Arc<Readiness>) -> Self {
        Self {
            gate,
            readiness,
            untrusted: forward_auth::Untrusted::default(),
        }
    }

    /// Lends the request, because whoever held it would move it about.
    async fn route(
        &self,
        route: Option<Route>,
        request: &mut Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<Response<Body>, ApiError> {
        // What is asked less often is boxed, so that a check's future is as small as it can be.
        match route.ok_or_else(|| ApiError::not_found(request.uri().path()))? {
            Route::Check => api::check(&self.gate, post(request)?).await,
            Route::Peek => api::peek(&self.gate, post(request)?).await,
            Route::Refund => Box::pin(api::refund(&self.gate, post(request)?)).await,
            Route::Release => Box::pin(api::release(&self.gate, post(request)?)).await,
            Route::Alive => get(request).map(|()| alive()),
            Route::Ready => get(request).map(|()| self.readiness.answer(&self.gate)),
            Route::Description => get(request).map(|()| {
                json(
                    hyper::StatusCode::OK,
                    Bytes::from_static(OPENAPI.as_bytes()),
                )
            }),
            Route::ForwardAuth => {
                Box::pin(forward_auth::answer(
                    &self.gate,
                    request,
                    peer,
                    &self.untrusted,
                ))
                .await
            }
        }
    }
}

impl Front for HttpFront {
    type Body = Body;

    async fn answer(&self, mut request: Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let route = Route::of(request.uri().path());
        // What a request is called in traces is one of few names, whatever its path.
        let span = traces::span(route.map_or("unknown", Route::path), request.headers());
        let answered = if span.is_disabled() {
            self.route(route, &mut request, peer).await
        } else {
            // Apart, so that nobody else's future has room for it.
            Box::pin(
                self.route(route, &mut request, peer)
                    .instrument(span.clone()),
            )
            .await
        };
        let response = answered.unwrap_or_else(|fault| problem(&fault));
        traces::answered(&span, response.status());
        response
    }

    fn shed(&self) -> Response<Body> {
        problem(&ApiError::overloaded())
    }
}

fn post(request: &mut Request<Incoming>) -> Result<&mut Request<Incoming>, ApiError> {
    if request.method() == Method::POST {
        Ok(request)
    } else {
        Err(ApiError::method(request.method(), "POST"))
    }
}

pub(crate) fn get<B>(request: &Request<B>) -> Result<(), ApiError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        ref other => Err(ApiError::method(other, "GET, HEAD")),
    }
}
