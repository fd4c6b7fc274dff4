//! Real proxies for tests: nginx, Caddy, Envoy and `HAProxy`, started with a configuration for one
//! test.
//!
//! - `kind`: the differences between proxies.
//! - `template`: the configuration, with placeholders for free ports and the test's values.
//! - `running`: a running proxy.
//! - `process`: its process, which does not outlive the test, and its log.
//! - `client`: a client for single requests, `upstream`: a server that echoes.
//!
//! ```no_run
//! use testkit::reverse_proxy::{self, Proxy, Upstream};
//!
//! let upstream = Upstream::start();
//! let nginx = Proxy::nginx(
//!     "server { listen 127.0.0.1:@port@; location / { proxy_pass http://@upstream@; } }",
//! )
//!     .set("upstream", upstream.addr())
//!     .start();
//! let response = reverse_proxy::get(nginx.addr(), "/", &[("x-who", "ann")]);
//! assert_eq!(response.status, 200);
//! assert!(response.text().contains("x-who: ann"));
//! ```
//!
//! This module owns processes and bytes. It does not know how Tollgate responds to a proxy.

mod client;
mod kind;
mod process;
mod running;
mod template;
mod upstream;

pub use self::client::{Response, get, send, send_over};
pub use self::running::{Builder, Proxy};
pub use self::upstream::Upstream;
pub use crate::processes::{find_program, find_python_tools};
