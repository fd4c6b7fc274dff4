//! The RESP port with the real service: common clients, raw bytes, a shared store, and the life of
//! connections.

mod clients;
mod connections;
mod garbage;
mod pipelines;
mod store;

use testkit::servers::{Client, Reply};

use crate::harness::Tollgate;

const LIMITS: &str = "
limits:
  - { name: api, key: [tenant], algorithm: token_bucket, capacity: 10, refill_rate: 1/day }
";

/// A connection to the RESP port.
pub(crate) fn connect(service: &Tollgate) -> Client {
    Client::connect(service.resp()).expect("it listens")
}

/// The integers of a reply.
pub(crate) fn integers(reply: &Reply) -> Vec<i64> {
    let integer = |value: &Reply| value.as_int().expect("an integer");
    assert_eq!(reply.error(), None);
    reply.items().iter().map(integer).collect()
}
