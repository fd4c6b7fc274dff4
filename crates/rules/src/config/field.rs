//! A value of the file with its path, read as a typed value. Errors are collected and reading
//! continues.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use tollgate::Micros;

use super::diagnostic::{Diagnostics, SourcePosition};
use super::field_map::FieldMap;
use super::path;
use super::scalar::{Origin, ScalarValue};
use super::values::{self, ValueError};
use super::yaml::{YamlNode, YamlValue};

/// The maximum number of items of any list, and of fields of any mapping.
const ITEMS_MAX: usize = 1_000;

const BOOLEAN: Expectation<'static> = Expectation::value("expected true or false");
const DURATION: Expectation<'static> = Expectation::new("duration", values::DURATION);
const INTEGER: Expectation<'static> = Expectation::new("number", values::INTEGER);
const SIZE: Expectation<'static> = Expectation::new("size", values::SIZE);

/// The value that a field should have, for error messages.
#[derive(Clone, Copy)]
pub(super) struct Expectation<'e> {
    /// The kind of value, such as `duration`: "invalid duration .."
    pub(super) noun: &'e str,
    /// What is expected: "expected a number with a unit, such as 10ms".
    pub(super) reason: &'e str,
}

impl<'e> Expectation<'e> {
    pub(super) const fn new(noun: &'e str, reason: &'e str) -> Self {
        Self { noun, reason }
    }

    /// An expectation of a value that has no better noun.
    pub(super) const fn value(reason: &'e str) -> Self {
        Self::new("value", reason)
    }
}

/// A value of the file. The methods that read it return `None` if the value is invalid; they have
/// reported the error by then.
#[derive(Clone)]
pub(super) struct ConfigField<'a> {
    pub(super) node: &'a YamlNode,
    pub(super) path: String,
    pub(super) diagnostics: &'a Diagnostics<'a>,
    is_secret: bool,
}

impl<'a> ConfigField<'a> {
    pub(super) const fn new(
        node: &'a YamlNode,
        path: String,
        diagnostics: &'a Diagnostics<'a>,
    ) -> Self {
        Self {
            node,
            path,
            diagnostics,
            is_secret: false,
        }
    }

    /// Marks the field as secret, so that no error shows any of it.
    pub(super) fn into_secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    pub(super) const fn position(&self) -> SourcePosition {
        self.node.position
    }

    pub(super) fn error(&self, message: impl fmt::Display) {
        self.diagnostics.error(self.position(), &self.path, message);
    }

    pub(super) fn note(&self, message: impl fmt::Display) {
        self.diagnostics.note(self.position(), &self.path, message);
    }

    /// Records the position of this field, whose value is validated outside this crate.
    pub(super) fn record_position(&self) {
        self.diagnostics
            .record_position(self.position(), &self.path);
    }

    /// Reports an invalid value: what was found, and what is expected.
    pub(super) fn invalid(&self, noun: &str, reason: impl fmt::Display) {
        match &self.node.value {
            YamlValue::Scalar(scalar) if scalar.is_null() => {
                self.error(format_args!("missing value; {reason}"));
            }
            YamlValue::Scalar(_) if self.is_secret => {
                self.error(format_args!("invalid {noun} (not shown): {reason}"));
            }
            YamlValue::Scalar(scalar) => {
                self.error(format_args!("invalid {noun} {}: {reason}", scalar.quoted()));
            }
            YamlValue::List(nodes) if nodes.is_empty() => {
                self.error(format_args!("found an empty list; {reason}"));
            }
            YamlValue::List(_) => self.error(format_args!("found a list; {reason}")),
            YamlValue::Mapping(_) => self.error(format_args!("found a mapping; {reason}")),
        }
    }

    /// Reports that the value is not as expected.
    pub(super) fn unexpected(&self, expected: Expectation<'_>) {
        self.invalid(expected.noun, expected.reason);
    }

    /// The text of a scalar in quotes, as far as it may be shown.
    pub(super) fn quoted(&self) -> String {
        match &self.node.value {
            YamlValue::Scalar(scalar) if !self.is_secret => scalar.quoted(),
            _ => "(not shown)".into(),
        }
    }

    /// Whether the value is a YAML null.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.node.value, YamlValue::Scalar(scalar) if scalar.is_null())
    }

    /// Whether messages must not repeat the value.
    pub(super) fn is_private(&self) -> bool {
        self.is_secret
            || matches!(&self.node.value, YamlValue::Scalar(scalar) if scalar.is_private())
    }

    /// A string that is not empty.
    pub(super) fn string(&self, expected: Expectation<'_>) -> Option<&'a str> {
        let text = self.scalar(expected)?;
        if text.is_empty() {
            self.unexpected(expected);
        }
        Some(text).filter(|text| !text.is_empty())
    }

    fn scalar(&self, expected: Expectation<'_>) -> Option<&'a str> {
        match &self.node.value {
            YamlValue::Scalar(ScalarValue {
                origin: Origin::Failed,
                ..
            }) => None,
            YamlValue::Scalar(scalar) if !scalar.is_null() => Some(&scalar.value),
            _ => {
                self.unexpected(expected);
                None
            }
        }
    }

    /// A string that a type parses. If the value is private, `expected` replaces the error of the
    /// type, which may repeat the value.
    pub(super) fn parse<T: FromStr<Err: fmt::Display>>(
        &self,
        expected: Expectation<'_>,
    ) -> Option<T> {
        let text = self.string(expected)?;
        self.parsed(text.parse(), expected)
    }

    /// Reports the error of a value that a type has parsed.
    pub(super) fn parsed<T, E: fmt::Display>(
        &self,
        result: Result<T, E>,
        expected: Expectation<'_>,
    ) -> Option<T> {
        result
            .map_err(|error| {
                if self.is_private() {
                    self.unexpected(expected);
                } else {
                    self.error(error);
                }
            })
            .ok()
    }

    /// One of a list of names.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = list_or(&names);
        let text = self.string(Expectation::value(&format!("expected {expected}")))?;

        let choice = choices
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, choice)| *choice);

        if choice.is_none() {
            let found = self.quoted();
            match nearest(text, &names).filter(|_| !self.is_private()) {
                Some(suggestion) => self.error(format_args!(
                    "unknown value {found}; did you mean `{suggestion}`? Expected {expected}"
                )),
                None => self.error(format_args!("unknown value {found}; expected {expected}")),
            }
        }
        choice
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let text = self.string(BOOLEAN)?;
        let flag = text.parse().ok();
        if flag.is_none() {
            self.unexpected(BOOLEAN);
        }
        flag
    }

    /// A whole number of any size.
    pub(super) fn integer(&self) -> Option<u64> {
        self.read_with(values::integer, INTEGER)
    }

    pub(super) fn integer_in(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.integer()?;
        self.in_range(INTEGER.noun, number, &range, u64::to_string)
    }

    /// A number of bytes.
    pub(super) fn bytes_in(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let size = self.read_with(values::bytes, SIZE)?;
        self.in_range(SIZE.noun, size, &range, |bound| format!("{bound} bytes"))
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        self.read_with(values::duration, DURATION)
    }

    pub(super) fn duration_in(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let duration = self.duration()?;
        self.in_range(DURATION.noun, duration, &range, |bound| {
            format_duration(*bound)
        })
    }

    /// A value that `read` parses.
    pub(super) fn read_with<T>(
        &self,
        read: impl Fn(&str) -> Result<T, ValueError>,
        expected: Expectation<'_>,
    ) -> Option<T> {
        let text = self.string(expected)?;

        read(text.trim())
            .map_err(|error| match error.suggestion {
                Some(suggestion) if !self.is_private() => self.invalid(expected.noun, suggestion),
                _ => self.invalid(expected.noun, error.reason),
            })
            .ok()
    }

    fn in_range<T: PartialOrd>(
        &self,
        noun: &str,
        value: T,
        range: &RangeInclusive<T>,
        format: impl Fn(&T) -> String,
    ) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }

        let (min, max) = (format(range.start()), format(range.end()));
        self.invalid(noun, format_args!("must be between {min} and {max}"));
        None
    }

    /// The items of a list.
    pub(super) fn list(&self, expected: Expectation<'_>) -> Option<Vec<ConfigField<'a>>> {
        let YamlValue::List(nodes) = &self.node.value else {
            self.unexpected(expected);
            return None;
        };

        if nodes.len() > ITEMS_MAX {
            let found = nodes.len();
            self.error(format_args!(
                "too many items: found {found}, at most {ITEMS_MAX} are allowed"
            ));
            return None;
        }
        Some(self.items(nodes))
    }

    pub(super) fn items(&self, nodes: &'a [YamlNode]) -> Vec<ConfigField<'a>> {
        let item = |(index, node)| ConfigField {
            node,
            path: path::item(&self.path, index, node),
            diagnostics: self.diagnostics,
            is_secret: self.is_secret,
        };
        nodes.iter().enumerate().map(item).collect()
    }

    /// A mapping with these fields. Reports all others.
    pub(super) fn mapping(&self, known: &'static [&'static str]) -> Option<FieldMap<'a>> {
        let expected = format!("expected a mapping with the fields {}", list_and(known));
        let mapping = self
            .free_mapping(Expectation::value(&expected))?
            .with_known(known);

        mapping.reject_unknown();
        Some(mapping)
    }

    /// A mapping with any keys.
    pub(super) fn free_mapping(&self, expected: Expectation<'_>) -> Option<FieldMap<'a>> {
        let YamlValue::Mapping(entries) = &self.node.value else {
            self.unexpected(expected);
            return None;
        };

        if entries.len() > ITEMS_MAX {
            let found = entries.len();
            self.error(format_args!(
                "too many fields: found {found}, at most {ITEMS_MAX} are allowed"
            ));
            return None;
        }
        Some(FieldMap::new(self.clone(), entries))
    }
}

/// All values, or `None` if one is invalid. Every value is read, so that every error is reported.
pub(super) fn collect_all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    values.collect::<Vec<_>>().into_iter().collect()
}

fn format_duration(duration: Duration) -> String {
    Micros::from_duration_ceil(duration)
        .map_or_else(|| format!("{duration:?}"), |micros| micros.to_string())
}

/// The name that is most similar to `found`. `None` if no name is similar enough.
pub(super) fn nearest<'n>(found: &str, names: &[&'n str]) -> Option<&'n str> {
    let found = found.to_lowercase().replace('-', "_");
    let distance = |name: &str| strsim::osa_distance(&found, &name.replace('-', "_"));
    let distance_max = |name: &str| name.len().div_ceil(3).min(3);

    if found.len() > 64 {
        return None;
    }
    names
        .iter()
        .copied()
        .filter(|name| distance(name) <= distance_max(name))
        .min_by_key(|name| distance(name))
}

/// Formats as `a, b or c`.
pub(super) fn list_or(names: &[&str]) -> String {
    join(names, "or")
}

/// Formats as `a, b and c`.
pub(super) fn list_and(names: &[&str]) -> String {
    join(names, "and")
}

fn join(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).into(),
        [names @ .., last] => format!("{} {conjunction} {last}", names.join(", ")),
    }
}
