//! Configurations of envoyproxy/ratelimit: a domain, and a tree of descriptors with limits.

use tollgate_rules::Attribute;
use tollgate_rules::config::DocumentNode;

use super::draft::{ImportDraft, LimitDraft, conditions, quoted, quoted_list};
use super::outline::{describe, is_true, reject_fields, text_of};

const FIELDS: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
];
const RATE_LIMIT_FIELDS: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];

/// An entry of a descriptor: its key, and its value if the file has one.
struct DescriptorEntry<'n> {
    key: &'n str,
    value: Option<&'n str>,
    is_shared: bool,
}

/// Translates a file.
pub(super) fn import(root: &DocumentNode, draft: &mut ImportDraft) -> Result<(), String> {
    let domain = root.get("domain").and_then(DocumentNode::text);
    let domain = domain.ok_or("expected the field `domain` with a name")?;
    reject_fields(root, &["domain", "descriptors"], draft);

    let mut path = Vec::new();
    warn_about_defaults(items(root), draft);
    for descriptor in items(root) {
        read_descriptor(descriptor, domain, &mut path, draft);
    }
    Ok(())
}

fn items(node: &DocumentNode) -> &[DocumentNode] {
    node.get("descriptors").map_or(&[], DocumentNode::items)
}

/// Reads a descriptor and those inside of it. The depth of a document is bounded.
fn read_descriptor<'n>(
    node: &'n DocumentNode,
    domain: &str,
    path: &mut Vec<DescriptorEntry<'n>>,
    draft: &mut ImportDraft,
) {
    let Some(key) = node.get("key").and_then(DocumentNode::text) else {
        draft.gap(node.line, "a descriptor without `key`", "give it a key");
        return;
    };
    reject_fields(node, FIELDS, draft);
    if attribute(key).is_none() {
        draft.gap(
            node.line,
            format!("the key {key:?} is not a valid name of an attribute; its limits are left out"),
            "rename the descriptor's key in Envoy: letters, digits, `_`, `-` and `.`",
        );
        return;
    }

    let value = node.get("value").and_then(DocumentNode::text);
    path.push(DescriptorEntry {
        key,
        value: value.filter(|value| !value.is_empty()),
        is_shared: is_true(node, "share_threshold"),
    });
    if let Some(limit) = node.get("rate_limit") {
        read_limit(node, limit, domain, path, draft);
    }
    if node.get("rate_limit").is_some() && !items(node).is_empty() {
        draft.gap(
            node.line,
            "a limit beside nested descriptors: here it also applies to the longer lists of entries",
            "keep it if it is higher than those inside of it",
        );
    }
    warn_about_defaults(items(node), draft);
    for descriptor in items(node) {
        read_descriptor(descriptor, domain, path, draft);
    }
    path.pop();
}

fn read_limit(
    node: &DocumentNode,
    limit: &DocumentNode,
    domain: &str,
    path: &[DescriptorEntry<'_>],
    draft: &mut ImportDraft,
) {
    reject_fields(limit, RATE_LIMIT_FIELDS, draft);
    if is_true(limit, "unlimited") {
        draft.gap(
            limit.line,
            "`unlimited: true`: a limit here cannot exempt requests from another limit",
            "leave it out, or exclude these requests by the `match` of the other limits",
        );
        return;
    }
    if let Some(replaces) = limit.get("replaces") {
        draft.gap(
            replaces.line,
            "`replaces`: here every limit that matches applies",
            "restrict the `match` of the replaced limits",
        );
    }

    let text = |name: &str| limit.get(name).and_then(DocumentNode::text);
    let (Some(unit), Some(requests)) = (text("unit"), text("requests_per_unit")) else {
        let found = "a rate_limit without `unit` and `requests_per_unit`; it is left out";
        draft.gap(limit.line, found, "complete it");
        return;
    };
    let Some((window, is_aligned)) = window(unit, limit.line, draft) else {
        return;
    };
    if requests.parse::<u64>().is_ok_and(|requests| requests == 0) {
        draft.gap(
            limit.line,
            "`requests_per_unit: 0` denies everything; a limit here is at least 1",
            "deny these requests in Envoy",
        );
        return;
    }

    let name = path.iter().map(|entry| entry.value.unwrap_or(entry.key));
    let name = name.collect::<Vec<_>>().join("-");
    let name = text("name").map_or(name, str::to_owned);
    let mut fields = vec![
        ("match", matches(domain, path)),
        ("key", key(path)),
        ("algorithm", "fixed_window".to_owned()),
    ];
    if is_aligned {
        fields.push(("align", "clock".to_owned()));
    }
    fields.push(("limit", requests.to_owned()));
    fields.push(("window", window.to_owned()));
    if is_true(node, "shadow_mode") {
        fields.push(("shadow", "true".to_owned()));
    }

    draft.add(LimitDraft {
        name,
        line: node.line,
        source: format!(
            "{} {requests} per {unit}",
            describe(node, &["key", "value"])
        ),
        fields,
    });
}

/// The window of a unit, and whether it starts with the calendar.
fn window(unit: &str, line: usize, draft: &mut ImportDraft) -> Option<(&'static str, bool)> {
    let window = match unit.to_ascii_lowercase().as_str() {
        "second" => ("1s", true),
        "minute" => ("1m", true),
        "hour" => ("1h", true),
        "day" => ("1d", true),
        "month" => ("1month", true),
        "week" => ("7d", false),
        "year" => ("365d", false),
        _ => {
            let found = format!("unknown unit {unit:?}; the limit is left out");
            draft.gap(
                line,
                found,
                "use second, minute, hour, day, week, month or year",
            );
            return None;
        }
    };
    if !window.1 {
        draft.gap(
            line,
            format!(
                "`unit: {unit}`: the window starts with the first request, not with the calendar"
            ),
            "use `window: 1month` with `align: clock` if it must be aligned",
        );
    }
    Some(window)
}

/// The conditions: the domain, and every entry with a value.
fn matches(domain: &str, path: &[DescriptorEntry<'_>]) -> String {
    let entries = path.iter().filter_map(|entry| {
        let value = entry.value?;
        // A star at the end is any text, also with slashes.
        let pattern = value.strip_suffix('*').map(|start| format!("{start}**"));
        Some((
            attribute(entry.key)?,
            quoted(pattern.as_deref().unwrap_or(value)),
        ))
    });
    let entries: Vec<(String, String)> = entries.collect();
    let domain = ("domain", quoted(domain));
    conditions(
        [domain].into_iter().chain(
            entries
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone())),
        ),
    )
}

/// The key: every entry whose values have counters of their own.
fn key(path: &[DescriptorEntry<'_>]) -> String {
    let is_counted = |entry: &&DescriptorEntry<'_>| match entry.value {
        None => true,
        // Each value that a wildcard matches has its own counter, unless they share one.
        Some(value) => value.ends_with('*') && !entry.is_shared,
    };
    let names = path
        .iter()
        .filter(is_counted)
        .filter_map(|entry| attribute(entry.key));
    let names: Vec<String> = names.collect();
    quoted_list(names.iter().map(String::as_str))
}

/// The attribute of a descriptor's key. `client_ip` also reads Envoy's `remote_address`.
fn attribute(key: &str) -> Option<String> {
    if key == "remote_address" {
        return Some("client_ip".to_owned());
    }
    let attribute = key.parse::<Attribute>().ok()?;
    // An entry called `domain` would be hidden by the domain of the request.
    (key != "domain").then(|| attribute.name().to_owned())
}

/// A descriptor without a value is the default of those beside it that have one.
fn warn_about_defaults(siblings: &[DocumentNode], draft: &mut ImportDraft) {
    let key = |node: &DocumentNode| text_of(node, "key").map(str::to_owned);
    let has_value = |node: &DocumentNode| text_of(node, "value").is_some();
    for node in siblings.iter().filter(|node| !has_value(node)) {
        let is_default = |other: &DocumentNode| has_value(other) && key(other) == key(node);
        if node.get("rate_limit").is_some() && siblings.iter().any(is_default) {
            draft.gap(
                node.line,
                format!(
                    "{} is the default of the values beside it; here it applies to all values, \
                     also to those with a limit of their own",
                    describe(node, &["key"])
                ),
                "nothing if it is the highest of them; otherwise list the values in `match`",
            );
        }
    }
}
