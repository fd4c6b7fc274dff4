//! Servers that answer without deciding: the most that the same libraries can do here. Each is a
//! process of its own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::routing::post;
use prost::Message as _;
use tokio::net::TcpListener;
use tollgate_envoy::{
    RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer,
};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::answer::Answer;
use super::question::Protocol;

/// What comes before the address, on standard output.
pub(super) const ANNOUNCED: &str = "listening";

#[derive(Debug, clap::Args)]
pub(crate) struct BareArguments {
    /// What to answer, in a file that `service` wrote.
    #[arg(long)]
    answer: PathBuf,
}

/// Answers until it is killed.
pub(crate) fn run_bare(arguments: &BareArguments) -> io::Result<()> {
    let answer = Answer::read(&arguments.answer)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        println!("{ANNOUNCED} {}", listener.local_addr()?);
        serve(listener, answer).await
    })
}

async fn serve(listener: TcpListener, answer: Answer) -> io::Result<()> {
    match answer {
        Answer::Http {
            status,
            headers,
            body,
        } => {
            let constant = Arc::new(Constant {
                status: StatusCode::from_u16(status).map_err(io::Error::other)?,
                headers: header_map(&headers)?,
                body: body.into(),
            });
            let routes = Router::new()
                .route(Protocol::Http.path(), post(repeat))
                .with_state(constant);
            axum::serve(listener, routes).await
        }
        Answer::Grpc(message) => {
            let response =
                RateLimitResponse::decode(message.as_slice()).map_err(io::Error::other)?;
            let service = RateLimitServiceServer::new(Repeating(response));
            // As tonic has it when it opens the port itself.
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let served = Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await;
            served.map_err(io::Error::other)
        }
    }
}

struct Constant {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Takes the whole body, as everybody has to, and looks at none of it.
async fn repeat(
    State(answer): State<Arc<Constant>>,
    _body: Bytes,
) -> (StatusCode, HeaderMap, Bytes) {
    (answer.status, answer.headers.clone(), answer.body.clone())
}

fn header_map(headers: &[(String, String)]) -> io::Result<HeaderMap> {
    let parsed = headers.iter().map(|(name, value)| {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(io::Error::other)?;
        Ok((
            name,
            HeaderValue::from_str(value).map_err(io::Error::other)?,
        ))
    });
    parsed.collect()
}

struct Repeating(RateLimitResponse);

#[tonic::async_trait]
impl RateLimitService for Repeating {
    async fn should_rate_limit(
        &self,
        _request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, tonic::Status> {
        Ok(tonic::Response::new(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::call;
    use super::super::question::Case;
    use super::*;

    /// A bare server on a runtime of its own, which ends with the value.
    fn start(answer: Answer) -> (tokio::runtime::Runtime, SocketAddr) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        runtime.spawn(serve(listener, answer));
        (runtime, addr)
    }

    #[test]
    fn what_was_recorded_is_answered_over_either_protocol() {
        let headers = vec![(
            "content-type".to_owned(),
            "application/problem+json".to_owned(),
        )];
        let http = Answer::Http {
            status: 429,
            headers,
            body: "{}".to_owned(),
        };
        let grpc = Answer::shortest_grpc(Case::Denied.code());
        for (protocol, answer) in [(Protocol::Http, http), (Protocol::Grpc, grpc)] {
            let (_runtime, addr) = start(answer.clone());
            assert_eq!(call::ask(addr, protocol, Case::Denied).unwrap(), answer);
            assert!(call::ask(addr, protocol, Case::Allowed).is_err());
        }
    }
}
