//! Actions across a fail-over of a Sentinel group.

use std::thread;

use serde_json::json;
use testkit::servers::{Flavor, Sentinels, Server};
use testkit::wait;

use super::{ANN, act, check, until_all};
use crate::harness::{PATIENCE, Tollgate};

/// The key of the actions on the server.
const ACTIONS: &str = "tollgate:{records}actions";

/// Replicas of the service on a Sentinel group.
fn replicas(group: &Sentinels, count: usize) -> Vec<Tollgate> {
    let urls = group.urls().join("', '");
    let master = group.master_name();
    let config = format!(
        "store: {{type: redis-sentinel, endpoints: ['{urls}'], master: {master}, timeout: 250ms}}\n\
         defaults: {{on_store_failure: allow, expected_replicas: {count}}}\n\
         limits: [{{name: api, key: [client_ip], algorithm: fixed_window, limit: 9, window: 1h}}]"
    );
    let replicas: Vec<Tollgate> = (0..count).map(|_| Tollgate::with_config(&config)).collect();
    wait::until_true(PATIENCE, "every replica to reach the store", || {
        let ready = |replica: &Tollgate| !replica.post("/v1/peek", ANN).text().contains("fallback");
        replicas.iter().all(ready)
    });
    replicas
}

fn wait_for_new_primary(group: &Sentinels) {
    wait::until_true(PATIENCE, "a new primary", || {
        group.current_primary().is_some_and(Server::is_running)
    });
}

/// Whether this server has an action.
fn has_action(server: &Server) -> bool {
    server.command(&["EXISTS", ACTIONS]).as_int() == Some(1)
}

#[test]
fn a_block_is_in_force_before_during_and_after_a_fail_over() {
    let group = Sentinels::start(Flavor::Redis);
    let replicas = replicas(&group, 3);
    let id = act(&replicas[0], "blocks", &json!({"status": 403}));
    until_all(&replicas, "the block", |status, _| status == 403);
    wait::until_true(PATIENCE, "the replication", || has_action(group.replica()));

    group.primary().kill();
    thread::scope(|scope| {
        let failing_over = scope.spawn(|| wait_for_new_primary(&group));
        while !failing_over.is_finished() {
            for replica in &replicas {
                assert_eq!(check(replica).0, 403);
            }
        }
    });

    // The new primary is used: another replica can undo the block everywhere.
    wait::until_true(PATIENCE, "the new primary to be used", || {
        let path = format!("/admin/blocks/{id}");
        super::send(&replicas[1], "DELETE", &path, &serde_json::Value::Null).status == 200
    });
    until_all(&replicas, "the end of the block", |status, _| status != 403);
}

/// The primary accepts a block and ends before its replica has it.
#[test]
fn a_block_that_a_fail_over_has_lost_is_put_again() {
    let group = Sentinels::start(Flavor::Redis);
    let replicas = replicas(&group, 3);
    let (primary, replica) = (group.primary(), group.replica());

    // The frozen replica cannot connect again, so it receives nothing from here on.
    replica.freeze();
    primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    act(&replicas[0], "blocks", &json!({"status": 403}));
    assert!(has_action(primary));
    primary.kill();
    replica.thaw();
    assert!(!has_action(replica), "the new primary must not have it");

    wait_for_new_primary(&group);
    wait::until_true(PATIENCE, "the block on the new primary", || {
        has_action(replica)
    });
    until_all(&replicas, "the block on all replicas", |status, body| {
        status == 403 && body["source"] == "block"
    });
    let newcomer = self::replicas(&group, 1);
    until_all(&newcomer, "the block on a new replica", |status, _| {
        status == 403
    });
}
