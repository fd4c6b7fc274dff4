//! One real call whose response is verified: the load generator sees neither bodies nor trailers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tollgate_envoy::{RateLimitRequest, RateLimitResponse};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::request::{Case, Protocol};
use super::response::RecordedResponse;
use crate::harness::callers::Runtime;
use crate::harness::server::post_json;

const PATIENCE: Duration = Duration::from_secs(5);

/// Spends what the case requires beforehand, then sends the same request as the load generator and
/// returns the response, which must be the one that the case expects.
pub(super) fn ask(
    server: SocketAddr,
    protocol: Protocol,
    case: Case,
) -> io::Result<RecordedResponse> {
    let call = |cost| match protocol {
        Protocol::Http => http(server, &case.json(cost)),
        Protocol::Grpc => grpc(server, case.message(cost)),
    };
    call(Some(case.spent_before()))?;
    let (is_allowed, response) = call(None)?;
    if is_allowed == case.is_allowed() {
        Ok(response)
    } else {
        Err(io::Error::other(format!(
            "unexpected response: {response:?}"
        )))
    }
}

fn http(server: SocketAddr, body: &str) -> io::Result<(bool, RecordedResponse)> {
    let response = post_json(server, Protocol::Http.path(), body);
    match response.status {
        200 | 429 => Ok((
            response.status == 200,
            RecordedResponse::from_http(&response),
        )),
        status => Err(io::Error::other(format!(
            "unexpected status {status}: {}",
            response.text()
        ))),
    }
}

fn grpc(server: SocketAddr, message: RateLimitRequest) -> io::Result<(bool, RecordedResponse)> {
    let response = Runtime::CurrentThread
        .build()?
        .block_on(unary(server, message))?;
    let is_allowed = response.overall_code() == tollgate_envoy::Code::Ok;
    Ok((is_allowed, RecordedResponse::from_grpc(&response)))
}

/// Tonic's own message omits the cause; the debug format has it.
fn explained(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}

async fn unary(server: SocketAddr, message: RateLimitRequest) -> io::Result<RateLimitResponse> {
    let endpoint = Endpoint::from_shared(format!("http://{server}")).map_err(io::Error::other)?;
    let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
    let mut client = Grpc::new(endpoint.connect().await.map_err(explained)?);
    client.ready().await.map_err(explained)?;
    let path = PathAndQuery::from_static(Protocol::Grpc.path());
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let response = client
        .unary(tonic::Request::new(message), path, codec)
        .await;
    Ok(response.map_err(io::Error::other)?.into_inner())
}
