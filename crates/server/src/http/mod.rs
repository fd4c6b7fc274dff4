//! The HTTP port: decisions, forward-auth, health.
//!
//! Each request goes four steps: decode, select, spend, encode. What goes wrong on the way is a [`Fault`], which knows its
//! status and its body.

mod api;
mod body;
mod fault;
mod forward_auth;
mod health;
mod respond;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};

pub(crate) use body::{ATTRIBUTES_MAX, Named, same};
pub(crate) use fault::Fault;
pub(crate) use health::{Readiness, alive};
pub(crate) use respond::{Body, json, problem};

use crate::gate::Gate;
use crate::listen::Front;

/// The description of what this port answers.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// Where forward-auth begins; what follows is the path that Envoy asks about.
const FORWARD_AUTH: &str = "/v1/forward-auth";

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
        Self { gate, readiness, untrusted: forward_auth::Untrusted::default() }
    }

    async fn route(&self, request: Request<Incoming>, peer: SocketAddr) -> Result<Response<Body>, Fault> {
        let path = request.uri().path();
        match path {
            "/v1/check" => api::check(&self.gate, post(request)?).await,
            "/v1/peek" => api::peek(&self.gate, post(request)?).await,
            "/v1/refund" => api::refund(&self.gate, post(request)?).await,
            "/v1/release" => api::release(&self.gate, post(request)?).await,
            "/healthz" => get(&request).map(|()| alive()),
            "/readyz" => get(&request).map(|()| self.readiness.answer(&self.gate)),
            "/openapi.json" => {
                get(&request).map(|()| json(hyper::StatusCode::OK, Bytes::from_static(OPENAPI.as_bytes())))
            }
            _ => match path.strip_prefix(FORWARD_AUTH) {
                Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                    forward_auth::answer(&self.gate, &request, peer, &self.untrusted).await
                }
                _ => Err(Fault::not_found(path)),
            },
        }
    }
}

impl Front for HttpFront {
    type Body = Body;

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        self.route(request, peer).await.unwrap_or_else(|fault| problem(&fault))
    }

    fn shed(&self) -> Response<Body> {
        problem(&Fault::overloaded())
    }
}

fn post(request: Request<Incoming>) -> Result<Request<Incoming>, Fault> {
    if request.method() == Method::POST { Ok(request) } else { Err(Fault::method(request.method(), "POST")) }
}

pub(crate) fn get<B>(request: &Request<B>) -> Result<(), Fault> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        ref other => Err(Fault::method(other, "GET, HEAD")),
    }
}
