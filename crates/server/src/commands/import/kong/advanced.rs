//! The plugin rate-limiting-advanced: pairs of a limit and a window, sliding or fixed.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, LimitDraft};
use super::super::outline::{is_true, reject_fields, text_of, texts_of};
use super::keys::key;
use super::plugin::start;
use super::scope::PluginScope;
use super::settings;

/// The name of the plugin.
pub(super) const ADVANCED: &str = "rate-limiting-advanced";
const FIELDS: &[&str] = &[
    "limit",
    "window_size",
    "window_type",
    "identifier",
    "header_name",
    "path",
    "strategy",
    "sync_rate",
    "namespace",
    "dictionary_name",
    "lock_dictionary_name",
    "disable_penalty",
    "hide_client_headers",
    "error_code",
    "error_message",
    "retry_after_jitter_max",
    "redis",
];

/// Reads the configuration of a plugin.
pub(super) fn read(config: &DocumentNode, mut scope: PluginScope, draft: &mut ImportDraft) {
    reject_fields(config, FIELDS, draft);
    let line = config.line;
    let (limits, windows) = (texts_of(config, "limit"), texts_of(config, "window_size"));
    if limits.is_empty() || limits.len() != windows.len() {
        let found = "`limit` and `window_size` must have the same number of items";
        return draft.gap(line, found, "complete them");
    }
    settings::read(config, "strategy", draft);
    let key = key(config, "identifier", &mut scope, draft);
    let Some(matches) = scope.matches(line, draft) else {
        return;
    };

    let is_fixed = text_of(config, "window_type") == Some("fixed");
    if !is_fixed && !is_true(config, "disable_penalty") {
        let found = "sliding windows there also count denied requests; here these count nothing";
        let advice = "use `lockout` if clients that go on must wait longer";
        draft.gap(line, found, advice);
    }
    for (limit, window) in limits.into_iter().zip(windows) {
        let name = format!("{}-{window}s", scope.name_or(ADVANCED));
        let source = format!("{ADVANCED} {limit} per {window} s");
        let mut added = LimitDraft::new(name, line, source);
        start(&mut added, &matches, &key);
        set_numbers(&mut added, limit, window, is_fixed, draft);
        draft.add(added);
    }
}

/// Sets the algorithm with its numbers. Fixed windows start at multiples of their length there.
fn set_numbers(
    added: &mut LimitDraft,
    limit: &str,
    window: &str,
    is_fixed: bool,
    draft: &mut ImportDraft,
) {
    let aligned = match window {
        "1" => Some("1s"),
        "60" => Some("1m"),
        "3600" => Some("1h"),
        "86400" => Some("1d"),
        _ => None,
    };
    let algorithm = if is_fixed {
        "fixed_window"
    } else {
        "sliding_window"
    };
    added.set("algorithm", algorithm);
    if is_fixed && aligned.is_some() {
        added.set("align", "clock");
    } else if is_fixed {
        let found = format!("a fixed window of {window} s starts with the first request of a key");
        let advice = "use 1, 60, 3600 or 86400 seconds if it must be aligned to the clock";
        draft.gap(added.line, found, advice);
    }
    added.set("limit", limit);
    added.set(
        "window",
        aligned.map_or_else(|| format!("{window}s"), str::to_owned),
    );
}
