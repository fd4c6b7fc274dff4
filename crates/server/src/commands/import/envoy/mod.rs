//! Configurations of envoyproxy/ratelimit: a domain, and a tree of descriptors with limits.

mod entries;

use tollgate_rules::config::DocumentNode;

use self::entries::{
    DescriptorEntry, DescriptorPath, key, matches, standing_list, standing_value, warn_about_longer,
};
use super::draft::{ImportDraft, LimitDraft, quoted_list};
use super::outline::{attribute, describe, is_true, items, reject_fields, text_of};

const FIELDS: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "metadata",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
];
const RATE_LIMIT_FIELDS: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/// The most keys of a standing list.
const EXEMPT_MAX: usize = 1_000;

/// The window of a unit, and whether it starts with the calendar.
type UnitWindow = (&'static str, bool);

/// Translates a file.
pub(super) fn import(root: &DocumentNode, draft: &mut ImportDraft) -> Result<(), String> {
    let domain = text_of(root, "domain").ok_or("expected the field `domain` with a name")?;
    reject_fields(root, &["name", "domain", "descriptors"], draft);

    let mut reader = TreeReader {
        domain,
        limits: Vec::new(),
        draft,
    };
    reader.read_level(items(root, "descriptors"), &mut Vec::new());
    warn_about_longer(&reader.limits, reader.draft);
    Ok(())
}

struct TreeReader<'n, 'd> {
    domain: &'n str,
    limits: Vec<DescriptorPath<'n>>,
    draft: &'d mut ImportDraft,
}

impl<'n> TreeReader<'n, '_> {
    /// Reads descriptors and those inside of them. The depth of a document is bounded.
    fn read_level(&mut self, level: &'n [DocumentNode], path: &mut Vec<DescriptorEntry<'n>>) {
        for node in level {
            let Some(key) = text_of(node, "key") else {
                let found = "a descriptor without `key`";
                self.draft.gap(node.line, found, "give it a key");
                continue;
            };
            reject_fields(node, FIELDS, self.draft);
            let entry = DescriptorEntry::new(key, node);
            if attribute(key).is_none() || entry.has_inner_star() {
                let entry = describe(node, &["key", "value"]);
                let found = format!("{entry} has no equivalent; its limits are left out");
                let advice = "use letters, digits, `_`, `-` and `.` in keys, and `*` only at the \
                              end of values";
                self.draft.gap(node.line, found, advice);
                continue;
            }

            path.push(entry);
            if let Some(limit) = node.get("rate_limit") {
                self.read_limit(node, limit, level, path);
            }
            self.warn_about_nested(node, level, entry);
            self.read_level(items(node, "descriptors"), path);
            path.pop();
        }
    }

    fn read_limit(
        &mut self,
        node: &'n DocumentNode,
        limit: &'n DocumentNode,
        level: &'n [DocumentNode],
        path: &[DescriptorEntry<'n>],
    ) {
        reject_fields(limit, RATE_LIMIT_FIELDS, self.draft);
        // Nothing is limited: the limits of the default are those that must exempt the value.
        if is_true(limit, "unlimited") {
            return;
        }
        self.note_fields(node, limit);
        let numbers = ["unit", "requests_per_unit"].map(|name| text_of(limit, name));
        let [Some(unit), Some(requests)] = numbers else {
            let found = "a rate_limit without `unit` and `requests_per_unit`; it is left out";
            return self.draft.gap(limit.line, found, "complete it");
        };
        let Some(window) = window(unit, limit.line, self.draft) else {
            return;
        };

        let name = path.iter().map(|entry| entry.value.unwrap_or(entry.key));
        let name = name.collect::<Vec<_>>().join("-");
        let entries = describe(node, &["key", "value"]);
        let name = text_of(limit, "name").unwrap_or(&name);
        let source = format!("{entries} {requests} per {unit}");
        let mut added = LimitDraft::new(name, node.line, source);
        let Some(exempt) = self.set_fields(&mut added, node, level, path, (window, requests))
        else {
            return;
        };
        self.limits.push(DescriptorPath {
            line: node.line,
            entries: path.to_vec(),
            exempt,
        });
        self.draft.add(added);
    }

    /// Sets the fields of a limit. Returns the values that it exempts; none if the limit has no
    /// equivalent.
    fn set_fields(
        &mut self,
        added: &mut LimitDraft,
        node: &'n DocumentNode,
        level: &'n [DocumentNode],
        path: &[DescriptorEntry<'n>],
        (window, requests): (UnitWindow, &str),
    ) -> Option<Vec<&'n str>> {
        added.set("match", matches(self.domain, path));
        let mut exempt = Vec::new();
        if requests.parse() == Ok(0_u64) {
            let (key, block) = self.block(node, path)?;
            added.set("key", key);
            added.set("block", block);
            set_numbers(added, window, "1");
        } else {
            added.set("key", key(path));
            // A descriptor without one of the entries does not meet the limit.
            if path.iter().any(DescriptorEntry::is_counted) {
                added.set("optional", "true");
            }
            set_numbers(added, window, requests);
            exempt = self.exempt(node, level, path);
        }

        if !exempt.is_empty() {
            let keys = exempt
                .iter()
                .filter_map(|value| Some(vec![standing_value(path.last()?.key, value)?]));
            added.set("exempt", standing_list(keys));
        }
        if is_true(node, "shadow_mode") || is_true(node, "quota_mode") {
            added.set("shadow", "true");
        }
        Some(exempt)
    }

    /// Notes what the fields of a limit do there and not here.
    fn note_fields(&mut self, node: &DocumentNode, limit: &DocumentNode) {
        if let Some(replaces) = limit.get("replaces") {
            let found = "`replaces`: here every limit that matches applies";
            let advice = "restrict the `match` of the replaced limits";
            self.draft.gap(replaces.line, found, advice);
        }
        if is_true(node, "quota_mode") {
            let found = "`quota_mode`: there a request is denied only if all its quotas are used \
                         up; here the limit counts and never denies";
            let advice = "remove `shadow: true` if this limit alone should deny";
            self.draft.gap(node.line, found, advice);
        }
        if let Some(metadata) = node.get("metadata") {
            let found = "`metadata` is not sent to Envoy";
            let advice = "let Envoy choose by the response headers";
            self.draft.gap(metadata.line, found, advice);
        }
    }

    /// The key and the standing list of a limit of 0: one value that is always denied.
    fn block(
        &mut self,
        node: &DocumentNode,
        path: &[DescriptorEntry<'_>],
    ) -> Option<(String, String)> {
        let is_exact = path.iter().all(DescriptorEntry::is_exact) && !is_true(node, "shadow_mode");
        let values: Option<Vec<(String, String)>> = path
            .iter()
            .map(|entry| standing_value(entry.key, entry.value?))
            .collect();
        if let Some(values) = values.filter(|_| is_exact) {
            let key = quoted_list(values.iter().map(|(name, _)| name));
            return Some((key, standing_list([values])));
        }
        let found =
            "`requests_per_unit: 0` denies every value; only single values can be blocked here";
        self.draft
            .gap(node.line, found, "deny these requests in Envoy");
        None
    }

    /// The values beside an entry that have a descriptor of their own: the more general limit does
    /// not apply to them.
    fn exempt(
        &mut self,
        node: &DocumentNode,
        level: &'n [DocumentNode],
        path: &[DescriptorEntry<'n>],
    ) -> Vec<&'n str> {
        let Some((own, outer)) = path.split_last() else {
            return Vec::new();
        };
        let is_alone = own.is_counted() && !outer.iter().any(DescriptorEntry::is_counted);
        let (mut exempt, mut others) = (Vec::new(), Vec::new());
        for value in special_values(level, own) {
            let is_exact = !value.ends_with('*') && standing_value(own.key, value).is_some();
            if is_alone && is_exact && exempt.len() < EXEMPT_MAX {
                exempt.push(value);
            } else {
                others.push(value);
            }
        }
        if let Some(first) = others.first() {
            let more = match others.len() - 1 {
                0 => String::new(),
                count => format!(", and to {count} more"),
            };
            let found = format!(
                "{first:?} has its own descriptor beside this one; here both apply to it{more}"
            );
            let advice =
                "nothing if this limit is the highest; otherwise list the values in `match`";
            self.draft.gap(node.line, found, advice);
        }
        exempt
    }

    /// Notes values beside an entry for which the descriptors inside of it do not count there.
    fn warn_about_nested(
        &mut self,
        node: &DocumentNode,
        level: &'n [DocumentNode],
        entry: DescriptorEntry<'n>,
    ) {
        let has_inner = !items(node, "descriptors").is_empty();
        if let Some(value) = special_values(level, &entry).next().filter(|_| has_inner) {
            let found = format!(
                "{value:?} has its own descriptor beside this one; here the limits inside of this \
                 one apply to it, too"
            );
            let advice = "restrict their `match` to the other values";
            self.draft.gap(node.line, found, advice);
        }
    }
}

/// The values of the same key that are looked up before a more general entry.
fn special_values<'n>(
    level: &'n [DocumentNode],
    own: &DescriptorEntry<'n>,
) -> impl Iterator<Item = &'n str> {
    let own = *own;
    level.iter().filter_map(move |node| {
        let other = DescriptorEntry::new(text_of(node, "key")?, node);
        let value = other.value.filter(|value| Some(*value) != own.value)?;
        (!own.is_exact() && own.meets(&other)).then_some(value)
    })
}

/// Sets the algorithm with its numbers.
fn set_numbers(added: &mut LimitDraft, (window, is_aligned): UnitWindow, limit: &str) {
    added.set("algorithm", "fixed_window");
    if is_aligned {
        added.set("align", "clock");
    }
    added.set("limit", limit);
    added.set("window", window);
}

/// The window of a unit, and whether it starts with the calendar.
fn window(unit: &str, line: usize, draft: &mut ImportDraft) -> Option<UnitWindow> {
    let window = match unit.to_ascii_lowercase().as_str() {
        "second" => ("1s", true),
        "minute" => ("1m", true),
        "hour" => ("1h", true),
        "day" => ("1d", true),
        "week" => ("7d", false),
        "month" => ("1month", true),
        "year" => ("365d", false),
        _ => {
            let found = format!("unknown unit {unit:?}; the limit is left out");
            let advice = "use second, minute, hour, day, week, month or year";
            draft.gap(line, found, advice);
            return None;
        }
    };
    // There, each of them is a number of days that is counted from 1970.
    let (found, advice) = match window.0 {
        "1month" => (
            "`unit: month` is 30 days there, and a calendar month here".to_owned(),
            "use `window: 30d` without `align` for 30 days from the first request",
        ),
        "7d" | "365d" => (
            format!("`unit: {unit}`: the window starts with the first request of a key"),
            "use `window: 1month` with `align: clock` if it must be aligned",
        ),
        _ => return Some(window),
    };
    draft.gap(line, found, advice);
    Some(window)
}
