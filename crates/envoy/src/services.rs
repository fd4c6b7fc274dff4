//! Everything the gRPC port answers, by the path of the request.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, StdError};
use tonic::server::NamedService;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tonic_reflection::server::Builder;
use tower_service::Service;

use crate::{FILE_DESCRIPTOR_SET, RateLimitService, RateLimitServiceServer};

/// A request's headers are at most sixty kilobytes in Envoy, and few descriptors repeat all of
/// them. Nobody else may make the server hold more either.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What becomes of a request. It never fails: what goes wrong is a gRPC status.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The rate limit service, `grpc.health.v1`, and reflection in both its versions. Anything else is
/// not implemented.
///
/// It is a [`tower_service::Service`] of requests with any body, `hyper::body::Incoming` among
/// them. Where a function is wanted instead, as by hyper's `service_fn`, [`answer`](Self::answer)
/// does the same. A clone is a few counters.
pub struct Services<R> {
    rate_limit: RateLimitServiceServer<R>,
    health: HealthServer<HealthService>,
    reflection: Reflection,
}

/// The two versions of reflection. Their types have no names and they are seldom asked, so each is
/// a function.
#[derive(Clone)]
struct Reflection {
    v1: Erased,
    v1alpha: Erased,
}

/// A service together with the name it answers to.
#[derive(Clone)]
struct Erased {
    name: &'static str,
    answer: Arc<dyn Fn(Request<Body>) -> Answer + Send + Sync>,
}

impl<R: RateLimitService> Services<R> {
    /// The services around one that decides. What `health` is told is what health answers: the
    /// empty name stands for the whole server, `envoy.service.ratelimit.v3.RateLimitService` for
    /// the one service, which is not known before its first report.
    pub fn new(rate_limit: R, health: HealthReporter) -> Self {
        let health = HealthService::from_health_reporter(health);
        Self {
            rate_limit: RateLimitServiceServer::new(rate_limit)
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            health: HealthServer::new(health).max_decoding_message_size(MESSAGE_BYTES_MAX),
            reflection: Reflection::new(),
        }
    }

    /// What becomes of a request.
    pub fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: HttpBody<Data = prost::bytes::Bytes> + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let name = service_name(request.uri().path());
        if name == RateLimitServiceServer::<R>::NAME {
            self.rate_limit.clone().call(request)
        } else if name == HealthServer::<HealthService>::NAME {
            self.health.clone().call(request)
        } else if let Some(service) = self.reflection.find(name) {
            (service.answer)(request.map(Body::new))
        } else {
            Box::pin(std::future::ready(Ok(not_implemented(name))))
        }
    }
}

impl Reflection {
    fn new() -> Self {
        let v1 = describe()
            .build_v1()
            .expect("what the build described can be read");
        let v1alpha = describe()
            .build_v1alpha()
            .expect("what the build described can be read");
        Self {
            v1: Erased::new(v1.max_decoding_message_size(MESSAGE_BYTES_MAX)),
            v1alpha: Erased::new(v1alpha.max_decoding_message_size(MESSAGE_BYTES_MAX)),
        }
    }

    fn find(&self, name: &str) -> Option<&Erased> {
        [&self.v1, &self.v1alpha]
            .into_iter()
            .find(|service| service.name == name)
    }
}

impl Erased {
    fn new<S>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answer>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
    {
        Self {
            name: S::NAME,
            answer: Arc::new(move |request| service.clone().call(request)),
        }
    }
}

/// What reflection shows: this protocol, health, and, by itself, reflection.
fn describe() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// The service in a path of the form `/service/method`.
fn service_name(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/')
        .map_or(path, |(service, _method)| service)
}

fn not_implemented(name: &str) -> Response<Body> {
    Status::unimplemented(format!("there is no service {name:?} here")).into_http()
}

impl<R, B> Service<Request<B>> for Services<R>
where
    R: RateLimitService,
    B: HttpBody<Data = prost::bytes::Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Answer {
        self.answer(request)
    }
}

/// Not derived, because that would ask the same of what decides.
impl<R> Clone for Services<R> {
    fn clone(&self) -> Self {
        Self {
            rate_limit: self.rate_limit.clone(),
            health: self.health.clone(),
            reflection: self.reflection.clone(),
        }
    }
}

impl<R> fmt::Debug for Services<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Services").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::service_name;

    #[test]
    fn the_service_is_what_stands_between_the_first_two_slashes() {
        assert_eq!(
            service_name("/grpc.health.v1.Health/Check"),
            "grpc.health.v1.Health"
        );
        assert_eq!(service_name("/a/b/c"), "a");
        assert_eq!(service_name("/metrics"), "metrics");
        assert_eq!(
            (service_name("/"), service_name(""), service_name("*")),
            ("", "", "*")
        );
    }
}
