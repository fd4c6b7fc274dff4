//! The configuration that an import writes: limits with the lines they come from, and what of the
//! source has no equivalent.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde::Serialize;
use tollgate_rules::text::visible;

/// The longest name of a limit, in bytes.
const NAME_MAX: usize = 47;
/// The most limits of a file.
const LIMITS_MAX: usize = 1_000;
/// The most characters of the source that a comment or a message repeats.
const SHOWN_MAX: usize = 300;

/// What an import found in a file.
#[derive(Debug, Default)]
pub(super) struct ImportDraft {
    /// Sections before the limits, as YAML with line breaks.
    pub(super) sections: Vec<String>,
    limits: Vec<LimitDraft>,
    names: HashSet<String>,
    gaps: Vec<ImportGap>,
}

/// A limit: its name, the line it comes from, and its other fields as YAML.
#[derive(Debug)]
pub(super) struct LimitDraft {
    name: String,
    pub(super) line: usize,
    /// What the line says, for a comment.
    pub(super) source: String,
    fields: Vec<(&'static str, String)>,
}

/// Something of the source that has no equivalent.
#[derive(Debug, Serialize)]
pub(super) struct ImportGap {
    /// The line of the source, from 1.
    pub(super) line: usize,
    /// What was found, and how it differs here.
    pub(super) found: String,
    /// What to do instead.
    pub(super) advice: String,
}

impl ImportDraft {
    /// Adds a limit. Its name is made valid and unique.
    pub(super) fn add(&mut self, mut limit: LimitDraft) {
        if self.limits.len() == LIMITS_MAX {
            self.gap(
                limit.line,
                format!("more than {LIMITS_MAX} limits; the rest is left out"),
                "import the file in parts",
            );
            return;
        }
        limit.name = self.unique_name(&limit.name);
        self.limits.push(limit);
    }

    /// Notes something that has no equivalent. The same message is listed once per line.
    pub(super) fn gap(&mut self, line: usize, found: impl Into<String>, advice: impl Into<String>) {
        let gap = ImportGap {
            line,
            found: shown(&found.into()),
            advice: advice.into(),
        };
        let is_same = |other: &ImportGap| other.line == gap.line && other.found == gap.found;
        if self.gaps.len() < LIMITS_MAX && !self.gaps.iter().any(is_same) {
            self.gaps.push(gap);
        }
    }

    /// The number of limits.
    pub(super) const fn len(&self) -> usize {
        self.limits.len()
    }

    /// Leaves out the limits that `validate` rejects in a file of their own, with the reason.
    pub(super) fn retain_valid(&mut self, validate: impl Fn(&str) -> Result<(), String>) {
        let mut limits = std::mem::take(&mut self.limits);
        limits.sort_by_key(|limit| limit.line);
        for limit in limits {
            match validate(&format!("limits:\n{}", limit.to_yaml())) {
                Ok(()) => self.limits.push(limit),
                Err(reason) => self.gap(
                    limit.line,
                    format!("{} is left out: {reason}", limit.source),
                    "write this limit by hand",
                ),
            }
        }
    }

    /// What has no equivalent, in file order.
    pub(super) fn into_gaps(mut self) -> Vec<ImportGap> {
        self.gaps.sort_by_key(|gap| gap.line);
        self.gaps
    }

    /// The configuration file.
    pub(super) fn to_yaml(&self, source: &str, format: &str) -> String {
        let mut text = format!(
            "# Imported from {} ({format}).\nversion: 1\n",
            shown(source)
        );
        for section in &self.sections {
            let _infallible = write!(text, "\n{section}");
        }
        let limits: Vec<String> = self.limits.iter().map(LimitDraft::to_yaml).collect();
        text + "\nlimits:\n" + &limits.join("\n")
    }

    fn unique_name(&mut self, wanted: &str) -> String {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let chars = wanted.chars().take(NAME_MAX);
        let valid: String = chars.map(|c| if is_valid(c) { c } else { '-' }).collect();
        let mut name = match valid.trim_matches('-') {
            "" => "limit".to_owned(),
            reserved if reserved.starts_with("override:") => "limit".to_owned(),
            trimmed => trimmed.to_owned(),
        };

        let base: String = name.chars().take(NAME_MAX - 5).collect();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{base}-{number}");
            number += 1;
        }
        name
    }
}

impl LimitDraft {
    /// A limit without fields.
    pub(super) fn new(name: impl Into<String>, line: usize, source: String) -> Self {
        Self {
            name: name.into(),
            line,
            source,
            fields: Vec::new(),
        }
    }

    /// Adds a field with its value as YAML.
    pub(super) fn set(&mut self, field: &'static str, value: impl Into<String>) {
        self.fields.push((field, value.into()));
    }

    /// The item of the list of limits, with a comment about its source.
    fn to_yaml(&self) -> String {
        let (line, source) = (self.line, shown(&self.source));
        let name = quoted(&self.name);
        let mut text = format!("  # line {line}: {source}\n  - name: {name}\n");
        for (field, value) in &self.fields {
            let _infallible = writeln!(text, "    {field}: {value}");
        }
        text
    }
}

/// The start of a text of the source, in one line.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => visible(&text[..end]).into_owned() + "..",
        None => visible(text).into_owned(),
    }
}

/// A string as YAML: in double quotes unless it is a plain word, and with variables escaped.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if starts_plain && text.chars().all(is_plain) && !is_reserved {
        return text.to_owned();
    }
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// A list of strings as YAML.
pub(super) fn quoted_list(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts = texts.into_iter().map(|text| quoted(text.as_ref()));
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

/// Attributes with their values, which are YAML, as a mapping.
pub(super) fn conditions(
    conditions: impl IntoIterator<Item = (impl AsRef<str>, String)>,
) -> String {
    let conditions = conditions.into_iter();
    let conditions: Vec<String> = conditions
        .map(|(attribute, value)| format!("{}: {value}", quoted(attribute.as_ref())))
        .collect();
    format!("{{ {} }}", conditions.join(", "))
}
