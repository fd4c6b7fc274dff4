//! The plugin rate-limiting: fixed windows by the clock, one for each period that has a number.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, LimitDraft, conditions};
use super::super::outline::{line_of, reject_fields, text_of};
use super::keys::key;
use super::scope::PluginScope;
use super::settings;

/// The name of the plugin.
pub(super) const PLUGIN: &str = "rate-limiting";
const WINDOWS: [(&str, &str); 6] = [
    ("second", "1s"),
    ("minute", "1m"),
    ("hour", "1h"),
    ("day", "1d"),
    ("month", "1month"),
    ("year", "365d"),
];
const FIELDS: &[&str] = &[
    "second",
    "minute",
    "hour",
    "day",
    "month",
    "year",
    "limit_by",
    "header_name",
    "path",
    "policy",
    "fault_tolerant",
    "hide_client_headers",
    "error_code",
    "error_message",
    "sync_rate",
    "redis",
    "redis_host",
    "redis_port",
    "redis_password",
    "redis_username",
    "redis_database",
    "redis_timeout",
    "redis_ssl",
    "redis_ssl_verify",
    "redis_server_name",
];

/// Reads the configuration of a plugin.
pub(super) fn read(config: &DocumentNode, mut scope: PluginScope, draft: &mut ImportDraft) {
    reject_fields(config, FIELDS, draft);
    settings::read(config, "policy", draft);
    let key = key(config, "limit_by", &mut scope, draft);
    let Some(matches) = scope.matches(config.line, draft) else {
        return;
    };

    for (period, window) in WINDOWS {
        let Some(count) = text_of(config, period) else {
            continue;
        };
        let name = format!("{}-{period}", scope.name_or(PLUGIN));
        let source = format!("{PLUGIN} {period}: {count}");
        let mut limit = LimitDraft::new(name, line_of(config, period), source);
        start(&mut limit, &matches, &key);
        limit.set("algorithm", "fixed_window");
        if period == "year" {
            let found = "`year`: the window starts with the first request, not with the calendar";
            let advice = "use `window: 1month` with `align: clock`";
            draft.gap(limit.line, found, advice);
        } else {
            limit.set("align", "clock");
        }
        limit.set("limit", count);
        limit.set("window", window);
        // The memory store of `policy: local` is never unavailable.
        if text_of(config, "policy") == Some("redis") {
            let is_strict = text_of(config, "fault_tolerant") == Some("false");
            limit.set("on_store_failure", if is_strict { "deny" } else { "allow" });
        }
        draft.add(limit);
    }
}

/// Sets the conditions and the key of a limit.
pub(super) fn start(limit: &mut LimitDraft, matches: &[(&'static str, String)], key: &str) {
    if !matches.is_empty() {
        limit.set("match", conditions(matches.iter().cloned()));
    }
    limit.set("key", key);
}
