//! Envoy's rate limit protocol: its messages, and a gRPC server for them.
//!
//! - The messages and [`RateLimitService`], generated from the files in `proto`. Those hold only
//!   what Tollgate uses, with the names and numbers that Envoy 1.40 has built in.
//! - [`Services`]: everything the gRPC port answers, which is the rate limit service, health and
//!   reflection.
//!
//! This crate owns what goes over the wire. It must not know what a limit is, and it opens no port:
//! the server calls [`Services`] with each request that its own HTTP/2 connections bring.
//!
//! ```
//! use tollgate_envoy::tonic::{Request, Response, Status, async_trait};
//! use tollgate_envoy::{
//!     Code, HealthReporter, RateLimitRequest, RateLimitResponse, RateLimitService, Services,
//! };
//!
//! struct Generous;
//!
//! #[async_trait]
//! impl RateLimitService for Generous {
//!     async fn should_rate_limit(
//!         &self,
//!         _request: Request<RateLimitRequest>,
//!     ) -> Result<Response<RateLimitResponse>, Status> {
//!         let overall_code = Code::Ok.into();
//!         Ok(Response::new(RateLimitResponse { overall_code, ..Default::default() }))
//!     }
//! }
//!
//! let services = Services::new(Generous, HealthReporter::new());
//! ```

mod generated;
mod services;

/// The length of time that a [`DescriptorStatus`] carries.
pub use prost_types::Duration;
/// What an implementation of [`RateLimitService`] is written with.
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
pub use self::services::{Answer, Services};

/// The protocol described in its own terms: an encoded `google.protobuf.FileDescriptorSet`, as
/// reflection serves it.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/envoy.bin"));
