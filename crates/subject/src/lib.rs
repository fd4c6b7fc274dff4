//! Identifies the client of an HTTP request behind trusted proxies, and reads its path.
//!
//! A rate limit is only as good as the key it counts by. A client that can change its key evades
//! the limit, and a client that can forge another client's key can exhaust that client's limit.
//! This crate prevents both:
//!
//! * [`ClientResolver`] determines the client's address behind proxies. It believes only what
//!   trusted proxies wrote. It also groups IPv6 addresses by the network that one customer gets.
//! * [`header_values`], [`cookie_values`] and [`query_values`] read a value as any of the usual
//!   servers reads it, so that no spelling of it is a new key.
//! * [`PathReadings`] has every path that a server may take a request target for, and [`Glob`]
//!   matches them.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate_subject::{Case, ClientResolver, ForwardedBy, Glob, PathReadings};
//!
//! let clients = ClientResolver::new(vec!["10.0.0.0/8".parse()?], 64, ForwardedBy::XForwardedFor)?;
//! let mut headers = HeaderMap::new();
//! // The client forged the first address; the proxy appended the second.
//! headers.append("x-forwarded-for", "198.51.100.1, 203.0.113.7".parse()?);
//!
//! let client = clients.address("10.0.0.3".parse()?, &headers);
//! assert_eq!(client.to_string(), "203.0.113.7");
//! let untrusted = clients.address("192.0.2.9".parse()?, &headers);
//! assert_eq!(untrusted.to_string(), "192.0.2.9");
//!
//! let login = Glob::for_path("/auth/login", Case::Insensitive)?;
//! assert!(PathReadings::new("/x/..%2Fauth//Login?next=%2F").any_matches(&login));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All functions are pure: no I/O, no clock, no state. No input makes them panic, and the work per
//! request is bounded. The crate knows nothing of limits, rules or stores.

mod address;
mod clients;
mod fields;
mod forwarded;
mod glob;
mod network;
mod path;

pub use address::{AddressError, parse_address};
pub use clients::{ClientResolver, ClientResolverError};
pub use fields::{
    FieldValues, VALUES_MAX, cookie_values, header_lines, header_values, joined_lines, query_values,
};
pub use forwarded::ForwardedBy;
pub use glob::{Case, Glob, GlobError, GlobSet};
pub use network::{Network, NetworkError};
pub use path::{PathReadings, normalise};
