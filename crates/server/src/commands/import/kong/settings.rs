//! Settings of both plugins that are not numbers of a limit: the store, and what clients see.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, quoted_list};
use super::super::outline::{is_true, text_of};

/// Reads the settings. `policy` is the field that names where Kong counts.
pub(super) fn read(config: &DocumentNode, policy: &str, draft: &mut ImportDraft) {
    let line = |field: &str| config.get(field).map_or(config.line, |node| node.line);
    match text_of(config, policy) {
        Some("redis") => read_redis(config, line(policy), draft),
        Some("cluster") => draft.gap(
            line(policy),
            format!("`{policy}: cluster` counts in Kong's database; the imported file in memory"),
            "add a Redis store: `store: { type: redis, endpoints: [..] }`",
        ),
        _ => {}
    }

    let is_usual = |field: &str, usual: &str| text_of(config, field).is_none_or(|v| v == usual);
    if !is_usual("error_code", "429") {
        let advice = "it is 429; forward-auth takes `?deny_status=`";
        draft.gap(line("error_code"), "another status of denials", advice);
    }
    if !is_usual("error_message", "API rate limit exceeded") {
        let advice = "use `denial: { body: .. }`";
        draft.gap(line("error_message"), "another message of denials", advice);
    }
    // -1 and 0 count every request in the store, as a strict limit does.
    if !is_usual("sync_rate", "-1") && !is_usual("sync_rate", "0") {
        let advice = "use `consistency: leased` or `eventual` to save store calls";
        draft.gap(line("sync_rate"), "`sync_rate`", advice);
    }
    if is_true(config, "hide_client_headers") {
        let advice = "use `headers: { ietf: false, legacy: false }`, for all limits of the file";
        let found = "`hide_client_headers: true`";
        draft.gap(line("hide_client_headers"), found, advice);
    }
}

fn read_redis(config: &DocumentNode, line: usize, draft: &mut ImportDraft) {
    let redis = config.get("redis");
    let setting = |name: &str, old: &str| {
        let new = redis.and_then(|redis| text_of(redis, name));
        new.or_else(|| text_of(config, old)).map(str::to_owned)
    };
    let host = setting("host", "redis_host").unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = setting("port", "redis_port").unwrap_or_else(|| "6379".to_owned());
    let has = |name: &str| redis.is_some_and(|redis| redis.get(name).is_some());
    if has("sentinel_nodes") || has("cluster_nodes") {
        let advice = "write the endpoints of the Sentinels or of the cluster into `store`";
        draft.gap(line, "Redis with Sentinel or Cluster", advice);
    }

    let url = quoted_list([format!("redis://{host}:{port}").as_str()]);
    let store = format!("store:\n  type: redis\n  endpoints: {url}\n");
    if draft.sections.is_empty() {
        draft.sections.push(store);
    } else if !draft.sections.contains(&store) {
        let advice = "all limits of a file share one store";
        draft.gap(line, "another Redis server", advice);
    }
    draft.gap(
        line,
        "user, password, database and TLS of Redis are not imported",
        "write them into the URL: `redis://user:${REDIS_PASSWORD}@host:6379/0`, `rediss://` for \
         TLS",
    );
}
