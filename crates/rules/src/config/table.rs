//! A mapping, read by the names of its fields.

use std::fmt;

use super::fault::Place;
use super::field::{Field, all, capital, nearest};
use super::path;
use super::tree::Entry;

/// A mapping of the file.
pub(super) struct Table<'a> {
    field: Field<'a>,
    entries: &'a [Entry],
    known: &'static [&'static str],
}

impl<'a> Table<'a> {
    pub(super) const fn new(field: Field<'a>, entries: &'a [Entry]) -> Self {
        Self {
            field,
            entries,
            known: &[],
        }
    }

    /// The same mapping with the fields it may have.
    pub(super) const fn knowing(mut self, known: &'static [&'static str]) -> Self {
        self.known = known;
        self
    }

    pub(super) const fn at(&self) -> Place {
        self.field.at()
    }

    /// A field, if it is given.
    pub(super) fn get(&self, name: &str) -> Option<Field<'a>> {
        self.entries
            .iter()
            .find(|entry| entry.key.written == name)
            .map(|entry| self.value(entry))
    }

    /// A field, or a fault that says it is missing.
    pub(super) fn require(&self, name: &str, right: impl fmt::Display) -> Option<Field<'a>> {
        let field = self.get(name);
        if field.is_none() {
            self.missing(name, right);
        }
        field
    }

    /// What a field means, if it is given.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'a>) -> Option<T>,
    ) -> Option<T> {
        self.get(name).and_then(|field| read(&field))
    }

    /// Tells that a field is missing, at the beginning of the mapping. One that is there under
    /// almost its name has been told.
    pub(super) fn missing(&self, name: &str, right: impl fmt::Display) {
        if !self.field.log.is_full()
            && self
                .unknown()
                .any(|entry| nearest(&entry.key.written, self.known) == Some(name))
        {
            return;
        }
        self.field.log.fault(
            self.at(),
            &path::field(&self.field.path, name),
            format_args!("is missing; {right}"),
        );
    }

    /// Every key with its place and its value.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a Entry, Field<'a>)> + '_ {
        self.entries.iter().map(|entry| (entry, self.value(entry)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells something about a field at its name rather than at its value.
    pub(super) fn fault_at_key(&self, entry: &Entry, message: impl fmt::Display) {
        self.field.log.fault(
            entry.at,
            &path::field(&self.field.path, &entry.key.written),
            message,
        );
    }

    /// Tells what is wrong with a field at its name, if the field is there.
    pub(super) fn refuse(&self, name: &str, message: impl fmt::Display) {
        if let Some(entry) = self.entries.iter().find(|entry| entry.key.written == name) {
            self.fault_at_key(entry, message);
        }
    }

    /// Tells every field that the mapping may not have.
    pub(super) fn refuse_unknown(&self) {
        let here = format!("the fields here are {}", all(self.known));
        for entry in self.unknown() {
            // Comparing names takes time, which is not spent on what is only counted.
            if self.field.log.is_full() {
                self.fault_at_key(entry, "");
                continue;
            }
            let right = match nearest(&entry.key.written, self.known) {
                Some(meant) => format!("did you mean `{meant}`? {}", capital(&here)),
                None => here.clone(),
            };
            self.fault_at_key(entry, format_args!("is no field; {right}"));
        }
    }

    fn unknown(&self) -> impl Iterator<Item = &'a Entry> {
        let known = self.known;
        let is_unknown =
            move |entry: &&Entry| !known.is_empty() && !known.contains(&entry.key.written.as_str());
        self.entries.iter().filter(is_unknown)
    }

    fn value(&self, entry: &'a Entry) -> Field<'a> {
        Field::new(
            &entry.node,
            path::field(&self.field.path, &entry.key.written),
            self.field.log,
        )
    }
}
