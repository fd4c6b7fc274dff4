//! Output: results go to standard output, errors and progress to standard error. Colours are used
//! on terminals only. A reader may close the pipe at any time (`tollgate explain | head -1`); that
//! is not an error.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use tollgate::{Clock as _, Micros, SystemClock};
use tollgate_rules::text::{visible, visible_except};

/// The minimum interval between redraws of a progress line.
const REDRAW_INTERVAL: Micros = Micros::from_millis(100);
/// The interval between lines of progress where they cannot be redrawn.
pub(super) const LINE_INTERVAL: Micros = Micros::from_secs(5);
/// Clears the line of the cursor.
const CLEAR_LINE: &str = "\r\x1b[K";

/// Writes to standard output, with colours if it is a terminal. Hidden characters are escaped,
/// except for line breaks and colours. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
    let mut output = io::stdout().lock();
    let mut text = visible_except(text, &['\n', '\x1b']);
    if !has_colours(output.is_terminal(), no_color.as_deref(), term.as_deref()) {
        text = without_colours(&text).into();
    }

    let written = output.write_all(text.as_bytes());
    match written.and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a line to standard error. Hidden characters are escaped, except for line breaks.
pub(crate) fn print_error(line: &str) {
    draw(&format!("{}\n", visible_except(line, &['\n'])));
}

/// Writes to standard error. A failure to write is ignored: it could not be reported.
fn draw(text: &str) {
    // Standard error has no buffer.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// Escapes hidden characters, so that text from a file or a server cannot move the cursor, clear the
/// screen, start a new line or reverse the text around it.
pub(crate) fn plain(text: &str) -> String {
    visible(text).into_owned()
}

/// The meaning of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// No colour.
    Plain,
    /// Success.
    Good,
    /// Failure or denial.
    Bad,
    /// A warning.
    Warning,
    /// Secondary information.
    Dim,
    /// The name of a limit.
    Name,
}

impl Tone {
    /// Colours a text, which must have no control characters. [`print`] removes the colours again
    /// if the output is not a terminal.
    pub(super) fn paint(self, text: &str) -> String {
        let code = match self {
            _ if text.is_empty() => return String::new(),
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warning => "33",
            Self::Dim => "2",
            Self::Name => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether to use colours: on a terminal that supports them, unless `NO_COLOR` is set and not empty.
fn has_colours(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    let is_disabled = no_color.is_some_and(|value| !value.is_empty());
    is_terminal && !is_disabled && is_capable(term)
}

/// Whether a terminal of this type can move its cursor and show colours.
fn is_capable(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term != "dumb")
}

/// Removes the colours of [`Tone::paint`]. No other text has an escape character.
pub(super) fn without_colours(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').map_or("", |(_, text)| text));
    std::iter::once(first).chain(rest).collect()
}

/// A cell of a table.
pub(super) type Cell = (Tone, String);

/// How the columns of a table are aligned, except the first, which is always aligned left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// The head of a table.
pub(super) fn head<const N: usize>(names: [&str; N]) -> Vec<Cell> {
    names.map(|name| (Tone::Dim, name.to_owned())).to_vec()
}

/// A row with a name and its value.
pub(super) fn name_row(name: impl Into<String>, value: String) -> Vec<Cell> {
    vec![(Tone::Name, name.into()), (Tone::Plain, value)]
}

/// The lines of a table.
pub(super) fn table(rows: &[Vec<Cell>], align: Align) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widths = cells.map(|(_, cell)| cell.chars().count());
        widths.max().unwrap_or(0)
    };
    let padded = |(column, (tone, cell)): (usize, &Cell)| {
        // The padding has no colour, so that it can be trimmed.
        let padding = " ".repeat(width(column) - cell.chars().count());
        match align {
            Align::Right if column > 0 => padding + &tone.paint(cell),
            _ => tone.paint(cell) + &padding,
        }
    };

    let line = |row: &Vec<Cell>| {
        let cells: Vec<String> = row.iter().enumerate().map(padded).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Shows progress on standard error: on a terminal one line that is redrawn, elsewhere a line from
/// time to time.
pub(super) struct ProgressLine {
    clock: SystemClock,
    started: Micros,
    /// When to show the next line.
    next: Micros,
    /// `None` to show nothing.
    interval: Option<Micros>,
    is_terminal: bool,
}

impl ProgressLine {
    /// `interval` is the time between lines where they cannot be redrawn; `None` shows none there.
    pub(super) fn new(interval: Option<Micros>, is_quiet: bool) -> Self {
        let term = std::env::var_os("TERM");
        let is_terminal = !is_quiet && io::stderr().is_terminal() && is_capable(term.as_deref());
        let interval = is_terminal
            .then_some(REDRAW_INTERVAL)
            .or(interval.filter(|_| !is_quiet));
        let clock = SystemClock::new();
        let started = clock.now();

        Self {
            started,
            next: started.after(interval.unwrap_or_default()),
            clock,
            interval,
            is_terminal,
        }
    }

    /// Shows the line that `text` makes of the elapsed time, if it is time for one.
    pub(super) fn show(&mut self, text: impl FnOnce(Micros) -> String) {
        let now = self.clock.now();
        let Some(interval) = self.interval.filter(|_| now >= self.next) else {
            return;
        };

        self.next = now.after(interval);
        let line = text(now.since(self.started));
        if self.is_terminal {
            draw(&format!("{CLEAR_LINE}{line}"));
        } else {
            print_error(&line);
        }
    }

    /// Clears the line, so that the report can be printed.
    pub(super) fn clear(&self) {
        if self.is_terminal {
            draw(CLEAR_LINE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_support_them() {
        let wanted = |is_terminal, no_color: Option<&str>, term: Option<&str>| {
            has_colours(is_terminal, no_color.map(OsStr::new), term.map(OsStr::new))
        };
        assert!(wanted(true, None, Some("xterm")));
        assert!(wanted(true, Some(""), Some("xterm")));
        assert!(!wanted(true, Some("1"), Some("xterm")));
        assert!(!wanted(true, None, Some("dumb")));
        assert!(!wanted(true, None, None));
        assert!(!wanted(false, None, Some("xterm")));
    }

    #[test]
    fn colours_can_be_removed() {
        let text = format!(
            "a {}, {} b",
            Tone::Bad.paint("denied"),
            Tone::Plain.paint("x")
        );
        assert_eq!(text, "a \x1b[31mdenied\x1b[0m, x b");
        assert_eq!(without_colours(&text), "a denied, x b");
    }

    #[test]
    fn columns_are_aligned() {
        let row = |name: &str, count: &str| {
            vec![
                (Tone::Name, name.to_owned()),
                (Tone::Plain, count.to_owned()),
            ]
        };
        let rows = [row("a", "1"), row("long", "10"), row("b", "")];
        let aligned = |align| without_colours(&table(&rows, align).join("\n"));
        assert_eq!(aligned(Align::Right), "a      1\nlong  10\nb");
        assert_eq!(aligned(Align::Left), "a     1\nlong  10\nb");
    }

    #[test]
    fn hidden_characters_are_escaped() {
        assert_eq!(plain("a\x1b[2Jb\r\nc"), "a\\u{1b}[2Jb\\r\\nc");
        assert_eq!(plain("a\u{202e}b"), "a\\u{202e}b");
    }
}
