//! What a port serves: a protocol, a handler and the bounds that apply to it.

use std::sync::Arc;

use http_body::Body;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};

use tokio::sync::Notify;

use super::client_connection::ClientConnection;
use super::load::PortLoad;
use super::monitored_stream::MonitoredStream;
use super::shutdown::ShutdownSignal;
use super::tls::{PortTls, ServerStream};

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

/// Answers the commands of a port that does not speak HTTP.
pub(crate) trait StreamFront: Send + Sync + 'static {
    /// Serves a connection until the client ends it, breaks the protocol, or `closing` is notified
    /// while no command is in flight. Returns the stream, which is then shut down.
    fn serve(
        &self,
        stream: MonitoredStream,
        connection: &Arc<ClientConnection>,
        closing: &Notify,
    ) -> impl Future<Output = MonitoredStream> + Send;
}

/// Serves the connections that a port accepts.
pub(crate) trait ConnectionServer: Sized + Send + Sync + 'static {
    /// Serves a connection from its first byte to its end.
    fn serve(
        port: &Arc<Port<Self>>,
        stream: ServerStream,
        connection: Arc<ClientConnection>,
    ) -> impl Future<Output = ()> + Send;
}

/// A front that reads and writes the stream itself.
#[derive(Debug)]
pub(crate) struct StreamPort<F>(pub(crate) F);

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 from the first byte on, without an upgrade ("prior knowledge"), as gRPC uses it.
    Http2,
    /// The protocol of Redis.
    Resp,
}

/// A port, as its connections share it.
pub(crate) struct Port<F> {
    pub(super) protocol: ListenProtocol,
    pub(super) tls: Arc<PortTls>,
    pub(super) front: Arc<F>,
    pub(super) load: Arc<PortLoad>,
    pub(super) shutdown: ShutdownSignal,
}
