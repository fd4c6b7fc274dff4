//! Real proxies for tests: nginx, Caddy, Envoy and `HAProxy`, started from a configuration for one
//! test.
//!
//! - `kind`: what is particular to each.
//! - `template`: the configuration, with free ports and the test's own words put in.
//! - `running`: a proxy that listens.
//! - `process`: its process, which does not outlive the test, and its log.
//! - `client`: a client that asks once, `upstream`: a server that echoes.
//!
//! ```no_run
//! use testkit::reverse_proxy::{self, Proxy, Upstream};
//!
//! let upstream = Upstream::start();
//! let nginx = Proxy::nginx("server { listen 127.0.0.1:@port@; location / { proxy_pass http://@upstream@; } }")
//!     .set("upstream", upstream.addr())
//!     .start();
//! let response = reverse_proxy::get(nginx.addr(), "/", &[("x-who", "ann")]);
//! assert_eq!(response.status, 200);
//! assert!(response.text().contains("x-who: ann"));
//! ```
//!
//! This module owns processes and bytes. It must not know what Tollgate answers a proxy.

mod client;
mod kind;
mod process;
mod running;
mod template;
mod upstream;

pub use self::client::{Response, get, send};
pub use self::running::{Builder, Proxy};
pub use self::upstream::Upstream;
pub use crate::processes::{find_program, find_python_tools};
