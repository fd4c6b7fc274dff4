//! Real servers for tests: one alone, a pair under Sentinel, a cluster.
//!
//! Each server has a port and a directory of its own, so any number of tests can run side by side;
//! it is gone, with its directory, when its value is dropped. Both flavors are held to version 7 or
//! later.
//!
//! ```no_run
//! use testkit::servers::{Flavor, Server};
//!
//! let server = Server::start(Flavor::Valkey);
//! server.command(&["SET", "a", "1"]);
//! assert_eq!(server.keys(), [b"a"]);
//! ```
//!
//! This module owns processes and the commands that arrange them. It must not know what Tollgate
//! keeps in a server.

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

/// Whose server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// `redis-server`, from the PATH or from `TOLLGATE_REDIS_SERVER`.
    Redis,
    /// `valkey-server`, from `TOLLGATE_VALKEY_SERVER`, the PATH or what `cargo xtask test`
    /// installed. That build speaks no TLS.
    Valkey,
}

impl Flavor {
    /// Both, for tests that hold for each.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Valkey];
}
