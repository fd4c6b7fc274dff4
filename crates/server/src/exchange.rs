//! One HTTP/1.1 request to another server, on a connection of its own.

use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tollgate_load::ClientTls;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum ExchangeError {
    Connect(io::Error),
    Tls(io::Error),
    Http(#[from] hyper::Error),
}

/// Sends a request and returns the status and the body of the response; no body if it is incomplete
/// or larger than `body_max` bytes.
pub(crate) async fn exchange(
    (host, port): (&str, u16),
    tls: Option<&ClientTls>,
    request: Request<Full<Bytes>>,
    body_max: usize,
) -> Result<(StatusCode, Option<Bytes>), ExchangeError> {
    let stream = TcpStream::connect((host, port)).await;
    let stream = stream.map_err(ExchangeError::Connect)?;
    match tls {
        None => exchange_over(stream, request, body_max).await,
        Some(tls) => {
            let stream = tls.connect(host, stream).await;
            let stream = stream.map_err(ExchangeError::Tls)?;
            exchange_over(stream, request, body_max).await
        }
    }
}

async fn exchange_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    body_max: usize,
) -> Result<(StatusCode, Option<Bytes>), ExchangeError> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);

    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), body_max).collect().await;
    connection.abort();
    Ok((status, body.ok().map(Collected::to_bytes)))
}
