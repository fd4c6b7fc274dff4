//! Tollgate as Tower middleware: rate limits for [axum], hyper and tonic servers, and for the calls
//! of a client.
//!
//! Two lines make an application limit itself:
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter};
//! use tollgate_tower::{RateLimitLayer, by};
//!
//! let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, Duration::from_secs(60))]);
//! let layer = RateLimitLayer::new(&limiter, "api", by::client_address());
//! // let app = Router::new().route("/", get(hello)).layer(layer);
//! # let _ = layer;
//! ```
//!
//! # The way of a request
//!
//! request -> [`Head`] (what is known of it) -> [`by`] (who it counts for) -> one question to the
//! [`Limiter`](tollgate::Limiter) -> the application, or a [`Refusal`] -> [`Reply`] (what is given
//! back) -> fields that tell the client where it stands.
//!
//! - **Whom a limit counts for**: [`by`] has addresses behind trusted proxies, headers, users, path
//!   classes, bodies, any function and any combination. What happens without a key is always said.
//! - **Several limits** with [`and`](RateLimitLayer::and): all pass, or none is charged.
//! - **Tiers, costs, lists** by function: [`quota`](RateLimitLayer::quota),
//!   [`cost`](RateLimitLayer::cost), [`skip`](RateLimitLayer::skip),
//!   [`deny`](RateLimitLayer::deny), [`when`](RateLimitLayer::when).
//! - **Costs that the response decides**: [`refund_when`](RateLimitLayer::refund_when),
//!   [`settle`](RateLimitLayer::settle), [`settle_by_bill`](RateLimitLayer::settle_by_bill).
//! - **Queues and places**: queues hold requests back; places are held until the response's body
//!   has been sent. A client that goes away gives both back.
//! - **Calls to others**: [`outgoing`](RateLimitLayer::outgoing).
//!
//! # Features
//!
//! | feature | default | does |
//! |---|---|---|
//! | `axum` | | takes the peer's address from `ConnectInfo` |
//! | `tonic` | | takes the peer's address from `TcpConnectInfo` |
//! | `grpc` | yes | tells gRPC clients when to come back in the details of a status |
//! | `metrics` | | counts decisions through the `metrics` facade |
//!
//! No request body is read unless a [`ReadBodyLayer`] says so, and then up to its bound.
//!
//! [axum]: https://docs.rs/axum

mod answer;
mod bill;
mod body;
pub mod by;
mod future;
mod head;
mod held;
mod layer;
mod observe;
mod outgoing;
mod plan;
mod read_body;
pub mod reply;
mod service;
mod start;
mod visit;

pub use answer::fields::add as add_fields;
pub use answer::{Cause, Refusal};
pub use bill::{Bill, NotOnTheBill};
pub use body::ResponseBody;
pub use future::RateLimitFuture;
pub use head::{Head, Peer};
pub use layer::RateLimitLayer;
pub use outgoing::{Outgoing, OutgoingError, OutgoingLayer};
pub use read_body::{ReadBody, ReadBodyLayer};
pub use reply::Reply;
pub use service::RateLimit;
pub use tollgate_subject::{
    AddressError, ClientResolver, ClientResolverError, ForwardedBy, GlobError, Network,
    NetworkError,
};
