//! Sends batches of spans to the collector, on the runtime of the service: the exporter's own
//! thread has none.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// How long a batch may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const ANSWER_MAX: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Collector {
    runtime: Handle,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            runtime: Handle::current(),
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
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
        .ok_or("the collector's address has no host")?
        .clone();
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    head.headers
        .insert(HOST, HeaderValue::from_str(authority.as_str())?);
    head.uri = head
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .parse()?;
    let answer = sender
        .send_request(Request::from_parts(head, Full::new(body)))
        .await?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}
