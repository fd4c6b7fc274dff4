//! Who is asking: the client's address behind trusted proxies, and paths in one spelling.
//!
//! A limit is only as good as the name it counts under. Whoever can change that name at will has no
//! limit, and whoever can take another's name can use it up. This crate decides both questions for
//! everything that speaks HTTP:
//!
//! * [`ClientResolver`] finds the address of the client when proxies stand in between, believing only what
//!   a proxy named in the configuration wrote, and groups IPv6 addresses by the network that one
//!   customer is given.
//! * [`normalise`] gives a path one spelling, and [`Glob`] says which paths a rule is about.
//!
//! ```
//! use http::HeaderMap;
//! use tollgate_subject::{Case, ClientResolver, ForwardedBy, Glob, normalise};
//!
//! let clients = ClientResolver::new(vec!["10.0.0.0/8".parse()?], 64, ForwardedBy::XForwardedFor)?;
//! let mut headers = HeaderMap::new();
//! headers.append("x-forwarded-for", "198.51.100.1, 203.0.113.7".parse()?); // the client wrote the first itself
//!
//! let client = clients.address("10.0.0.3".parse()?, &headers);
//! assert_eq!(client.to_string(), "203.0.113.7");
//! let stranger = clients.address("192.0.2.9".parse()?, &headers);
//! assert_eq!(stranger.to_string(), "192.0.2.9");
//!
//! let login = Glob::for_path("/auth/login", Case::Sensitive)?;
//! assert!(login.matches(&normalise("/x/..//auth/%6Cogin/?next=%2F")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here is a pure function of its arguments: no I/O, no clock, no state. Nothing panics
//! on any input, and everything read from a request is bounded or read once. The crate knows
//! nothing of limits, rules or stores.

mod address;
mod clients;
mod forwarded;
mod glob;
mod network;
mod path;

pub use address::{AddressError, parse_address};
pub use clients::{ClientResolver, ClientResolverError};
pub use forwarded::{ForwardedBy, UnknownHeaderError};
pub use glob::{Case, Glob, GlobError};
pub use network::{Network, NetworkError};
pub use path::normalise;
