//! What differs between two configuration files, field by field, as a reload reports it.

use std::collections::{HashMap, HashSet};

use super::diagnostic::Diagnostics;
use super::path;
use super::scalar::ScalarValue;
use super::yaml::{self, YamlNode, YamlValue};
use crate::text::visible;

/// The most changes that are listed. Further ones are only counted.
const CHANGES_MAX: usize = 50;
/// The most characters of a value that a change shows.
const SHOWN_MAX: usize = 60;
/// The last parts of the paths of fields whose values are never shown.
const SECRETS: [&str; 4] = ["hash_secret", "token", "endpoints", "otlp_endpoint"];

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
        let (before, after) = (Outline::new(before), Outline::new(after));
        let mut changes = Self::default();
        changes.compare_limits(&before, &after);

        let shown: HashMap<&str, &OutlineField> = before.by_path();
        for field in &after.fields {
            let old = shown.get(&*field.path).copied();
            if old.is_none_or(|old| old.value != field.value) && !before.lacks(field, old) {
                changes.push(|| field.change(old, Some(field)));
            }
        }
        let shown = after.by_path();
        for field in &before.fields {
            if !shown.contains_key(&*field.path) && !after.lacks(field, None) {
                changes.push(|| field.change(Some(field), None));
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

    fn compare_limits(&mut self, before: &Outline, after: &Outline) {
        let is_new = |name: &&String| !before.limits.contains(*name);
        let added = after.limit_order.iter().filter(is_new);
        for name in added {
            self.push(|| format!("limit {name:?}: added"));
        }
        let is_gone = |name: &&String| !after.limits.contains(*name);
        for name in before.limit_order.iter().filter(is_gone) {
            self.push(|| format!("limit {name:?}: removed"));
        }

        let kept = |one: &'_ Outline, other: &Outline| -> Vec<String> {
            let names = one.limit_order.iter();
            let names = names.filter(|name| other.limits.contains(*name));
            names.cloned().collect()
        };
        if kept(before, after) != kept(after, before) {
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

/// The fields of a file, with their values as they may be shown.
#[derive(Debug, Default)]
struct Outline {
    fields: Vec<OutlineField>,
    limits: HashSet<String>,
    limit_order: Vec<String>,
}

/// A field of a file, and its value: a scalar or a list of scalars.
#[derive(Debug)]
struct OutlineField {
    path: String,
    /// The limit that has the field, and the field's path inside of it.
    limit: Option<(String, String)>,
    /// The text in the file, which may be a secret.
    value: String,
}

impl Outline {
    /// The outline of a file; an empty one if the file is invalid.
    fn new(text: &str) -> Self {
        let mut outline = Self::default();
        if let Some(root) = yaml::parse(text, &Diagnostics::new("")) {
            outline.add(&root, String::new(), None);
        }
        outline
    }

    /// Recurses into the tree, whose depth is bounded.
    fn add(&mut self, node: &YamlNode, path: String, limit: Option<(&str, &str)>) {
        match &node.value {
            YamlValue::Mapping(entries) => {
                for entry in entries {
                    let key = &entry.key.text;
                    let inside = limit.map(|(name, inside)| (name, path::field(inside, key)));
                    let inside = inside.as_ref().map(|(name, inside)| (*name, &**inside));
                    self.add(&entry.node, path::field(&path, key), inside);
                }
            }
            YamlValue::List(nodes) if nodes.iter().any(|node| scalar(node).is_none()) => {
                for (index, node) in nodes.iter().enumerate() {
                    self.add_item(node, &path, index, limit);
                }
            }
            YamlValue::List(nodes) => {
                let items: Vec<&str> = nodes.iter().filter_map(scalar).map(text).collect();
                self.push(path, limit, format!("[{}]", items.join(", ")));
            }
            YamlValue::Scalar(scalar) => self.push(path, limit, scalar.text.clone()),
        }
    }

    fn add_item(&mut self, node: &YamlNode, list: &str, index: usize, limit: Option<(&str, &str)>) {
        let path = path::item(list, index, node);
        let name = path
            .strip_prefix("limits[")
            .and_then(|name| name.strip_suffix(']'))
            .filter(|_| list == "limits")
            .map(str::to_owned);
        let Some(name) = name else {
            return self.add(node, path, limit);
        };

        self.limits.insert(name.clone());
        self.limit_order.push(name.clone());
        self.add(node, path, Some((&name, "")));
    }

    fn push(&mut self, path: String, limit: Option<(&str, &str)>, value: String) {
        let limit = limit.map(|(name, inside)| (name.to_owned(), inside.to_owned()));
        self.fields.push(OutlineField { path, limit, value });
    }

    fn by_path(&self) -> HashMap<&str, &OutlineField> {
        let fields = self.fields.iter();
        fields.map(|field| (&*field.path, field)).collect()
    }

    /// Whether the file lacks the limit of this field, which is then one change as a whole.
    fn lacks(&self, field: &OutlineField, old: Option<&OutlineField>) -> bool {
        let limit = field.limit.as_ref();
        old.is_none() && limit.is_some_and(|(name, _)| !self.limits.contains(name))
    }
}

impl OutlineField {
    /// The change of this field, as a line.
    fn change(&self, before: Option<&Self>, after: Option<&Self>) -> String {
        let place = match &self.limit {
            Some((name, inside)) => format!("limit {name:?}: {inside}"),
            None => self.path.clone() + ":",
        };
        let is_secret = [before, after]
            .iter()
            .flatten()
            .any(|field| field.is_secret());
        if is_secret {
            return format!("{place} changed (not shown)");
        }

        let shown = |field: Option<&Self>| match field {
            Some(field) => shortened(&field.value),
            None => "(default)".to_owned(),
        };
        format!("{place} {} -> {}", shown(before), shown(after))
    }

    /// Whether the value must not be shown: a secret field, any URL, and the default of a variable.
    fn is_secret(&self) -> bool {
        let last = self.path.rsplit('.').next().unwrap_or_default();
        let name = last.split('[').next().unwrap_or_default();
        SECRETS.contains(&name) || self.value.contains("://") || self.value.contains(":-")
    }
}

const fn scalar(node: &YamlNode) -> Option<&ScalarValue> {
    match &node.value {
        YamlValue::Scalar(scalar) => Some(scalar),
        _ => None,
    }
}

fn text(scalar: &ScalarValue) -> &str {
    &scalar.text
}

fn shortened(value: &str) -> String {
    let is_long = value.chars().nth(SHOWN_MAX).is_some();
    let dots = if is_long { "..." } else { "" };
    value.chars().take(SHOWN_MAX).collect::<String>() + dots
}
