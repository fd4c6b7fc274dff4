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

/// A planned fail-over promotes the replica and announces that a moment later. In between, the old
/// primary still accepts an action, which the new one never gets.
#[test]
fn a_block_between_promotion_and_announcement_stays_in_force() {
    let group = Sentinels::start(Flavor::Redis);
    let replicas = replicas(&group, 4);
    let new = group.replica();
    until_all_are_seen(&replicas);

    let failover = ["SENTINEL", "FAILOVER", group.master_name()];
    assert!(group.sentinels()[0].command(&failover).is_ok());
    wait::until_true(PATIENCE, "the promotion", || {
        new.command(&["ROLE"]).items()[0].as_str() == Some("master")
    });
    // Hardly ever too late: the Sentinel that leads looks twice a second whether it has succeeded.
    group.sentinels().iter().for_each(Server::freeze);
    let body = json!({"limit": "api", "key": {"client_ip": "203.0.113.7"}, "status": 403,
                      "for": "1h", "reason": "a test", "by": "ann"});
    let action = super::change(&replicas[0], "POST", "/admin/blocks?wait=5s", &body);
    assert_eq!(action["replicas"]["current"], 4, "{action}");
    group.sentinels().iter().for_each(Server::thaw);

    wait::until_true(PATIENCE, "the block on the new primary", || {
        for replica in &replicas {
            assert_eq!(check(replica).0, 403, "it was said to be known");
        }
        has_action(new)
    });
    let id = action["id"].as_str().expect("an id");
    let path = format!("/admin/blocks/{id}?wait=5s");
    let undone = super::change(&replicas[3], "DELETE", &path, &serde_json::Value::Null);
    assert_eq!(undone["removed"], true);
    until_all(&replicas, "the end of the block", |status, _| status != 403);
}

/// Waits until every replica knows the others, so that an answer about all means all.
fn until_all_are_seen(replicas: &[Tollgate]) {
    wait::until_true(PATIENCE, "all replicas to be seen", || {
        replicas.iter().all(|replica| {
            let fleet = super::send(replica, "GET", "/admin/fleet", &serde_json::Value::Null);
            let fleet: serde_json::Value = serde_json::from_str(&fleet.text()).expect("JSON");
            fleet["seen"] == replicas.len()
        })
    });
}
