//! The plugin rate-limiting-advanced: pairs of a limit and a window, sliding or fixed.

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, LimitDraft};
use super::super::outline::{is_true, reject_fields, text_of, texts_of};
use super::keys::key;
use super::plugin::{limit_name, start};
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
pub(super) fn read(config: &DocumentNode, scope: &PluginScope, draft: &mut ImportDraft) {
    reject_fields(config, FIELDS, draft);
    let (limits, windows) = (texts_of(config, "limit"), texts_of(config, "window_size"));
    if limits.is_empty() || limits.len() != windows.len() {
        let found = "`limit` and `window_size` must have the same number of items";
        draft.gap(config.line, found, "complete them");
        return;
    }
    settings::read(config, "strategy", draft);
    let mut scope = scope.clone();
    let key = key(config, "identifier", &mut scope, draft);
    let Some(matches) = scope.matches(config.line, draft) else {
        return;
    };

    let is_fixed = text_of(config, "window_type") == Some("fixed");
    if !is_fixed && !is_true(config, "disable_penalty") {
        draft.gap(
            config.line,
            "sliding windows there also count denied requests; here these count nothing",
            "use `lockout` if clients that go on must wait longer",
        );
    }
    for (limit, window) in limits.into_iter().zip(windows) {
        let mut fields = start(&matches, &key);
        fields.extend(numbers(limit, window, is_fixed, config.line, draft));
        draft.add(LimitDraft {
            name: format!("{}-{window}s", limit_name(&scope, ADVANCED)),
            line: config.line,
            source: format!("{ADVANCED} {limit} per {window} s"),
            fields,
        });
    }
}

/// The algorithm with its numbers. Fixed windows start at multiples of their length there.
fn numbers(
    limit: &str,
    window: &str,
    is_fixed: bool,
    line: usize,
    draft: &mut ImportDraft,
) -> Vec<(&'static str, String)> {
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
    let mut fields = vec![("algorithm", algorithm.to_owned())];
    match aligned {
        Some(_) if is_fixed => fields.push(("align", "clock".to_owned())),
        None if is_fixed => draft.gap(
            line,
            format!("a fixed window of {window} s starts with the first request of a key"),
            "use 1, 60, 3600 or 86400 seconds if it must be aligned to the clock",
        ),
        _ => {}
    }

    let window = aligned.map_or_else(|| format!("{window}s"), str::to_owned);
    fields.push(("limit", limit.to_owned()));
    fields.push(("window", window));
    fields
}
