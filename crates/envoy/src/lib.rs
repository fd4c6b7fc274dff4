//! Envoy's rate limit protocol and Kuadrant's reservations: their messages and gRPC services.
//!
//! - The messages, [`RateLimitService`] and [`ReservationService`] are generated from the files in
//!   `proto`. Those contain only what Tollgate uses, with the names and field numbers of Envoy 1.40
//!   and of Kuadrant's RFC 0021.
//! - [`Services`] handles all requests of the gRPC port: the rate limit service, reservations,
//!   health checks and reflection.
//!
//! This crate defines the wire format. It knows nothing of limits and opens no port: the server
//! passes each HTTP/2 request to [`Services`].
//!
//! ```
//! use tollgate_envoy::tonic::{Request, Response, Status, async_trait};
//! use tollgate_envoy::{
//!     Code, HealthReporter, RateLimitRequest, RateLimitResponse, RateLimitService, Services,
//! };
//!
//! struct AllowAll;
//!
//! #[async_trait]
//! impl RateLimitService for AllowAll {
//!     async fn should_rate_limit(
//!         &self,
//!         _request: Request<RateLimitRequest>,
//!     ) -> Result<Response<RateLimitResponse>, Status> {
//!         let overall_code = Code::Ok.into();
//!         Ok(Response::new(RateLimitResponse { overall_code, ..Default::default() }))
//!     }
//! }
//!
//! let services = Services::new(AllowAll, HealthReporter::new());
//! ```

mod generated;
mod services;

/// The duration type of [`DescriptorStatus`] and [`ReserveRequest`].
pub use prost_types::Duration;
/// The gRPC library that [`RateLimitService`] is defined with.
pub use tonic;
pub use tonic_health::ServingStatus;
pub use tonic_health::server::HealthReporter;

pub use self::generated::envoy::config::core::v3::HeaderValue;
pub use self::generated::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub use self::generated::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
pub use self::generated::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
pub use self::generated::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
pub use self::generated::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
pub use self::generated::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
pub use self::generated::envoy::r#type::v3::RateLimitUnit;
/// Kuadrant's `RateLimitService`, by another name than Envoy's.
pub use self::generated::kuadrant::service::ratelimit::v1::rate_limit_service_server::{
    RateLimitService as ReservationService, RateLimitServiceServer as ReservationServiceServer,
};
pub use self::generated::kuadrant::service::ratelimit::v1::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
};
pub use self::services::{ResponseFuture, Services};

/// The encoded `google.protobuf.FileDescriptorSet` of both protocols, which reflection serves.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/envoy.bin"));
