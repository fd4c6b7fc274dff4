//! Bare servers, which return a constant response without deciding anything: the upper bound of
//! what the same libraries can do. Each is a separate process.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use prost::Message as _;
use tokio::net::TcpListener;
use tollgate_envoy::{
    RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer,
};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::request::Protocol;
use super::response::RecordedResponse;
use crate::harness::server;

#[derive(Debug, clap::Args)]
pub(crate) struct BareArguments {
    /// A file with the response to return, written by `service`
    #[arg(long)]
    response: PathBuf,
}

/// Serves until it is killed.
pub(crate) fn run_bare(arguments: &BareArguments) -> io::Result<()> {
    let response = RecordedResponse::read(&arguments.response)?;
    server::serve(|listener| serve(listener, response))
}

async fn serve(listener: TcpListener, response: RecordedResponse) -> io::Result<()> {
    match response {
        RecordedResponse::Http {
            status,
            headers,
            body,
        } => {
            let status = StatusCode::from_u16(status).map_err(io::Error::other)?;
            let headers = HeaderMap::try_from(&headers).map_err(io::Error::other)?;
            let constant = Arc::new((status, headers, Bytes::from(body)));
            // Reads the whole body, as every server must, and ignores it.
            let repeat = async move |_body: Bytes| (*constant).clone();
            let routes = Router::new().route(Protocol::Http.path(), post(repeat));
            axum::serve(listener, routes).await
        }
        RecordedResponse::Grpc(message) => {
            let response =
                RateLimitResponse::decode(message.as_slice()).map_err(io::Error::other)?;
            let service = RateLimitServiceServer::new(ConstantRateLimit(response));
            // As tonic does when it opens the port itself.
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let served = Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await;
            served.map_err(io::Error::other)
        }
    }
}

struct ConstantRateLimit(RateLimitResponse);

#[tonic::async_trait]
impl RateLimitService for ConstantRateLimit {
    async fn should_rate_limit(
        &self,
        _request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        Ok(tonic::Response::new(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::SocketAddr;

    use super::super::call;
    use super::super::request::Case;
    use super::*;

    /// A bare server on a separate runtime, which ends with the value.
    fn start(response: RecordedResponse) -> (tokio::runtime::Runtime, SocketAddr) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, response));
        (runtime, addr)
    }

    #[test]
    fn the_recorded_response_is_returned_over_both_protocols() {
        let headers = HashMap::from([(
            "content-type".to_owned(),
            "application/problem+json".to_owned(),
        )]);
        let http = RecordedResponse::Http {
            status: 429,
            headers,
            body: "{}".to_owned(),
        };
        let grpc = RecordedResponse::shortest_grpc(Case::Denied.code());
        for (protocol, response) in [(Protocol::Http, http), (Protocol::Grpc, grpc)] {
            let (_runtime, addr) = start(response.clone());
            assert_eq!(call::ask(addr, protocol, Case::Denied).unwrap(), response);
            assert!(call::ask(addr, protocol, Case::Allowed).is_err());
        }
    }
}
