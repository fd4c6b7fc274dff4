//! Sends batches of spans to the collector. Runs on the service's Tokio runtime, because the
//! exporter's own thread has none.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// How long sending a batch may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a response that are read.
const RESPONSE_MAX: usize = 64 * 1024;

/// An HTTP client for the exporter; opens a connection for each batch.
#[derive(Clone, Debug)]
pub(super) struct CollectorClient {
    runtime: Handle,
}

impl CollectorClient {
    pub(super) fn new() -> Self {
        Self {
            runtime: Handle::current(),
        }
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        self.runtime
            .spawn(async { tokio::time::timeout(TIMEOUT, send(request)).await? })
            .await?
    }
}

async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut head, body) = request.into_parts();
    let authority = head
        .uri
        .authority()
        .ok_or("the collector's URL has no host")?
        .clone();

    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);

    // A request to a server has its host in a header and only the path in its first line.
    head.headers
        .insert(HOST, HeaderValue::from_str(authority.as_str())?);
    head.uri = head
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .parse()?;

    let request = Request::from_parts(head, Full::new(body));
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, RESPONSE_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}
