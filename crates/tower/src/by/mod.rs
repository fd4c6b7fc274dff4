//! Keys: under which key a limit counts a request.
//!
//! A [`KeyExtractor`] writes the key of a request. A key that a request may lack, such as a header,
//! is an [`OptionalKey`]. It does not compile as a key until you say what to do without it. So no
//! limit ever counts unrelated callers together by accident.
//!
//! ```
//! use http::StatusCode;
//! use tollgate_tower::by;
//!
//! // The API key, or the client address for requests without one.
//! let caller = by::header("x-api-key").or(by::client_address());
//! // The tenant; requests without one are rejected.
//! let tenant = by::header("x-tenant").or_reject(StatusCode::BAD_REQUEST);
//! // A tuple: each combination of tenant and caller has its own counter.
//! let both = (tenant, caller);
//! # let _ = tollgate_tower::RateLimitLayer::new(&tollgate::Limiter::in_memory([])?, "api", both);
//! # Ok::<(), tollgate::Error>(())
//! ```

mod address;
mod extractor;
mod header;
mod optional;
mod sources;

pub use address::{ClientAddress, client_address};
pub use extractor::{GlobalKey, KeyExtractor, MissingKey, everyone};
pub use header::{HeaderKey, header};
pub use optional::{KeyLookup, KeyOr, KeySource, OptionalKey};
pub use sources::{body, extension, function, path_class};
