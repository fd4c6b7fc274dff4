//! What is wrong with a configuration: every fault of a file at once, each with its place.

use std::cell::{Cell, RefCell};
use std::fmt;

/// The most faults to tell. Beyond these people mend the first and ask again.
const FAULTS_MAX: usize = 50;
/// The most notes to keep, for the same reason.
const NOTES_MAX: usize = 200;

/// One thing that is wrong, where it is, and what would be right. A value that came from the
/// environment is never shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as it was named by whoever asked.
    pub file: String,
    /// The line, from 1; 0 when it is about the whole file.
    pub line: usize,
    /// The column, from 1; 0 when it is about the whole file.
    pub column: usize,
    /// The way to the field: `limits[reports].refill_rate`. Empty when it is about no field.
    pub field: String,
    /// What was found and what would be right.
    pub message: String,
}

/// One or more faults, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    faults: Vec<Diagnostic>,
    more: usize,
}

impl ConfigError {
    /// A single fault, about no field.
    pub(super) fn one(file: &str, at: Place, message: impl fmt::Display) -> Self {
        let log = Log::new(file);
        log.fault(at, "", message);
        log.into_faults()
    }

    /// The faults that are told.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.faults.iter()
    }

    /// How many more there are than are told.
    pub const fn more(&self) -> usize {
        self.more
    }
}

impl std::error::Error for ConfigError {}

/// Where values stand that this crate cannot judge, so that whoever judges them later can name the
/// line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    file: String,
    fields: Vec<(String, Place)>,
}

impl SourceMap {
    /// A fault of a field, with its place if that is known.
    pub fn fault(&self, field: &str, message: impl fmt::Display) -> Diagnostic {
        let place = self
            .fields
            .iter()
            .find(|(known, _)| known == field)
            .map(|(_, place)| *place);
        Log::new(&self.file).about(place.unwrap_or(Place::FILE), field, message)
    }
}

/// `FILE:LINE:COLUMN: FIELD: message`, as compilers write it, so that editors can jump there.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// One fault on each line.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if index == 0 { "" } else { "\n" })?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

/// A place in a file, both numbers from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// The file as a whole.
    pub(super) const FILE: Self = Self { line: 0, column: 0 };
}

/// Collects what is wrong and what is worth telling. Reading goes on after a fault, so it is shared
/// by all readers.
pub(super) struct Log<'a> {
    file: &'a str,
    faults: RefCell<Vec<Diagnostic>>,
    more: Cell<usize>,
    notes: RefCell<Vec<(Place, String)>>,
    places: RefCell<Vec<(String, Place)>>,
}

impl<'a> Log<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            faults: RefCell::default(),
            more: Cell::new(0),
            notes: RefCell::default(),
            places: RefCell::default(),
        }
    }

    /// Remembers a fault, unless it is known already: a window shared by several tiers is wrong
    /// only once.
    pub(super) fn fault(&self, at: Place, field: &str, message: impl fmt::Display) {
        if self.is_full() {
            self.more.set(self.more.get() + 1);
            return;
        }
        let fault = self.about(at, field, message);
        let mut faults = self.faults.borrow_mut();
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }

    /// True when further faults are only counted, so that nobody need think about what they say.
    pub(super) fn is_full(&self) -> bool {
        self.faults.borrow().len() >= FAULTS_MAX
    }

    /// Remembers something that is right and yet worth telling.
    pub(super) fn note(&self, at: Place, field: &str, message: impl fmt::Display) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < NOTES_MAX {
            notes.push((at, self.about(at, field, message).to_string()));
        }
    }

    /// Remembers where a value stands that is judged elsewhere.
    pub(super) fn keep_place(&self, at: Place, field: &str) {
        self.places.borrow_mut().push((one_line(field), at));
    }

    pub(super) fn take_places(&self) -> SourceMap {
        SourceMap {
            file: self.file.to_owned(),
            fields: self.places.take(),
        }
    }

    pub(super) fn is_clean(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    /// The notes, in the order of the file.
    pub(super) fn take_notes(&self) -> Vec<String> {
        let mut notes = self.notes.take();
        notes.sort_by_key(|(at, _)| *at);
        notes.into_iter().map(|(_, text)| text).collect()
    }

    /// The faults, in the order of the file.
    pub(super) fn into_faults(self) -> ConfigError {
        let mut faults = self.faults.into_inner();
        faults.sort_by_key(|fault| (fault.line, fault.column));
        ConfigError {
            faults,
            more: self.more.get(),
        }
    }

    fn about(&self, at: Place, field: &str, message: impl fmt::Display) -> Diagnostic {
        let message = one_line(&message.to_string());
        Diagnostic {
            file: self.file.to_owned(),
            line: at.line,
            column: at.column,
            field: one_line(field),
            message,
        }
    }
}

/// A fault is one line, whatever was found.
fn one_line(text: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().collect()
        } else {
            String::from(c)
        }
    };
    text.chars().map(escape).collect()
}
