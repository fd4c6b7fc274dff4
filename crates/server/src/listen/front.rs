//! What a port serves: a protocol, a handler and the bounds that apply to it.

use std::sync::Arc;

use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use super::client_connection::ClientConnection;
use super::load::PortLoad;
use super::shutdown::ShutdownSignal;
use super::tls::PortTls;

/// Handles the requests of a port.
pub(crate) trait Front: Send + Sync + 'static {
    /// The body of responses.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Handles a request. Takes a slot from the connection once the request has arrived
    /// completely, unless it is a health probe.
    fn handle(
        &self,
        request: Request<Incoming>,
        connection: &Arc<ClientConnection>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
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
    pub(super) load: Arc<PortLoad>,
    pub(super) shutdown: ShutdownSignal,
}
