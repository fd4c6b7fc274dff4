//! Settings of both plugins that are not numbers of a limit: the store, and what clients see.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, quoted_list};
use super::super::outline::{is_true, line_of, text_of};

/// Reads the settings. `policy` is the field that names where Kong counts.
pub(super) fn read(config: &DocumentNode, policy: &str, draft: &mut ImportDraft) {
    if text_of(config, policy) == Some("redis") {
        read_redis(config, line_of(config, policy), draft);
    }
    let mut gap = |field: &str, found: &str, advice: &str| {
        draft.gap(line_of(config, field), found, advice);
    };
    let has_other = |field: &str, usual: &[&str]| {
        text_of(config, field).is_some_and(|value| !usual.contains(&value))
    };
    if text_of(config, policy) == Some("cluster") {
        let found =
            format!("`{policy}: cluster` counts in Kong's database; the imported file in memory");
        let advice = "add a Redis store: `store: { type: redis, endpoints: [..] }`";
        gap(policy, &found, advice);
    }
    if has_other("error_code", &["429"]) {
        let advice = "it is 429; forward-auth takes `?deny_status=`";
        gap("error_code", "another status of denials", advice);
    }
    if has_other("error_message", &["API rate limit exceeded"]) {
        let advice = "use `denial: { body: .. }`";
        gap("error_message", "another message of denials", advice);
    }
    // -1 and 0 count every request in the store, as a strict limit does.
    if has_other("sync_rate", &["-1", "0"]) {
        let advice = "use `consistency: leased` or `eventual` to save store calls";
        gap("sync_rate", "`sync_rate`", advice);
    }
    if is_true(config, "hide_client_headers") {
        let (field, found) = ("hide_client_headers", "`hide_client_headers: true`");
        let advice = "use `headers: { ietf: false, legacy: false }`, for all limits of the file";
        gap(field, found, advice);
    }
}

fn read_redis(config: &DocumentNode, line: usize, draft: &mut ImportDraft) {
    let redis = config.get("redis");
    let setting = |name: &str, old: &str| {
        let new = redis.and_then(|redis| text_of(redis, name));
        new.or_else(|| text_of(config, old))
    };
    let host = setting("host", "redis_host").unwrap_or("127.0.0.1");
    let port = setting("port", "redis_port").unwrap_or("6379");
    let has = |name: &str| redis.is_some_and(|redis| redis.get(name).is_some());
    if has("sentinel_nodes") || has("cluster_nodes") {
        let advice = "write the endpoints of the Sentinels or of the cluster into `store`";
        draft.gap(line, "Redis with Sentinel or Cluster", advice);
    }

    let url = quoted_list([format!("redis://{host}:{port}")]);
    let store = format!("store:\n  type: redis\n  endpoints: {url}\n");
    if draft.sections.is_empty() {
        draft.sections.push(store);
    } else if !draft.sections.contains(&store) {
        let advice = "all limits of a file share one store";
        draft.gap(line, "another Redis server", advice);
    }
    let found = "user, password, database and TLS of Redis are not imported";
    let advice = "write them into the URL: `redis://user:${REDIS_PASSWORD}@host:6379/0`, \
                  `rediss://` for TLS";
    draft.gap(line, found, advice);
}
