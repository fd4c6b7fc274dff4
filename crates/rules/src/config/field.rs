//! A value of the file with its path, read as a typed value. Errors are collected and reading
//! continues.

mod map;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use tollgate::Micros;

use super::diagnostic::{Diagnostic, Diagnostics, SourcePosition};
use super::path;
use super::scalar::{Origin, ScalarValue};
use super::values::{DURATION, INTEGER, SIZE, ValueError, ValueKind};
use super::yaml::{DocumentNode, YamlEntry, YamlValue};

pub(super) use map::FieldMap;

/// The maximum number of items of any list, and of fields of any mapping.
const ITEMS_MAX: usize = 1_000;

pub(super) const BOOLEAN: ValueKind<bool> =
    ValueKind::new("value", "expected true or false", |text| {
        text.parse().map_err(|_| ValueError::Unexpected)
    });

/// A value of the file. The methods that read it return `None` if the value is invalid; they have
/// reported the error by then.
#[derive(Clone)]
pub(super) struct ConfigField<'a> {
    pub(super) node: &'a DocumentNode,
    pub(super) path: String,
    pub(super) diagnostics: &'a Diagnostics<'a>,
    is_secret: bool,
}

impl<'a> ConfigField<'a> {
    pub(super) const fn new(
        node: &'a DocumentNode,
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
        self.node.position()
    }

    pub(super) fn error(&self, message: impl fmt::Display) {
        self.diagnostics.error(self.position(), &self.path, message);
    }

    /// Reports an error, for a value that cannot be read.
    pub(super) fn fail<T>(&self, message: impl fmt::Display) -> Option<T> {
        self.error(message);
        None
    }

    pub(super) fn warn(&self, message: impl fmt::Display) {
        self.diagnostics.warn(self.diagnostic(message));
    }

    /// A message about this field, which is not added to the others.
    pub(super) fn diagnostic(&self, message: impl fmt::Display) -> Diagnostic {
        let position = self.position();
        self.diagnostics.diagnostic(position, &self.path, message)
    }

    /// Records the position of this field, whose value is validated outside this crate.
    pub(super) fn record_position(&self) {
        self.diagnostics.record_position(self.diagnostic(""));
    }

    /// Reports an invalid value: what was found, and what is expected.
    pub(super) fn invalid<T>(&self, noun: &str, reason: impl fmt::Display) -> Option<T> {
        let found = match &self.node.value {
            _ if self.is_null() => "missing value;",
            YamlValue::Scalar(_) => &format!("invalid {noun} {}:", self.quoted()),
            YamlValue::List(nodes) if nodes.is_empty() => "found an empty list;",
            YamlValue::List(_) => "found a list;",
            YamlValue::Mapping(_) => "found a mapping;",
        };
        self.fail(format_args!("{found} {reason}"))
    }

    /// Reports that there are too many of something. Returns `None` in that case.
    pub(super) fn at_most(&self, max: usize, found: usize, what: &str) -> Option<()> {
        if found <= max {
            return Some(());
        }
        self.fail(format_args!(
            "too many {what}: found {found}, at most {max} are allowed"
        ))
    }

    /// The text of a scalar in quotes, as far as it may be shown.
    pub(super) fn quoted(&self) -> String {
        match self.scalar() {
            Some(scalar) if !self.is_secret => scalar.quoted(),
            _ => "(not shown)".into(),
        }
    }

    /// Whether messages must not repeat the value.
    pub(super) fn is_private(&self) -> bool {
        self.is_secret || self.scalar().is_some_and(ScalarValue::is_private)
    }

    /// Whether the value is a YAML null.
    pub(super) fn is_null(&self) -> bool {
        self.scalar().is_some_and(ScalarValue::is_null)
    }

    /// The scalar. `None` if the value is a list or a mapping.
    pub(super) const fn scalar(&self) -> Option<&'a ScalarValue> {
        self.node.scalar()
    }

    /// A string that is not empty.
    pub(super) fn string(&self, noun: &str, expected: &str) -> Option<&'a str> {
        match self.scalar() {
            Some(scalar) if scalar.origin == Origin::Failed => None,
            Some(scalar) if !scalar.is_null() && !scalar.value.is_empty() => Some(&scalar.value),
            _ => self.invalid(noun, expected),
        }
    }

    /// A value of this kind.
    pub(super) fn value<T>(&self, kind: &ValueKind<T>) -> Option<T> {
        self.parse(self.string(kind.noun, kind.expected)?, kind)
    }

    /// Parses a text, which is a part of this value.
    pub(super) fn parse<T>(&self, text: &str, kind: &ValueKind<T>) -> Option<T> {
        match (kind.parse)(text) {
            Ok(value) => Some(value),
            Err(ValueError::Reason(reason)) => self.invalid(kind.noun, reason),
            Err(ValueError::Noun(noun, reason)) => self.invalid(noun, reason),
            Err(ValueError::Suggestion(suggestion)) if !self.is_private() => {
                self.invalid(kind.noun, suggestion)
            }
            Err(ValueError::Message(message)) if !self.is_private() => self.fail(message),
            Err(_) => self.invalid(kind.noun, kind.expected),
        }
    }

    /// One of a list of names.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = list_or(&names);
        let text = self.string("value", &format!("expected {expected}"))?;

        let choice = choices.iter().find(|(name, _)| *name == text);
        if choice.is_none() {
            let suggestion = nearest(text, &names).filter(|_| !self.is_private());
            self.error(unknown("value", &self.quoted(), suggestion, &expected));
        }
        choice.map(|(_, choice)| *choice)
    }

    pub(super) fn integer_in<N: TryFrom<u64>>(&self, range: RangeInclusive<u64>) -> Option<N> {
        let number = self.value_in(&INTEGER, &range, u64::to_string)?;
        N::try_from(number).ok()
    }

    /// A number of bytes.
    pub(super) fn bytes_in(&self, range: RangeInclusive<u64>) -> Option<usize> {
        let bytes = self.value_in(&SIZE, &range, |bound| format!("{bound} bytes"))?;
        usize::try_from(bytes).ok()
    }

    pub(super) fn duration_in(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.value_in(&DURATION, &range, |bound| {
            Micros::from_duration_ceil(*bound).map_or_else(String::new, |bound| bound.to_string())
        })
    }

    fn value_in<T: PartialOrd>(
        &self,
        kind: &ValueKind<T>,
        range: &RangeInclusive<T>,
        format: impl Fn(&T) -> String,
    ) -> Option<T> {
        let value = self.value(kind)?;
        if range.contains(&value) {
            return Some(value);
        }

        let (min, max) = (format(range.start()), format(range.end()));
        self.invalid(kind.noun, format_args!("must be between {min} and {max}"))
    }

    /// The items of a list.
    pub(super) fn items(&self, expected: &str) -> Option<Vec<Self>> {
        let YamlValue::List(nodes) = &self.node.value else {
            return self.invalid("value", expected);
        };
        self.at_most(ITEMS_MAX, nodes.len(), "items")?;

        let item = |(index, node)| ConfigField {
            node,
            path: path::item(&self.path, index, node),
            ..*self
        };
        Some(nodes.iter().enumerate().map(item).collect())
    }

    /// A list whose items are of this kind.
    pub(super) fn values<T>(&self, expected: &str, kind: &ValueKind<T>) -> Option<Vec<T>> {
        let items = self.items(expected)?;
        collect_all(items.iter().map(|item| item.value(kind)))
    }

    /// The entries of a mapping.
    pub(super) fn entries(&self, expected: &str) -> Option<&'a [YamlEntry]> {
        let YamlValue::Mapping(entries) = &self.node.value else {
            return self.invalid("value", expected);
        };
        self.at_most(ITEMS_MAX, entries.len(), "fields")?;
        Some(entries)
    }
}

/// All values, or `None` if one is invalid. Every value is read, so that every error is reported.
pub(super) fn collect_all<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    values.collect::<Vec<_>>().into_iter().collect()
}

/// The error for an unknown name, with the name that was probably meant.
pub(super) fn unknown(what: &str, found: &str, suggestion: Option<&str>, names: &str) -> String {
    match suggestion {
        Some(suggestion) => {
            format!("unknown {what} {found}; did you mean `{suggestion}`? Expected {names}")
        }
        None => format!("unknown {what} {found}; expected {names}"),
    }
}

/// The name that is most similar to `found`. `None` if no name is similar enough.
pub(crate) fn nearest<'n>(found: &str, names: &[&'n str]) -> Option<&'n str> {
    let found = found.to_lowercase().replace('-', "_");
    if found.len() > 64 {
        return None;
    }

    let distances = names.iter().map(|name| {
        let distance = strsim::osa_distance(&found, &name.replace('-', "_"));
        (distance, *name)
    });
    distances
        .filter(|(distance, name)| *distance <= name.len().div_ceil(3).min(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Formats as `a, b or c`.
pub(super) fn list_or(names: &[&str]) -> String {
    join(names, "or")
}

/// Formats as `a, b and c`.
pub(crate) fn list_and(names: &[&str]) -> String {
    join(names, "and")
}

fn join(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).into(),
        [names @ .., last] => format!("{} {conjunction} {last}", names.join(", ")),
    }
}
