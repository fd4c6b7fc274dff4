//! What differs between two configuration files, field by field, as a reload reports it.

use std::collections::{HashMap, HashSet};

use super::diagnostic::Diagnostics;
use super::names::SECRETS;
use super::path;
use super::yaml::{self, DocumentNode, YamlValue};
use crate::text::visible;

/// The most changes that are listed. Further ones are only counted.
const CHANGES_MAX: usize = 50;
/// The most characters of a value that a change shows.
const SHOWN_MAX: usize = 60;

/// The differences between two configuration files, as lines such as
/// `limit "api": limit 100 -> 200`. No line shows a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChanges {
    lines: Vec<String>,
    more: usize,
}

impl ConfigChanges {
    /// Compares the texts of two valid files: what is written in them, with variables unexpanded.
    ///
    /// ```
    /// use tollgate_rules::config::ConfigChanges;
    ///
    /// let before = "limits: [{ name: api, limit: 5, window: 1m }]";
    /// let changes = ConfigChanges::between(before, &before.replace('5', "9"));
    /// assert_eq!(changes.lines(), [r#"limit "api": limit 5 -> 9"#]);
    /// ```
    pub fn between(before: &str, after: &str) -> Self {
        let (before, after) = (outline(before), outline(after));
        let [old, new] = [&before, &after].map(|fields| Outline::new(fields));
        let mut changes = Self::default();
        changes.compare_limits(&old, &new);

        for (path, value) in &after {
            let known = old.values.get(&**path).copied();
            if known != Some(value) && (known.is_some() || old.has_limit_of(path)) {
                changes.push(|| change(path, known, Some(value)));
            }
        }
        for (path, value) in &before {
            if !new.values.contains_key(&**path) && new.has_limit_of(path) {
                changes.push(|| change(path, Some(value), None));
            }
        }
        changes
    }

    /// One line for each change, at most 51: the last one counts those that are left out.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.lines.iter().cloned().chain(more).collect()
    }

    /// How many changes there are, including those that are not listed.
    pub fn len(&self) -> usize {
        self.lines.len() + self.more
    }

    /// Whether the files have the same fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn compare_limits(&mut self, old: &Outline<'_>, new: &Outline<'_>) {
        for name in new.limits_outside(old) {
            self.push(|| format!("limit {name:?}: added"));
        }
        for name in old.limits_outside(new) {
            self.push(|| format!("limit {name:?}: removed"));
        }

        let kept = |one: &Outline<'_>, other: &Outline<'_>| {
            let names = one.limit_order.iter();
            let names = names.filter(|name| other.limits.contains(*name));
            names.map(ToString::to_string).collect::<Vec<_>>()
        };
        if kept(old, new) != kept(new, old) {
            self.push(|| "limits: order changed".to_owned());
        }
    }

    fn push(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < CHANGES_MAX {
            self.lines.push(visible(&line()).into_owned());
        } else {
            self.more += 1;
        }
    }
}

/// The fields of a file by their paths, and its limits.
struct Outline<'f> {
    values: HashMap<&'f str, &'f str>,
    limits: HashSet<&'f str>,
    limit_order: Vec<&'f str>,
}

impl<'f> Outline<'f> {
    fn new(fields: &'f [(String, String)]) -> Self {
        let names = fields.iter().filter_map(|(path, _)| in_limit(path));
        let mut limit_order: Vec<&str> = names.map(|(name, _)| name).collect();
        limit_order.dedup();
        let values = fields.iter().map(|(path, value)| (&**path, &**value));
        Self {
            values: values.collect(),
            limits: limit_order.iter().copied().collect(),
            limit_order,
        }
    }

    fn limits_outside(&self, other: &Self) -> impl Iterator<Item = &&'f str> {
        let names = self.limit_order.iter();
        names.filter(|name| !other.limits.contains(*name))
    }

    /// Whether the file has the limit of a field, if that is one of a limit. If not, the whole
    /// limit is one change.
    fn has_limit_of(&self, path: &str) -> bool {
        in_limit(path).is_none_or(|(name, _)| self.limits.contains(name))
    }
}

/// The limit that a field belongs to, and the field's path inside of it.
fn in_limit(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("limits[")?.split_once("].")
}

/// The paths of all fields of a file with their values as written: a scalar, or a list of scalars.
/// Empty if the file is invalid.
fn outline(text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    if let Some(root) = yaml::parse(text, &Diagnostics::new("")) {
        add_fields(&root, String::new(), &mut fields);
    }
    fields
}

/// Recurses into the tree, whose depth is bounded.
fn add_fields(node: &DocumentNode, path: String, fields: &mut Vec<(String, String)>) {
    match &node.value {
        YamlValue::Mapping(entries) => {
            for entry in entries {
                add_fields(&entry.node, path::field(&path, &entry.key.text), fields);
            }
        }
        YamlValue::List(nodes) => {
            let texts: Option<Vec<&str>> = nodes.iter().map(DocumentNode::text).collect();
            if let Some(texts) = texts {
                fields.push((path, format!("[{}]", texts.join(", "))));
                return;
            }
            for (index, node) in nodes.iter().enumerate() {
                add_fields(node, path::item(&path, index, node), fields);
            }
        }
        YamlValue::Scalar(scalar) => fields.push((path, scalar.text.clone())),
    }
}

/// The change of a field, as a line.
fn change(path: &str, before: Option<&str>, after: Option<&str>) -> String {
    let place = match in_limit(path) {
        Some((name, inside)) => format!("limit {name:?}: {inside}"),
        None => format!("{path}:"),
    };
    let mut values = before.into_iter().chain(after);
    if is_secret(path) || values.any(|value| value.contains("://") || value.contains(":-")) {
        return format!("{place} changed (not shown)");
    }

    let shown = |value: Option<&str>| value.map_or("(default)".to_owned(), shortened);
    format!("{place} {} -> {}", shown(before), shown(after))
}

/// Whether a field is secret. The value of any URL, and of a variable with a default, is so, too.
fn is_secret(path: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or_default();
    SECRETS.contains(&last.split('[').next().unwrap_or_default())
}

fn shortened(value: &str) -> String {
    let is_long = value.chars().nth(SHOWN_MAX).is_some();
    let dots = if is_long { "..." } else { "" };
    value.chars().take(SHOWN_MAX).collect::<String>() + dots
}
