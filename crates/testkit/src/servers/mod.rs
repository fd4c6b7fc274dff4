//! Real servers for tests: standalone, a pair under Sentinel, and a cluster.
//!
//! Each server has its own port and directory, so any number of tests can run in parallel; both are
//! removed when the value is dropped. Both flavors must have version 7 or later.
//!
//! ```no_run
//! use testkit::servers::{Flavor, Server};
//!
//! let server = Server::start(Flavor::Valkey);
//! server.command(&["SET", "a", "1"]);
//! assert_eq!(server.keys(), [b"a"]);
//! ```
//!
//! This module owns processes and the commands that set them up. It does not know what Tollgate
//! stores in a server.

mod binary;
mod builder;
mod client;
mod cluster;
mod control;
mod reply;
mod sentinel;
mod server;
mod tls;

pub use self::builder::Builder;
pub use self::client::Client;
pub use self::cluster::{Cluster, ClusterBuilder};
pub use self::reply::Reply;
pub use self::sentinel::Sentinels;
pub use self::server::Server;

/// The server software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// `redis-server`, from `TOLLGATE_REDIS_SERVER` or the PATH.
    Redis,
    /// `valkey-server`, from `TOLLGATE_VALKEY_SERVER`, the PATH or installed by `cargo xtask test`.
    /// That build does not support TLS.
    Valkey,
}

impl Flavor {
    /// Both flavors, for tests that run on each.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];
}
