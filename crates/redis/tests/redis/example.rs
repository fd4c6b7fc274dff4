//! The example `shared_limit`, run on a server of the test's own.

use testkit::servers::{Flavor, Server};
use tollgate::Decision;

use crate::common;

#[expect(dead_code, reason = "its main function and what only that uses")]
#[path = "../../examples/shared_limit.rs"]
mod shared_limit;

#[test]
fn two_replicas_share_a_limit() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let decisions = runtime
        .block_on(shared_limit::share_limit(&server.url()))
        .expect("the server is available");

    let allowed: Vec<bool> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, true, true, true, true, false, false, false]);
    assert!(
        !decisions.iter().any(Decision::is_degraded),
        "{decisions:?}"
    );
}

#[test]
fn failure_policies_decide_without_a_server() {
    let decisions = common::runtime()
        .block_on(shared_limit::decide_without_server())
        .expect("failure policies never fail");

    let allowed: Vec<bool> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, false]);
    assert!(decisions.iter().all(Decision::is_degraded), "{decisions:?}");
}
