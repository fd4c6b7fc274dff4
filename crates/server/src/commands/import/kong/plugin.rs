//! The plugin rate-limiting: fixed windows by the clock, one for each period that has a number.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, LimitDraft, conditions};
use super::super::outline::{reject_fields, text_of};
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
pub(super) fn read(config: &DocumentNode, scope: &PluginScope, draft: &mut ImportDraft) {
    reject_fields(config, FIELDS, draft);
    settings::read(config, "policy", draft);
    let mut scope = scope.clone();
    let key = key(config, "limit_by", &mut scope, draft);
    let Some(matches) = scope.matches(config.line, draft) else {
        return;
    };

    for (period, window) in WINDOWS {
        let Some(limit) = config.get(period) else {
            continue;
        };
        let Some(count) = text_of(config, period) else {
            continue;
        };
        let mut fields = start(&matches, &key);
        fields.push(("algorithm", "fixed_window".to_owned()));
        if period == "year" {
            let found = "`year`: the window starts with the first request, not with the calendar";
            let advice = "use `window: 1month` with `align: clock`";
            draft.gap(limit.line, found, advice);
        } else {
            fields.push(("align", "clock".to_owned()));
        }
        fields.push(("limit", count.to_owned()));
        fields.push(("window", window.to_owned()));
        // The memory store of `policy: local` is never unavailable.
        if text_of(config, "policy") == Some("redis") {
            let is_strict = text_of(config, "fault_tolerant") == Some("false");
            let policy = if is_strict { "deny" } else { "allow" };
            fields.push(("on_store_failure", policy.to_owned()));
        }

        draft.add(LimitDraft {
            name: format!("{}-{period}", limit_name(&scope, PLUGIN)),
            line: limit.line,
            source: format!("{PLUGIN} {period}: {count}"),
            fields,
        });
    }
}

/// The first fields of a limit: its conditions and its key.
pub(super) fn start(matches: &[(&'static str, String)], key: &str) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if !matches.is_empty() {
        let matches = matches.iter().map(|(name, value)| (*name, value.clone()));
        fields.push(("match", conditions(matches)));
    }
    fields.push(("key", key.to_owned()));
    fields
}

/// The name of what a plugin is attached to, else that of the plugin.
pub(super) fn limit_name<'s>(scope: &'s PluginScope, plugin: &'s str) -> &'s str {
    if scope.name.is_empty() {
        plugin
    } else {
        &scope.name
    }
}
