//! Output: results go to standard output, errors to standard error. Colours are used on terminals
//! only. A reader may close the pipe at any time (`tollgate explain | head -1`); that is not an
//! error.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

/// Writes to standard output. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a line to standard error. A failure to write is ignored: it could not be reported.
pub(crate) fn print_error(line: &str) {
    drop(
        io::stderr()
            .lock()
            .write_all(format!("{line}\n").as_bytes()),
    );
}

/// Escapes control characters, so that text from a file or a server cannot move the cursor, clear
/// the screen or start a new line.
pub(crate) fn plain(text: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().collect()
        } else {
            String::from(c)
        }
    };
    text.chars().map(escape).collect()
}

/// The meaning of a piece of text, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
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
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warning => "33",
            Self::Dim => "2",
            Self::Name => "1",
        }
    }
}

/// Colours text, if colours are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// Colours for standard output: on for a terminal, unless the environment disables them.
    pub(super) fn for_stdout() -> Self {
        let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        Self::detect(
            io::stdout().is_terminal(),
            no_color.as_deref(),
            term.as_deref(),
        )
    }

    /// On for a terminal that supports colours, unless `NO_COLOR` is set and not empty.
    fn detect(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let is_disabled = no_color.is_some_and(|value| !value.is_empty());
        let is_dumb = term.is_none_or(|term| term == "dumb");

        Self {
            is_on: is_terminal && !is_disabled && !is_dumb,
        }
    }

    /// No colours.
    #[cfg(test)]
    pub(super) const fn off() -> Self {
        Self { is_on: false }
    }

    /// Colours `text`, which must have no control characters.
    pub(super) fn tone(self, tone: Tone, text: &str) -> String {
        if self.is_on && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", tone.code())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_support_them() {
        let wanted = |is_terminal, no_color: Option<&str>, term: Option<&str>| {
            Paint::detect(is_terminal, no_color.map(OsStr::new), term.map(OsStr::new)).is_on
        };
        assert!(wanted(true, None, Some("xterm")));
        assert!(wanted(true, Some(""), Some("xterm")));
        assert!(!wanted(true, Some("1"), Some("xterm")));
        assert!(!wanted(true, None, Some("dumb")));
        assert!(!wanted(true, None, None));
        assert!(!wanted(false, None, Some("xterm")));
    }

    #[test]
    fn text_is_coloured_only_if_colours_are_on() {
        assert_eq!(
            Paint { is_on: true }.tone(Tone::Bad, "denied"),
            "\x1b[31mdenied\x1b[0m"
        );
        assert_eq!(Paint { is_on: false }.tone(Tone::Bad, "denied"), "denied");
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("a\x1b[2Jb\r\nc"), "a\\u{1b}[2Jb\\r\\nc");
    }
}
