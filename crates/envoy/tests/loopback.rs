//! Calls the services over a real HTTP/2 connection with hand-made gRPC frames.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers are test code, too"
)]

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tollgate_envoy::tonic::{self, Response, Status, async_trait};
use tollgate_envoy::{
    Code, HealthReporter, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
    RateLimitService, Services, ServingStatus,
};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// The length of the prefix of a gRPC frame: the compression flag and the message length.
const PREFIX_BYTES: usize = 5;

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const CHECK: &str = "/grpc.health.v1.Health/Check";

/// Denies all domains except `friends`, and rejects requests without descriptors.
#[derive(Debug)]
struct TestService;

#[async_trait]
impl RateLimitService for TestService {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        if request.descriptors.is_empty() {
            return Err(Status::invalid_argument("no descriptors"));
        }

        let code = if request.domain == "friends" {
            Code::Ok
        } else {
            Code::OverLimit
        };

        Ok(Response::new(RateLimitResponse {
            overall_code: code.into(),
            ..Default::default()
        }))
    }
}

/// The messages and the status code of a call.
#[derive(Debug)]
struct CallReply {
    messages: Vec<Bytes>,
    status: String,
}

struct Client(SendRequest<Full<Bytes>>);

impl Client {
    /// Starts a server that lives as long as the test's runtime, and connects to it.
    async fn start(health: HealthReporter) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let services = TowerToHyperService::new(Services::new(TestService, health));
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            server
                .serve_connection(TokioIo::new(stream), services)
                .await
        });

        let stream = TokioIo::new(TcpStream::connect(addr).await.unwrap());
        let (client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
                .await
                .unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    async fn call(&mut self, path: &str, message: &impl Message) -> CallReply {
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(message.encoded_len().try_into().unwrap());
        message.encode(&mut frame).unwrap();
        let request = Request::post(format!("http://tollgate{path}"));
        let request = request
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let request = request.body(Full::new(frame.freeze())).unwrap();

        let (head, body) = self.0.send_request(request).await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], "application/grpc");
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned();
        let status = trailers
            .as_ref()
            .and_then(status)
            .or_else(|| status(&head.headers));
        CallReply {
            messages: messages(body.to_bytes()),
            status: status.unwrap(),
        }
    }

    async fn services(&mut self, version: &str) -> Vec<String> {
        // Both versions have the same messages and differ only in the service name.
        use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
        use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

        let list = Some(MessageRequest::ListServices(String::new()));
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: list,
        };
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let reply = self.call(&path, &request).await;
        let response: ServerReflectionResponse = reply.only();
        let Some(MessageResponse::ListServicesResponse(list)) = response.message_response else {
            panic!("{response:?}")
        };
        list.service
            .into_iter()
            .map(|service| service.name)
            .collect()
    }
}

impl CallReply {
    /// The only message of a successful call.
    fn only<M: Message + Default>(&self) -> M {
        assert_eq!(
            (self.messages.len(), self.status.as_str()),
            (1, "0"),
            "{self:?}"
        );
        M::decode(self.messages[0].clone()).unwrap()
    }
}

fn status(headers: &HeaderMap) -> Option<String> {
    headers
        .get("grpc-status")
        .map(|status| status.to_str().unwrap().to_owned())
}

fn messages(mut body: Bytes) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while body.len() >= PREFIX_BYTES {
        assert_eq!(
            body.get_u8(),
            0,
            "a compressed message that was not requested"
        );
        let length = body.get_u32();
        messages.push(body.split_to(length.try_into().unwrap()));
    }

    assert!(body.is_empty());
    messages
}

fn request(domain: &str) -> RateLimitRequest {
    let descriptors = vec![RateLimitDescriptor::default()];
    RateLimitRequest {
        domain: domain.into(),
        descriptors,
        ..Default::default()
    }
}

#[tokio::test]
async fn decisions_reach_the_client() {
    let mut client = Client::start(HealthReporter::new()).await;
    for (domain, code) in [("friends", Code::Ok), ("strangers", Code::OverLimit)] {
        let response: RateLimitResponse = client
            .call(SHOULD_RATE_LIMIT, &request(domain))
            .await
            .only();
        assert_eq!(response.overall_code(), code);
    }

    let reply = client
        .call(SHOULD_RATE_LIMIT, &RateLimitRequest::default())
        .await;
    assert_eq!(
        reply.status,
        (tonic::Code::InvalidArgument as i32).to_string()
    );
}

#[tokio::test]
async fn a_message_that_is_too_large_is_rejected() {
    let mut client = Client::start(HealthReporter::new()).await;
    let reply = client
        .call(SHOULD_RATE_LIMIT, &request(&"x".repeat(1 << 20)))
        .await;

    assert_eq!(reply.status, (tonic::Code::OutOfRange as i32).to_string());

    let response: RateLimitResponse = client
        .call(SHOULD_RATE_LIMIT, &request("friends"))
        .await
        .only();

    assert_eq!(response.overall_code(), Code::Ok);
}

#[tokio::test]
async fn health_checks_return_the_last_status() {
    let health = HealthReporter::new();
    let mut client = Client::start(health.clone()).await;
    let whole = HealthCheckRequest::default();

    for status in [ServingStatus::NotServing, ServingStatus::Serving] {
        health.set_service_status("", status).await;
        let response: HealthCheckResponse = client.call(CHECK, &whole).await.only();
        assert_eq!(
            response.status,
            tonic_health::pb::health_check_response::ServingStatus::from(status) as i32
        );
    }

    let other = HealthCheckRequest {
        service: "no.such.Service".into(),
    };
    let reply = client.call(CHECK, &other).await;

    assert_eq!(reply.status, (tonic::Code::NotFound as i32).to_string());
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let mut client = Client::start(HealthReporter::new()).await;
    for version in ["v1", "v1alpha"] {
        let mut services = client.services(version).await;
        services.sort();
        let reflection = format!("grpc.reflection.{version}.ServerReflection");
        let expected = [
            "envoy.service.ratelimit.v3.RateLimitService",
            "grpc.health.v1.Health",
            reflection.as_str(),
            "kuadrant.service.ratelimit.v1.RateLimitService",
        ];
        assert_eq!(services, expected);
    }
}

#[tokio::test]
async fn unknown_paths_are_unimplemented() {
    let mut client = Client::start(HealthReporter::new()).await;
    let other_method = "/envoy.service.ratelimit.v3.RateLimitService/Other";

    for path in [
        "/",
        "/metrics",
        "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
        other_method,
        // This server has no reservations.
        "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve",
    ] {
        let reply = client.call(path, &request("friends")).await;
        assert_eq!(
            reply.status,
            (tonic::Code::Unimplemented as i32).to_string(),
            "{path}"
        );
        assert!(reply.messages.is_empty());
    }
}
