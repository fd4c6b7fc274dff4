//! Configuration errors, each with its position. All errors of a file are reported together.

use std::cell::{Cell, RefCell};
use std::fmt;

use crate::text::visible;

/// The maximum number of errors to report. Further errors are only counted.
const ERRORS_MAX: usize = 50;
/// The maximum number of warnings to keep.
const WARNINGS_MAX: usize = 200;

/// One configuration error: where it is, what was found and what is expected. It never shows a
/// value that came from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file name as the caller gave it.
    pub file: String,
    /// The line, from 1. It is 0 if the error concerns the whole file.
    pub line: usize,
    /// The column, from 1. It is 0 if the error concerns the whole file.
    pub column: usize,
    /// The path of the field, such as `limits[reports].refill_rate`. Empty if the error concerns no
    /// field.
    pub field: String,
    /// What was found and what is expected.
    pub message: String,
}

/// All errors of a configuration file, at least one, in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    diagnostics: Vec<Diagnostic>,
    more: usize,
}

impl ConfigError {
    /// A single error that concerns no field.
    pub(super) fn new(file: &str, position: SourcePosition, message: impl fmt::Display) -> Self {
        Self {
            diagnostics: vec![Diagnostic::new(file, position, "", message)],
            more: 0,
        }
    }

    /// A single error that concerns the whole file.
    pub fn for_file(file: &str, message: impl fmt::Display) -> Self {
        Self::new(file, SourcePosition::WHOLE_FILE, message)
    }

    /// The reported errors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.diagnostics.iter()
    }

    /// The first error without its position, for a text that has no lines, and how many more there
    /// are.
    pub(super) fn first(&self) -> String {
        let first = self.diagnostics.first();
        let first = first.map_or_else(String::new, |first| {
            format!("{}: {}", first.field, first.message)
        });
        match self.diagnostics.len() + self.more {
            0 | 1 => first,
            2 => format!("{first} (and 1 more error)"),
            count => format!("{first} (and {} more errors)", count - 1),
        }
    }

    /// The number of further errors that are not reported, because there are too many.
    pub const fn more(&self) -> usize {
        self.more
    }
}

impl std::error::Error for ConfigError {}

/// The positions of fields that are validated outside this crate, so that those errors can name a
/// line, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    file: String,
    /// One for each field, without a message.
    fields: Vec<Diagnostic>,
}

impl SourceMap {
    /// Creates an error about a field, with its position if that is known.
    pub fn diagnostic(&self, field: &str, message: impl fmt::Display) -> Diagnostic {
        let known = self.fields.iter().find(|known| known.field == field);
        let position = known.map_or(SourcePosition::WHOLE_FILE, |known| SourcePosition {
            line: known.line,
            column: known.column,
        });
        Diagnostic::new(&self.file, position, field, message)
    }
}

impl Diagnostic {
    fn new(
        file: &str,
        SourcePosition { line, column }: SourcePosition,
        field: &str,
        message: impl fmt::Display,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line,
            column,
            field: visible(field).into_owned(),
            message: visible(&message.to_string()).into_owned(),
        }
    }
}

/// Formats as `FILE:LINE:COLUMN: FIELD: message`, like a compiler, so that editors can jump there.
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

/// Formats as one line per error.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))?;
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

/// A position in a file. Lines and columns count from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl SourcePosition {
    /// For errors that concern the whole file.
    pub(super) const WHOLE_FILE: Self = Self { line: 0, column: 0 };
}

/// Collects the errors and warnings of a file. All readers share it, because reading continues
/// after an error.
#[derive(Default)]
pub(super) struct Diagnostics<'a> {
    file: &'a str,
    errors: RefCell<Vec<Diagnostic>>,
    more: Cell<usize>,
    warnings: RefCell<Vec<Diagnostic>>,
    positions: RefCell<Vec<Diagnostic>>,
}

impl<'a> Diagnostics<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }

    /// Adds an error, unless it was added before: an invalid window that several tiers share is
    /// reported once.
    pub(super) fn error(&self, position: SourcePosition, field: &str, message: impl fmt::Display) {
        if self.is_full() {
            self.more.set(self.more.get() + 1);
            return;
        }

        let diagnostic = self.diagnostic(position, field, message);
        let mut errors = self.errors.borrow_mut();
        if !errors.contains(&diagnostic) {
            errors.push(diagnostic);
        }
    }

    /// Whether further errors are only counted. Callers can then skip building the message.
    pub(super) fn is_full(&self) -> bool {
        self.errors.borrow().len() >= ERRORS_MAX
    }

    /// Adds a warning about a valid setting.
    pub(super) fn warn(&self, warning: Diagnostic) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < WARNINGS_MAX {
            warnings.push(warning);
        }
    }

    /// A message about a field of the file, which is not added.
    pub(super) fn diagnostic(
        &self,
        position: SourcePosition,
        field: &str,
        message: impl fmt::Display,
    ) -> Diagnostic {
        Diagnostic::new(self.file, position, field, message)
    }

    /// Records the position of a field that is validated outside this crate.
    pub(super) fn record_position(&self, field: Diagnostic) {
        self.positions.borrow_mut().push(field);
    }

    pub(super) fn take_source_map(&self) -> SourceMap {
        SourceMap {
            file: self.file.to_owned(),
            fields: self.positions.take(),
        }
    }

    /// Whether no error was added.
    pub(super) fn is_clean(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// The warnings, in file order.
    pub(super) fn take_warnings(&self) -> Vec<String> {
        let warnings = in_file_order(self.warnings.take());
        warnings.iter().map(Diagnostic::to_string).collect()
    }

    /// The errors, in file order.
    pub(super) fn into_error(self) -> ConfigError {
        ConfigError {
            diagnostics: in_file_order(self.errors.into_inner()),
            more: self.more.get(),
        }
    }
}

fn in_file_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
    diagnostics
}
