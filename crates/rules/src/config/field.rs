//! A value with its place and name, read as what it should be. What is wrong goes to the log, and
//! reading goes on.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use tollgate::Micros;

use super::fault::{Log, Place};
use super::path;
use super::table::Table;
use super::text::{Origin, Text};
use super::tree::{Node, Value};
use super::values::{self, Wrong};

/// The most items of any list, and the most fields of any mapping.
const ITEMS_MAX: usize = 1_000;

/// A value of the file. Every reader answers `None` for what is wrong, and has told the log by
/// then.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
    pub(super) log: &'a Log<'a>,
    is_secret: bool,
}

impl<'a> Field<'a> {
    pub(super) const fn new(node: &'a Node, path: String, log: &'a Log<'a>) -> Self {
        Self {
            node,
            path,
            log,
            is_secret: false,
        }
    }

    /// The same field, of which no fault shows anything.
    pub(super) fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    pub(super) const fn at(&self) -> Place {
        self.node.at
    }

    pub(super) fn fault(&self, message: impl fmt::Display) {
        self.log.fault(self.at(), &self.path, message);
    }

    pub(super) fn note(&self, message: impl fmt::Display) {
        self.log.note(self.at(), &self.path, message);
    }

    /// Remembers where this stands, for whoever judges its value later.
    pub(super) fn keep_place(&self) {
        self.log.keep_place(self.at(), &self.path);
    }

    /// Tells what was found, and what would be right.
    pub(super) fn wrong(&self, right: impl fmt::Display) {
        self.fault(format_args!("found {}; {right}", self.found()));
    }

    /// What was found, as far as it may be shown.
    pub(super) fn found(&self) -> String {
        match &self.node.value {
            Value::Text(text) if text.is_nothing() => "nothing".into(),
            Value::Text(_) if self.is_secret => "a text (not shown)".into(),
            Value::Text(text) => text.shown(),
            Value::List(nodes) if nodes.is_empty() => "an empty list".into(),
            Value::List(_) => "a list".into(),
            Value::Table(_) => "a mapping".into(),
        }
    }

    /// True when a message must not repeat the value.
    pub(super) fn is_private(&self) -> bool {
        self.is_secret || matches!(&self.node.value, Value::Text(text) if text.is_private())
    }

    /// A text that is not empty.
    pub(super) fn text(&self, right: &str) -> Option<&'a str> {
        let text = self.scalar(right)?;
        if text.is_empty() {
            self.wrong(right);
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Any text, of any length.
    fn scalar(&self, right: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(Text {
                origin: Origin::Broken,
                ..
            }) => None,
            Value::Text(text) if !text.is_nothing() => Some(&text.meant),
            _ => {
                self.wrong(right);
                None
            }
        }
    }

    /// A text that its type checks. The type's own message may repeat the text, so it is not for
    /// secrets.
    pub(super) fn parsed<T: FromStr<Err: fmt::Display>>(&self, right: &str) -> Option<T> {
        let text = self.text(right)?;
        self.checked(text.parse(), right)
    }

    /// A value that its type has checked.
    pub(super) fn checked<T, E: fmt::Display>(
        &self,
        checked: Result<T, E>,
        right: &str,
    ) -> Option<T> {
        checked
            .map_err(|error| {
                if self.is_private() {
                    self.wrong(right)
                } else {
                    self.fault(error)
                }
            })
            .ok()
    }

    /// One of the words of a list.
    pub(super) fn choice<T: Copy>(&self, words: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let right = format!("write {}", either(&names));
        let text = self.text(&right)?;
        let found = words
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, word)| *word);
        if found.is_none() {
            let meant = nearest(text, &names).filter(|_| !self.is_private());
            self.wrong(meant.map_or(right.clone(), |meant| {
                format!("did you mean `{meant}`? {}", capital(&right))
            }));
        }
        found
    }

    pub(super) fn flag(&self) -> Option<bool> {
        const RIGHT: &str = "write true or false";
        let text = self.text(RIGHT)?;
        let flag = text.parse().ok();
        if flag.is_none() {
            self.wrong(RIGHT);
        }
        flag
    }

    /// A whole number, whatever its size.
    pub(super) fn whole(&self) -> Option<u64> {
        self.value(values::whole, "write a whole number, such as 100")
    }

    /// A whole number of a range.
    pub(super) fn whole_in(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let number = self.whole()?;
        self.within(number, &range, u64::to_string)
    }

    pub(super) fn bytes_in(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let size = self.value(
            values::bytes,
            "write bytes as a whole number, or with a unit: 64KiB or 1MiB",
        )?;
        self.within(size, &range, u64::to_string)
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        self.value(
            values::duration,
            "write a length of time, such as 10ms or 1s",
        )
    }

    pub(super) fn duration_in(&self, range: RangeInclusive<Duration>) -> Option<Duration> {
        let length = self.duration()?;
        self.within(length, &range, |bound| shown_length(*bound))
    }

    /// A value whose spelling is checked by `read`.
    pub(super) fn value<T>(
        &self,
        read: impl Fn(&str) -> Result<T, Wrong>,
        right: &str,
    ) -> Option<T> {
        let text = self.text(right)?;
        read(text.trim())
            .map_err(|wrong| match wrong.meant {
                Some(meant) if !self.is_private() => self.wrong(format_args!("write {meant}")),
                _ => self.wrong(wrong.right),
            })
            .ok()
    }

    fn within<T: PartialOrd>(
        &self,
        found: T,
        range: &RangeInclusive<T>,
        show: impl Fn(&T) -> String,
    ) -> Option<T> {
        if range.contains(&found) {
            return Some(found);
        }
        self.wrong(format_args!(
            "it must be from {} to {}",
            show(range.start()),
            show(range.end())
        ));
        None
    }

    /// The items of a list.
    pub(super) fn list(&self, right: &str) -> Option<Vec<Field<'a>>> {
        let Value::List(nodes) = &self.node.value else {
            self.wrong(right);
            return None;
        };
        if nodes.len() > ITEMS_MAX {
            self.fault(format_args!(
                "found {} items; at most {ITEMS_MAX} are read",
                nodes.len()
            ));
            return None;
        }
        Some(self.items(nodes))
    }

    pub(super) fn items(&self, nodes: &'a [Node]) -> Vec<Field<'a>> {
        let item = |(index, node)| Field {
            node,
            path: path::item(&self.path, index, node),
            log: self.log,
            is_secret: self.is_secret,
        };
        nodes.iter().enumerate().map(item).collect()
    }

    /// A mapping with these fields and no others.
    pub(super) fn table(&self, known: &'static [&'static str]) -> Option<Table<'a>> {
        let table = self
            .open_table(&format!("write a mapping with {}", all(known)))?
            .knowing(known);
        table.refuse_unknown();
        Some(table)
    }

    /// A mapping whose keys are the file's own.
    pub(super) fn open_table(&self, right: &str) -> Option<Table<'a>> {
        let Value::Table(entries) = &self.node.value else {
            self.wrong(right);
            return None;
        };
        if entries.len() > ITEMS_MAX {
            self.fault(format_args!(
                "found {} fields; at most {ITEMS_MAX} are read",
                entries.len()
            ));
            return None;
        }
        Some(Table::new(self.clone(), entries))
    }
}

/// All values, or none if one was wrong; every one is read, so that every fault is told.
pub(super) fn every<T>(values: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    values.collect::<Vec<_>>().into_iter().collect()
}

fn shown_length(length: Duration) -> String {
    Micros::from_duration_ceil(length)
        .map_or_else(|| format!("{length:?}"), |length| length.to_string())
}

/// The known name that is most like what was found, if any is.
pub(super) fn nearest<'n>(found: &str, names: &[&'n str]) -> Option<&'n str> {
    let found = found.to_lowercase().replace('-', "_");
    let distance = |name: &str| strsim::osa_distance(&found, &name.replace('-', "_"));
    let bound = |name: &str| name.len().div_ceil(3).min(3);
    if found.len() > 64 {
        return None;
    }
    names
        .iter()
        .copied()
        .filter(|name| distance(name) <= bound(name))
        .min_by_key(|name| distance(name))
}

/// `a, b or c`.
pub(super) fn either(names: &[&str]) -> String {
    joined(names, "or")
}

/// `a, b and c`.
pub(super) fn all(names: &[&str]) -> String {
    joined(names, "and")
}

fn joined(names: &[&str], last: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).into(),
        [names @ .., end] => format!("{} {last} {end}", names.join(", ")),
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}
