//! Bare servers, which return a constant response without deciding anything: the upper bound of
//! what the same libraries can do. Each is a separate process.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use prost::Message as _;
use serde::{Deserialize, Serialize};
use testkit::reverse_proxy::Response;
use tokio::net::TcpListener;
use tollgate_envoy::{
    Code, DescriptorStatus, RateLimitRequest, RateLimitResponse, RateLimitService,
    RateLimitServiceServer,
};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::request::Protocol;
use crate::harness::prelude::{self, *};

#[derive(Debug, clap::Args)]
pub(crate) struct BareArguments {
    /// The response to return, as JSON of `service`
    response: String,
}

/// Serves until it is killed.
pub(crate) fn run_bare(arguments: &BareArguments) -> Result<()> {
    let response = serde_json::from_str(&arguments.response)?;
    prelude::serve(|listener| serve(listener, response))
}

async fn serve(listener: TcpListener, response: RecordedResponse) -> Result<()> {
    match response {
        RecordedResponse::Http {
            status,
            headers,
            body,
        } => {
            let status = StatusCode::from_u16(status)?;
            let headers = HeaderMap::try_from(&headers)?;
            let constant = Arc::new((status, headers, Bytes::from(body)));
            // Reads the whole body, as every server must, and ignores it.
            let repeat = async move |_body: Bytes| (*constant).clone();
            let routes = Router::new().route(Protocol::Http.path(), post(repeat));
            Ok(axum::serve(listener, routes).await?)
        }
        RecordedResponse::Grpc(message) => {
            let response = RateLimitResponse::decode(&*message)?;
            let service = RateLimitServiceServer::new(ConstantRateLimit(response));
            // As tonic does when it opens the port itself.
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder().add_service(service);
            Ok(server.serve_with_incoming(incoming).await?)
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

/// Headers that HTTP servers add themselves.
const ADDED: [&str; 3] = ["connection", "content-length", "date"];

/// A response in the form that is passed to a bare server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) enum RecordedResponse {
    Http {
        status: u16,
        headers: HashMap<String, String>,
        body: String,
    },
    /// An encoded message of Envoy's protocol.
    Grpc(Vec<u8>),
}

impl RecordedResponse {
    pub(super) fn from_http(response: &Response) -> Self {
        let mut headers: HashMap<_, _> = response.headers.iter().cloned().collect();
        headers.retain(|name, _| !ADDED.contains(&name.as_str()));
        Self::Http {
            status: response.status,
            headers,
            body: response.text(),
        }
    }

    pub(super) fn from_grpc(response: &RateLimitResponse) -> Self {
        Self::Grpc(response.encode_to_vec())
    }

    /// The shortest gRPC response with this code.
    fn shortest_grpc(code: Code) -> Self {
        let status = DescriptorStatus {
            code: code.into(),
            ..Default::default()
        };
        Self::from_grpc(&RateLimitResponse {
            overall_code: code.into(),
            statuses: vec![status],
            ..Default::default()
        })
    }

    /// The same response without rate limit details: over HTTP no header except the content type;
    /// over gRPC only the codes.
    pub(super) fn without_details(&self) -> Result<Self> {
        let mut shortest = self.clone();
        match &mut shortest {
            Self::Http { headers, .. } => headers.retain(|name, _| name == "content-type"),
            Self::Grpc(message) => {
                let message = RateLimitResponse::decode(&**message)?;
                shortest = Self::shortest_grpc(message.overall_code());
            }
        }
        Ok(shortest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::SocketAddr;

    use super::super::request::{Case, Exchange};
    use super::super::servers::ask;
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
        let grpc = RecordedResponse::shortest_grpc(Code::OverLimit);
        for (protocol, response) in [(Protocol::Http, http), (Protocol::Grpc, grpc)] {
            let (_runtime, addr) = start(response.clone());
            let ask = |case| ask(addr, Exchange { protocol, case });
            assert_eq!(ask(Case::Denied).unwrap(), response);
            assert!(ask(Case::Allowed).is_err());
        }
    }

    #[test]
    fn headers_added_by_the_server_are_not_recorded() {
        let header = |name: &str| (name.to_owned(), "x".to_owned());
        let names = ["content-type", "ratelimit", "date", "content-length"];
        let response = Response {
            status: 200,
            headers: names.map(header).to_vec(),
            body: b"{}".to_vec(),
        };
        let response = RecordedResponse::from_http(&response);
        let body = || "{}".to_owned();
        let headers = HashMap::from([header("content-type"), header("ratelimit")]);
        assert_eq!(
            response,
            RecordedResponse::Http {
                status: 200,
                headers,
                body: body()
            }
        );
        let headers = HashMap::from([header("content-type")]);
        assert_eq!(
            response.without_details().unwrap(),
            RecordedResponse::Http {
                status: 200,
                headers,
                body: body()
            }
        );
    }

    #[test]
    fn the_shortest_grpc_response_keeps_the_code() {
        let message = RateLimitResponse {
            overall_code: Code::OverLimit.into(),
            raw_body: vec![7; 100].into(),
            ..Default::default()
        };
        let without_details = RecordedResponse::from_grpc(&message)
            .without_details()
            .unwrap();
        assert_eq!(
            without_details,
            RecordedResponse::shortest_grpc(Code::OverLimit)
        );
    }

    #[test]
    fn a_response_survives_json() {
        let response = RecordedResponse::shortest_grpc(Code::Ok);
        let json = serde_json::to_string(&response).unwrap();
        assert_eq!(
            serde_json::from_str::<RecordedResponse>(&json).unwrap(),
            response
        );
    }
}
