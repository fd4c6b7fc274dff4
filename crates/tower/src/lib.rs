//! Tollgate as Tower middleware: rate limits for [axum], hyper and tonic servers, and for outgoing
//! calls.
//!
//! Two lines rate limit an application:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//! use tollgate_tower::{RateLimitLayer, by};
//!
//! let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))])?;
//! let layer = RateLimitLayer::new(&limiter, "api", by::client_address());
//! // let app = Router::new().route("/", get(hello)).layer(layer);
//! # let _ = layer;
//! # Ok::<(), tollgate::Error>(())
//! ```
//!
//! # How a request is processed
//!
//! 1. The layer borrows the request without its body as a [`RequestHead`].
//! 2. The key extractors in [`by`] decide under which key each limit counts the request.
//! 3. The [`Limiter`](tollgate::Limiter) checks all limits of the layer together.
//! 4. An admitted request goes to the application. A denied one is answered with a [`Rejection`].
//! 5. The [`ResponseHead`] decides about refunds and the final cost.
//! 6. The layer adds `RateLimit` and `X-RateLimit-*` fields to the response.
//!
//! # What the layer can do
//!
//! - **Keys**: [`by`] has client addresses behind trusted proxies, headers, users, path classes,
//!   request bodies, functions, and tuples of these. A key that a request may lack needs an
//!   explicit fallback.
//! - **Several limits** with [`and`](RateLimitLayer::and): a request is charged to all of them or,
//!   if one denies it, to none.
//! - **Tiers, costs, allow and deny lists** by function: [`quota`](RateLimitLayer::quota),
//!   [`cost`](RateLimitLayer::cost), [`skip`](RateLimitLayer::skip),
//!   [`deny`](RateLimitLayer::deny), [`when`](RateLimitLayer::when).
//! - **Costs known after the fact**: [`refund_when`](RateLimitLayer::refund_when),
//!   [`settle`](RateLimitLayer::settle),
//!   [`settle_by_actual_cost`](RateLimitLayer::settle_by_actual_cost).
//! - **Queues and concurrency limits**: a request waits in the queue; a permit is held until the
//!   response body has been sent. If the client disconnects, both are released.
//! - **Outgoing calls**: [`outgoing`](RateLimitLayer::outgoing).
//!
//! # Features
//!
//! | feature | default | effect |
//! |---|---|---|
//! | `axum` | | reads the peer address from `ConnectInfo` or `MockConnectInfo` |
//! | `tonic` | | reads the peer address from `TcpConnectInfo` |
//! | `grpc` | yes | adds a `google.rpc.RetryInfo` to the status of rejected gRPC calls |
//! | `metrics` | | records decisions through the `metrics` facade |
//! | `tracing` | yes | logs decisions, outages and warnings through the `tracing` facade |
//!
//! Request bodies are read only by a [`ReadBodyLayer`], up to its maximum length.
//!
//! [axum]: https://docs.rs/axum

mod actual_cost;
mod admission;
mod background;
pub mod by;
mod future;
mod layer;
mod limit;
mod observe;
mod outgoing;
mod permit_guard;
mod policy;
mod read_body;
mod rejection;
mod request_head;
pub mod response;
mod response_body;
mod service;
mod settle_call;
mod settlement;

pub use actual_cost::{ActualCost, ActualCostError};
pub use future::RateLimitFuture;
pub use layer::RateLimitLayer;
pub use outgoing::{OutgoingError, OutgoingLayer, OutgoingService};
pub use read_body::{ReadBody, ReadBodyLayer};
pub use rejection::{Rejection, RejectionCause};
pub use request_head::{Peer, RequestHead};
pub use response::ResponseHead;
pub use response_body::ResponseBody;
pub use service::RateLimit;
pub use tollgate_http::EnabledFields;
pub use tollgate_subject::{
    AddressError, Case, ClientResolver, ClientResolverError, ForwardedBy, Glob, GlobError, Network,
    NetworkError, PathReadings,
};

// Its code blocks are those of tests/examples/page, because some of them would serve forever.
#[cfg(all(doc, not(doctest)))]
#[doc = include_str!("../guide/tower.md")]
pub mod guide {}

/// The pages of the repository and of this crate, whose code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../README.md")]
mod readme {}
