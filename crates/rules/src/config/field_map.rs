//! Access to the fields of a YAML mapping, with errors for missing and unknown fields.

use std::fmt;

use super::diagnostic::SourcePosition;
use super::field::{ConfigField, list_and, list_or, nearest, unknown};
use super::foreign::ForeignField;
use super::names::RENAMED;
use super::path;
use super::values::ValueKind;
use super::yaml::YamlEntry;

/// A YAML mapping of the file, read by the names of its fields.
pub(super) struct FieldMap<'a> {
    /// The mapping itself.
    pub(super) field: ConfigField<'a>,
    entries: &'a [YamlEntry],
    /// The allowed fields. Empty if the keys are free, as in `tiers`.
    known: &'static [&'static str],
}

impl<'a> FieldMap<'a> {
    /// Reads a mapping with these fields. Reports all others.
    pub(super) fn new(field: &ConfigField<'a>, known: &'static [&'static str]) -> Option<Self> {
        let expected = format!("expected a mapping with the fields {}", list_and(known));
        let mapping = Self {
            known,
            ..Self::with_free_keys(field, &expected)?
        };
        mapping.reject_unknown();
        Some(mapping)
    }

    /// Reads a mapping with any keys.
    pub(super) fn with_free_keys(field: &ConfigField<'a>, expected: &str) -> Option<Self> {
        Some(Self {
            entries: field.entries(expected)?,
            field: field.clone(),
            known: &[],
        })
    }

    /// The field with this name. `None` if it is absent.
    pub(super) fn get(&self, name: &str) -> Option<ConfigField<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key.text == name)?;
        Some(self.value_of(entry))
    }

    /// The field with this name. Reports an error if it is absent.
    pub(super) fn require(&self, name: &str, expected: &str) -> Option<ConfigField<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.missing(name, expected);
        }
        field
    }

    /// Reads a field if it is present.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&ConfigField<'a>) -> Option<T>,
    ) -> Option<T> {
        read(&self.get(name)?)
    }

    /// Reads a field of this kind if it is present.
    pub(super) fn value<T>(&self, name: &str, kind: &ValueKind<T>) -> Option<T> {
        self.get(name)?.value(kind)
    }

    /// Reads a field of this kind, which must be present.
    pub(super) fn require_value<T>(&self, name: &str, kind: &ValueKind<T>) -> Option<T> {
        self.require(name, kind.expected)?.value(kind)
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

        self.error_at(
            self.field.position(),
            name,
            format_args!("missing field `{name}`; {reason}"),
        );
    }

    /// Every entry with its value.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a YamlEntry, ConfigField<'a>)> + '_ {
        self.entries
            .iter()
            .map(|entry| (entry, self.value_of(entry)))
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports an error at the key of an entry instead of its value.
    pub(super) fn error_at_key(&self, entry: &YamlEntry, message: impl fmt::Display) {
        self.error_at(entry.position, &entry.key.text, message);
    }

    fn error_at(&self, position: SourcePosition, key: &str, message: impl fmt::Display) {
        let path = path::field(&self.field.path, key);
        self.field.diagnostics.error(position, &path, message);
    }

    /// Reports an error at the key of a field if the field is present.
    pub(super) fn reject(&self, name: &str, message: impl fmt::Display) {
        if let Some(entry) = self.entries.iter().find(|entry| entry.key.text == name) {
            self.error_at_key(entry, message);
        }
    }

    /// Reports every field that the mapping does not allow.
    fn reject_unknown(&self) {
        for entry in self.unknown() {
            // Comparing names is slow, so it is skipped once errors are only counted.
            if self.field.diagnostics.is_full() {
                self.error_at_key(entry, "");
                continue;
            }

            let key = path::name(&entry.key.text);
            if let Some(new) = self.successor(entry) {
                self.error_at_key(entry, format_args!("{key} was renamed; use `{new}`"));
            } else if let Some(foreign) = ForeignField::find(&entry.key.text, self.known) {
                self.error_at_key(
                    entry,
                    format_args!("{key} is a field of other rate limiters; {foreign}"),
                );
            } else {
                let known = format!("one of {}", list_or(self.known));
                let suggestion = self.suggestion(entry);
                self.error_at_key(entry, unknown("field", &key, suggestion, &known));
            }
        }
    }

    /// The known field that an unknown entry was probably meant to be.
    fn suggestion(&self, entry: &YamlEntry) -> Option<&'static str> {
        let name = &entry.key.text;
        self.successor(entry)
            .or_else(|| match ForeignField::find(name, self.known) {
                Some(foreign) => foreign.field,
                None => nearest(name, self.known),
            })
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

    fn value_of(&self, entry: &'a YamlEntry) -> ConfigField<'a> {
        ConfigField::new(
            &entry.node,
            path::field(&self.field.path, &entry.key.text),
            self.field.diagnostics,
        )
    }
}
