//! What a port serves: a protocol, a handler and the bounds that apply to it.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use super::load::ServerLoad;
use super::shutdown::ShutdownSignal;
use super::tls::PortTls;

/// Handles the requests of a port.
pub(crate) trait Front: Send + Sync + 'static {
    /// The body of responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Handles a request that came from `peer`.
    fn handle(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The response when there are too many requests in flight.
    fn overloaded_response(&self) -> Response<Self::Body>;
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte on, without an upgrade ("prior knowledge"), as gRPC uses it.
    Http2,
}

/// A port, as its connections share it.
pub(super) struct Port<F> {
    pub(super) protocol: ListenProtocol,
    pub(super) tls: Arc<PortTls>,
    pub(super) front: Arc<F>,
    pub(super) load: Arc<ServerLoad>,
    pub(super) shutdown: ShutdownSignal,
}
