//! Routes the requests of the gRPC port to their services.

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

use crate::{
    FILE_DESCRIPTOR_SET, RateLimitService, RateLimitServiceServer, ReservationService,
    ReservationServiceServer,
};

/// The maximum size of a message, in bytes. Envoy limits request headers to 60 KiB, and few
/// descriptors repeat all of them, so this leaves ample room.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The future of a response. It never fails: errors are gRPC statuses.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// The rate limit service, reservations, `grpc.health.v1`, and both versions of reflection. All
/// other requests get the status `UNIMPLEMENTED`.
///
/// This is a [`tower_service::Service`] for requests with any body, including
/// `hyper::body::Incoming`. [`handle`](Self::handle) does the same as a method, for example for
/// hyper's `service_fn`. Cloning is cheap.
pub struct Services<R> {
    rate_limit: RateLimitServiceServer<R>,
    reservations: Option<BoxedService>,
    health: HealthServer<HealthService>,
    reflection: Reflection,
}

/// The two versions of the reflection service. Their types cannot be named, so they are boxed; they
/// are rarely called, so the cost does not matter.
#[derive(Clone)]
struct Reflection {
    v1: BoxedService,
    v1alpha: BoxedService,
}

/// A type-erased gRPC service.
#[derive(Clone)]
struct BoxedService {
    /// The full name of the service, which is the first segment of the request path.
    name: &'static str,
    call: Arc<dyn Fn(Request<Body>) -> ResponseFuture + Send + Sync>,
}

impl<R: RateLimitService> Services<R> {
    /// Combines a rate limit service with health checks and reflection.
    ///
    /// Health checks return the status that was last set on `health`. The empty service name means
    /// the whole server. The status of `envoy.service.ratelimit.v3.RateLimitService` is unknown
    /// until it is first set.
    pub fn new(rate_limit: R, health: HealthReporter) -> Self {
        let health = HealthService::from_health_reporter(health);

        Self {
            rate_limit: RateLimitServiceServer::new(rate_limit)
                .max_decoding_message_size(MESSAGE_BYTES_MAX),
            reservations: None,
            health: HealthServer::new(health).max_decoding_message_size(MESSAGE_BYTES_MAX),
            reflection: Reflection::new(),
        }
    }

    /// Adds the service for reservations.
    #[must_use]
    pub fn with_reservations(mut self, service: impl ReservationService) -> Self {
        let server = ReservationServiceServer::new(service);
        let server = server.max_decoding_message_size(MESSAGE_BYTES_MAX);
        self.reservations = Some(BoxedService::new(server));
        self
    }

    /// Handles a request.
    pub fn handle<B>(&self, request: Request<B>) -> ResponseFuture
    where
        B: HttpBody<Data = prost::bytes::Bytes> + Send + 'static,
        B::Error: Into<StdError> + Send + 'static,
    {
        let name = service_name(request.uri().path());

        if name == RateLimitServiceServer::<R>::NAME {
            self.rate_limit.clone().call(request)
        } else if name == HealthServer::<HealthService>::NAME {
            self.health.clone().call(request)
        } else if let Some(service) = self.find_boxed(name) {
            (service.call)(request.map(Body::new))
        } else {
            Box::pin(std::future::ready(Ok(not_implemented(name))))
        }
    }

    fn find_boxed(&self, name: &str) -> Option<&BoxedService> {
        let Reflection { v1, v1alpha } = &self.reflection;
        self.reservations
            .iter()
            .chain([v1, v1alpha])
            .find(|service| service.name == name)
    }
}

impl Reflection {
    fn new() -> Self {
        let v1 = reflection_builder()
            .build_v1()
            .expect("the generated descriptor set is valid");
        let v1alpha = reflection_builder()
            .build_v1alpha()
            .expect("the generated descriptor set is valid");

        Self {
            v1: BoxedService::new(v1.max_decoding_message_size(MESSAGE_BYTES_MAX)),
            v1alpha: BoxedService::new(v1alpha.max_decoding_message_size(MESSAGE_BYTES_MAX)),
        }
    }
}

impl BoxedService {
    fn new<S>(service: S) -> Self
    where
        S: Service<
                Request<Body>,
                Response = Response<Body>,
                Error = Infallible,
                Future = ResponseFuture,
            > + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
    {
        Self {
            name: S::NAME,
            call: Arc::new(move |request| service.clone().call(request)),
        }
    }
}

/// A builder for reflection of both protocols and of health checks. Reflection adds itself.
fn reflection_builder() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// The service name in a path of the form `/service/method`.
fn service_name(path: &str) -> &str {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split_once('/')
        .map_or(path, |(service, _method)| service)
}

fn not_implemented(name: &str) -> Response<Body> {
    Status::unimplemented(format!("unknown service {name:?}")).into_http()
}

impl<R, B> Service<Request<B>> for Services<R>
where
    R: RateLimitService,
    B: HttpBody<Data = prost::bytes::Bytes> + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        self.handle(request)
    }
}

/// Not derived, because `derive` would require `R: Clone`.
impl<R> Clone for Services<R> {
    fn clone(&self) -> Self {
        Self {
            rate_limit: self.rate_limit.clone(),
            reservations: self.reservations.clone(),
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
    fn the_service_name_is_the_first_path_segment() {
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
