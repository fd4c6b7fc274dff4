//! Access to the fields of a YAML mapping, with errors for missing and unknown fields.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{ConfigField, list_and, list_or, nearest, unknown};
use crate::config::diagnostic::SourcePosition;
use crate::config::names::RENAMED;
use crate::config::values::ValueKind;
use crate::config::yaml::YamlEntry;
use crate::config::{foreign, path};

/// A YAML mapping of the file, read by the names of its fields.
pub(crate) struct FieldMap<'a> {
    /// The mapping itself.
    pub(crate) field: ConfigField<'a>,
    entries: &'a [YamlEntry],
    /// The allowed fields. Empty if the keys are free, as in `tiers`.
    known: &'static [&'static str],
}

impl<'a> FieldMap<'a> {
    /// Reads a mapping with these fields. Reports all others.
    pub(crate) fn new(field: &ConfigField<'a>, known: &'static [&'static str]) -> Option<Self> {
        let expected = format!("expected a mapping with the fields {}", list_and(known));
        let mapping = Self {
            known,
            ..Self::with_free_keys(field, &expected)?
        };
        mapping.reject_unknown();
        Some(mapping)
    }

    /// Reads a mapping with any keys.
    pub(crate) fn with_free_keys(field: &ConfigField<'a>, expected: &str) -> Option<Self> {
        Some(Self {
            entries: field.entries(expected)?,
            field: field.clone(),
            known: &[],
        })
    }

    /// The field with this name. `None` if it is absent.
    pub(crate) fn get(&self, name: &str) -> Option<ConfigField<'a>> {
        Some(self.value_of(self.entry(name)?))
    }

    /// The field with this name. Reports an error if it is absent.
    pub(crate) fn require(&self, name: &str, expected: &str) -> Option<ConfigField<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.missing(name, expected);
        }
        field
    }

    /// Reads a field if it is present.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&ConfigField<'a>) -> Option<T>,
    ) -> Option<T> {
        read(&self.get(name)?)
    }

    /// Reads a field of this kind if it is present.
    pub(crate) fn value<T>(&self, name: &str, kind: &ValueKind<T>) -> Option<T> {
        self.get(name)?.value(kind)
    }

    /// Reads a field of this kind, which must be present.
    pub(crate) fn require_value<T>(&self, name: &str, kind: &ValueKind<T>) -> Option<T> {
        self.require(name, kind.expected)?.value(kind)
    }

    /// Reads a secret of this kind, which must be present.
    pub(crate) fn require_secret<T>(&self, name: &str, kind: &ValueKind<T>) -> Option<T> {
        self.require(name, kind.expected)?.into_secret().value(kind)
    }

    /// Reads one of a list of names if the field is present.
    pub(crate) fn choice<T: Copy>(&self, name: &str, choices: &[(&'static str, T)]) -> Option<T> {
        self.get(name)?.choice(choices)
    }

    /// Reads a whole number if the field is present.
    pub(crate) fn integer<N: TryFrom<u64>>(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Option<N> {
        self.get(name)?.integer_in(range)
    }

    /// Reads a duration if the field is present.
    pub(crate) fn duration(&self, name: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.get(name)?.duration_in(range)
    }

    /// Reads one of a list of names; the default if there is none.
    pub(crate) fn choice_or<T: Copy>(
        &self,
        name: &str,
        choices: &[(&'static str, T)],
        default: T,
    ) -> T {
        self.choice(name, choices).unwrap_or(default)
    }

    /// Reads a whole number; the default if there is none.
    pub(crate) fn integer_or<N: TryFrom<u64>>(
        &self,
        name: &str,
        range: RangeInclusive<u64>,
        default: N,
    ) -> N {
        self.integer(name, range).unwrap_or(default)
    }

    /// Reads a duration; the default if there is none.
    pub(crate) fn duration_or(
        &self,
        name: &str,
        range: RangeInclusive<Duration>,
        default: Duration,
    ) -> Duration {
        self.duration(name, range).unwrap_or(default)
    }

    /// Reads a mapping with these fields if it is present.
    pub(crate) fn section(&self, name: &str, known: &'static [&'static str]) -> Option<Self> {
        Self::new(&self.get(name)?, known)
    }

    /// Reports a missing field at the start of the mapping. If the field is there under a
    /// misspelled or former name, that was reported already.
    pub(crate) fn missing(&self, name: &str, reason: impl fmt::Display) {
        let is_meant = |entry: &YamlEntry| self.explain(&entry.key.text).0 == Some(name);
        if self.field.diagnostics.is_full() || !self.unknown().any(is_meant) {
            let position = self.field.position();
            self.error_at(
                position,
                name,
                format_args!("missing field `{name}`; {reason}"),
            );
        }
    }

    /// Every entry with its value.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a YamlEntry, ConfigField<'a>)> + '_ {
        self.entries
            .iter()
            .map(|entry| (entry, self.value_of(entry)))
    }

    pub(crate) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports an error at the key of an entry instead of its value.
    pub(crate) fn error_at_key(&self, entry: &YamlEntry, message: impl fmt::Display) {
        self.error_at(entry.position, &entry.key.text, message);
    }

    fn error_at(&self, position: SourcePosition, key: &str, message: impl fmt::Display) {
        let path = path::field(&self.field.path, key);
        self.field.diagnostics.error(position, &path, message);
    }

    /// Reports an error at the key of a field if the field is present.
    pub(crate) fn reject(&self, name: &str, message: impl fmt::Display) {
        if let Some(entry) = self.entry(name) {
            self.error_at_key(entry, message);
        }
    }

    fn entry(&self, name: &str) -> Option<&'a YamlEntry> {
        self.entries.iter().find(|entry| entry.key.text == name)
    }

    /// Reports every field that the mapping does not allow.
    fn reject_unknown(&self) {
        for entry in self.unknown() {
            // Comparing names is slow, so it is skipped once errors are only counted.
            let message = if self.field.diagnostics.is_full() {
                String::new()
            } else {
                self.explain(&entry.key.text).1
            };
            self.error_at_key(entry, message);
        }
    }

    /// The known field that an unknown one was probably meant to be, and the error about it.
    fn explain(&self, name: &str) -> (Option<&'static str>, String) {
        let key = path::name(name);
        let is_former = |(old, new): &&(&str, &str)| *old == name && self.known.contains(new);
        if let Some((_, new)) = RENAMED.iter().find(is_former) {
            return (Some(new), format!("{key} was renamed; use `{new}`"));
        }
        if let Some((field, advice)) = foreign::find(name, self.known) {
            let message = format!("{key} is a field of other rate limiters; {advice}");
            return (field, message);
        }

        let known = format!("one of {}", list_or(self.known));
        let suggestion = nearest(name, self.known);
        (suggestion, unknown("field", &key, suggestion, &known))
    }

    fn unknown(&self) -> impl Iterator<Item = &'a YamlEntry> {
        let known = self.known;
        let is_unknown = move |entry: &&YamlEntry| {
            !known.is_empty() && !known.contains(&entry.key.text.as_str())
        };
        self.entries.iter().filter(is_unknown)
    }

    fn value_of(&self, entry: &'a YamlEntry) -> ConfigField<'a> {
        ConfigField::new(
            &entry.node,
            path::field(&self.field.path, &entry.key.text),
            self.field.diagnostics,
        )
    }
}
