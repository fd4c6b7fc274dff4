//! Entries of descriptors: which values they match, and which limits meet the same descriptor.

use std::net::IpAddr;

use tollgate_rules::config::DocumentNode;

use super::super::draft::{ImportDraft, conditions, quoted, quoted_list};
use super::super::outline::{attribute, is_true, text_of};

/// An entry of a descriptor: its key, and its value if the file has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct DescriptorEntry<'n> {
    pub(super) key: &'n str,
    pub(super) value: Option<&'n str>,
    /// Whether the values of a wildcard share a counter.
    pub(super) is_shared: bool,
}

/// The entries of a limit, from the outermost one.
#[derive(Debug)]
pub(super) struct DescriptorPath<'n> {
    pub(super) line: usize,
    pub(super) entries: Vec<DescriptorEntry<'n>>,
    /// Values of the last entry that have a descriptor of their own.
    pub(super) exempt: Vec<&'n str>,
}

impl<'n> DescriptorEntry<'n> {
    /// The entry of a descriptor that has a key.
    pub(super) fn new(key: &'n str, node: &'n DocumentNode) -> Self {
        Self {
            key,
            value: text_of(node, "value"),
            is_shared: is_true(node, "share_threshold"),
        }
    }

    /// The start of the values that a wildcard matches.
    fn prefix(&self) -> Option<&'n str> {
        self.value?.strip_suffix('*')
    }

    /// Whether each value has its own counter.
    pub(super) fn is_counted(&self) -> bool {
        self.value.is_none() || (self.prefix().is_some() && !self.is_shared)
    }

    /// Whether the entry matches one value only.
    pub(super) fn is_exact(&self) -> bool {
        self.value.is_some() && self.prefix().is_none()
    }

    /// Whether a star is somewhere else than at the end, where it is a character like others.
    pub(super) fn has_inner_star(&self) -> bool {
        let value = self.value.unwrap_or_default();
        self.prefix().unwrap_or(value).contains('*')
    }

    /// Whether the entry matches a value that the other one has, too.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (self.value, other.value) else {
            return self.key == other.key;
        };
        let is_met = match (self.prefix(), other.prefix()) {
            (None, None) => own == others,
            (Some(start), None) => others.starts_with(start),
            (None, Some(start)) => own.starts_with(start),
            (Some(start), Some(other)) => start.starts_with(other) || other.starts_with(start),
        };
        self.key == other.key && is_met
    }
}

impl DescriptorPath<'_> {
    /// Whether the limit here also meets the descriptors of another one, which are longer.
    fn meets(&self, longer: &Self) -> bool {
        let last = self.entries.len().saturating_sub(1);
        let has = |(index, entry): (usize, &DescriptorEntry<'_>)| {
            let is_exempt = |other: &DescriptorEntry<'_>| {
                let value = other.value.filter(|_| index == last);
                value.is_some_and(|value| self.exempt.contains(&value))
            };
            let mut others = longer.entries.iter();
            others.any(|other| entry.meets(other) && !is_exempt(other))
        };
        self.entries.len() < longer.entries.len() && self.entries.iter().enumerate().all(has)
    }
}

/// Notes the limits that here also meet longer descriptors. There, the number of entries must be
/// the same.
pub(super) fn warn_about_longer(limits: &[DescriptorPath<'_>], draft: &mut ImportDraft) {
    for limit in limits {
        let Some(longer) = limits.iter().find(|other| limit.meets(other)) else {
            continue;
        };
        let entries = match limit.entries.len() {
            1 => "one entry".to_owned(),
            count => format!("{count} entries"),
        };
        let found = format!(
            "there it applies to descriptors with {entries} only; here also to longer ones, such \
             as those of line {}, and once for each descriptor of a request",
            longer.line
        );
        let advice = "send one descriptor with all entries, or give the entry another key where \
                      it must not count";
        draft.gap(limit.line, found, advice);
    }
}

/// The conditions: the domain, and every entry with a value.
pub(super) fn matches(domain: &str, path: &[DescriptorEntry<'_>]) -> String {
    let entries = path.iter().filter_map(|entry| {
        // A star at the end is any text, also with slashes.
        let pattern = entry.prefix().map(|start| format!("{start}**"));
        let value = pattern.as_deref().or(entry.value)?;
        Some((attribute(entry.key)?, quoted(value)))
    });
    let domain = ("domain".to_owned(), quoted(domain));
    conditions([domain].into_iter().chain(entries))
}

/// The key: every entry whose values have counters of their own.
pub(super) fn key(path: &[DescriptorEntry<'_>]) -> String {
    let counted = path.iter().filter(|entry| entry.is_counted());
    quoted_list(counted.filter_map(|entry| attribute(entry.key)))
}

/// A standing list with one key for each item: the values of its attributes.
pub(super) fn standing_list(keys: impl IntoIterator<Item = Vec<(String, String)>>) -> String {
    let key = |key: Vec<(String, String)>| {
        let values = key.into_iter();
        conditions(values.map(|(name, value)| (name, quoted(&value))))
    };
    let keys: Vec<String> = keys.into_iter().map(key).collect();
    format!("{{ keys: [{}] }}", keys.join(", "))
}

/// The attribute and the value of an entry, if they can be in a standing list.
pub(super) fn standing_value(key: &str, value: &str) -> Option<(String, String)> {
    let attribute = attribute(key)?;
    let is_valid = attribute != "client_ip" || value.parse::<IpAddr>().is_ok();
    is_valid.then(|| (attribute, value.to_owned()))
}
