//! Tollgate's decisions over HTTP: header fields, JSON bodies and problem documents.
//!
//! The Tower middleware (`tollgate-tower`) and the service use this crate, and so can any other
//! server that has the types of the [`http`] crate. It defines the spelling, the order and the
//! rounding of every field and member. Times are rounded up, so that a client which waits as long as
//! reported is never early. Shadow limits do not affect the client: header fields omit them, and
//! bodies list them with a mark.
//!
//! | a decision as | type |
//! |---|---|
//! | `RateLimit`, `X-RateLimit-*` and `Retry-After` header fields, and those of language model APIs | [`Fields`], chosen by [`EnabledFields`] |
//! | the JSON body of an allowed request | [`DecisionBody`] |
//! | the problem document of a denial (RFC 9457) | [`Problem`] |
//! | another body of a denial | [`DenialTemplate`] |
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Limit, Limiter, ManualClock, MemoryStore};
//! use tollgate_http::{EnabledFields, Fields, Problem};
//!
//! let clock = ManualClock::default(); // 2027-01-01 00:00:00 UTC
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//! let limiter = Limiter::new(store, [Limit::fixed_window("login", 1, Duration::from_secs(900))])?;
//! assert!(limiter.check("login", "ann").try_now()?.is_allowed());
//!
//! let decision = limiter.check("login", "ann").try_now()?;
//! let mut response = Problem::denied(&decision).unwrap().to_response();
//! Fields::new(&decision, EnabledFields::default(), clock.now()).add_to(response.headers_mut());
//!
//! assert_eq!(response.status(), 429);
//! assert_eq!(response.headers()["content-type"], "application/problem+json");
//! assert_eq!(response.headers()["ratelimit-policy"], r#""login";q=1;w=900"#);
//! assert_eq!(response.headers()["ratelimit"], r#""login";r=0;t=900"#);
//! assert_eq!(response.headers()["x-ratelimit-reset"], "1798762500");
//! assert_eq!(response.headers()["retry-after"], "900");
//! # Ok::<(), tollgate::Error>(())
//! ```

mod body;
mod counter;
mod denial;
mod fields;
mod limit_fields;
mod problem;
mod profiles;
mod reported;
#[cfg(test)]
mod tests;
mod time;

pub use body::{DecisionBody, LimitBody};
pub use counter::{BucketLevel, CounterBody, LockoutBody, ReservedBody, WindowBody};
pub use denial::{DenialTemplate, DenialTemplateError};
pub use fields::{
    Fields, RATE_LIMIT, RATE_LIMIT_POLICY, X_RATE_LIMIT_FALLBACK, X_RATE_LIMIT_LIMIT,
    X_RATE_LIMIT_REMAINING, X_RATE_LIMIT_RESET,
};
pub use limit_fields::{LimitFields, LimitState};
pub use problem::{
    ABNORMAL_USAGE_DETECTED, PROBLEM_JSON, Problem, QUOTA_EXCEEDED, TEMPORARY_REDUCED_CAPACITY,
};
pub use reported::EnabledFields;

#[cfg(any(doc, doctest))]
#[doc = include_str!("../guide/headers.md")]
pub mod guide {}

/// The crate's page, whose code compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
