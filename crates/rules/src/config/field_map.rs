//! Access to the fields of a YAML mapping, with errors for missing and unknown fields.

use std::fmt;

use super::diagnostic::SourcePosition;
use super::field::{ConfigField, Expectation, list_or, nearest};
use super::names::RENAMED;
use super::path;
use super::yaml::YamlEntry;

/// A YAML mapping of the file, read by the names of its fields.
pub(super) struct FieldMap<'a> {
    field: ConfigField<'a>,
    entries: &'a [YamlEntry],
    /// The allowed fields. Empty if the keys are free, as in `tiers`.
    known: &'static [&'static str],
}

impl<'a> FieldMap<'a> {
    pub(super) const fn new(field: ConfigField<'a>, entries: &'a [YamlEntry]) -> Self {
        Self {
            field,
            entries,
            known: &[],
        }
    }

    /// Restricts the mapping to these fields.
    pub(super) const fn with_known(mut self, known: &'static [&'static str]) -> Self {
        self.known = known;
        self
    }

    pub(super) const fn position(&self) -> SourcePosition {
        self.field.position()
    }

    /// The field with this name. `None` if it is absent.
    pub(super) fn get(&self, name: &str) -> Option<ConfigField<'a>> {
        self.entries
            .iter()
            .find(|entry| entry.key.text == name)
            .map(|entry| self.value(entry))
    }

    /// The field with this name. Reports an error if it is absent.
    pub(super) fn require(&self, name: &str, expected: Expectation<'_>) -> Option<ConfigField<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.missing(name, expected.reason);
        }
        field
    }

    /// Reads a field if it is present.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&ConfigField<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(name).and_then(|field| read(&field))
    }

    /// Reports an error about the mapping as a whole.
    pub(super) fn error(&self, message: impl fmt::Display) {
        self.field.error(message);
    }

    /// Reports a missing field at the start of the mapping. If the field is there under a
    /// misspelled or former name, that was reported already.
    pub(super) fn missing(&self, name: &str, reason: impl fmt::Display) {
        if !self.field.diagnostics.is_full()
            && self
                .unknown()
                .any(|entry| self.suggestion(entry) == Some(name))
        {
            return;
        }

        self.field.diagnostics.error(
            self.position(),
            &path::field(&self.field.path, name),
            format_args!("missing field `{name}`; {reason}"),
        );
    }

    /// Every entry with its value.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a YamlEntry, ConfigField<'a>)> + '_ {
        self.entries.iter().map(|entry| (entry, self.value(entry)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports an error at the key of an entry instead of its value.
    pub(super) fn error_at_key(&self, entry: &YamlEntry, message: impl fmt::Display) {
        self.field.diagnostics.error(
            entry.position,
            &path::field(&self.field.path, &entry.key.text),
            message,
        );
    }

    /// Reports an error at the key of a field if the field is present.
    pub(super) fn reject(&self, name: &str, message: impl fmt::Display) {
        if let Some(entry) = self.entries.iter().find(|entry| entry.key.text == name) {
            self.error_at_key(entry, message);
        }
    }

    /// Reports every field that the mapping does not allow.
    pub(super) fn reject_unknown(&self) {
        for entry in self.unknown() {
            // Comparing names is slow, so it is skipped once errors are only counted.
            if self.field.diagnostics.is_full() {
                self.error_at_key(entry, "");
                continue;
            }

            let (key, known) = (path::name(&entry.key.text), list_or(self.known));
            match (self.successor(entry), self.suggestion(entry)) {
                (Some(new), _) => {
                    self.error_at_key(entry, format_args!("{key} was renamed; use `{new}`"));
                }
                (None, Some(suggestion)) => self.error_at_key(
                    entry,
                    format_args!(
                        "unknown field {key}; did you mean `{suggestion}`? Expected one of {known}"
                    ),
                ),
                (None, None) => self.error_at_key(
                    entry,
                    format_args!("unknown field {key}; expected one of {known}"),
                ),
            }
        }
    }

    /// The known field that an unknown entry was probably meant to be.
    fn suggestion(&self, entry: &YamlEntry) -> Option<&'static str> {
        self.successor(entry)
            .or_else(|| nearest(&entry.key.text, self.known))
    }

    /// The current name of a field that was renamed.
    fn successor(&self, entry: &YamlEntry) -> Option<&'static str> {
        RENAMED
            .iter()
            .find(|(old, new)| *old == entry.key.text && self.known.contains(new))
            .map(|(_, new)| *new)
    }

    fn unknown(&self) -> impl Iterator<Item = &'a YamlEntry> {
        let known = self.known;
        let is_unknown = move |entry: &&YamlEntry| {
            !known.is_empty() && !known.contains(&entry.key.text.as_str())
        };
        self.entries.iter().filter(is_unknown)
    }

    fn value(&self, entry: &'a YamlEntry) -> ConfigField<'a> {
        ConfigField::new(
            &entry.node,
            path::field(&self.field.path, &entry.key.text),
            self.field.diagnostics,
        )
    }
}
