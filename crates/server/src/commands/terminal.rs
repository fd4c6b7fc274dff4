//! Where output goes: standard output for what was asked, standard error for complaints, and colour
//! only for eyes that want it. Readers may go at any time (`tollgate explain | head -1`), which is
//! no reason to fail.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

/// Writes to standard output. A reader that has gone has read what it wanted.
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

/// Writes a line to standard error. When nobody reads that either, there is nobody to tell.
pub(crate) fn complain(line: &str) {
    drop(
        io::stderr()
            .lock()
            .write_all(format!("{line}\n").as_bytes()),
    );
}

/// A text that cannot move the cursor, clear the screen or begin a line of its own: whatever a file
/// or a server says, it stays in its place.
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

/// What a piece of text means; its colour follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Good,
    Bad,
    Careful,
    Aside,
    Name,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Bad => "31",
            Self::Careful => "33",
            Self::Aside => "2",
            Self::Name => "1",
        }
    }
}

/// Puts colour on text, or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// As the one who reads standard output wants it.
    pub(super) fn for_stdout() -> Self {
        let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        Self::wanted(
            io::stdout().is_terminal(),
            no_color.as_deref(),
            term.as_deref(),
        )
    }

    /// On a terminal that knows colours, unless `NO_COLOR` says anything at all.
    fn wanted(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let is_refused = no_color.is_some_and(|value| !value.is_empty());
        let is_dumb = term.is_none_or(|term| term == "dumb");
        Self {
            is_on: is_terminal && !is_refused && !is_dumb,
        }
    }

    /// None.
    #[cfg(test)]
    pub(super) const fn off() -> Self {
        Self { is_on: false }
    }

    /// The text, which must be plain, in the colour of its tone.
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
    fn colour_is_for_terminals_that_want_it() {
        let wanted = |is_terminal, no_color: Option<&str>, term: Option<&str>| {
            Paint::wanted(is_terminal, no_color.map(OsStr::new), term.map(OsStr::new)).is_on
        };
        assert!(wanted(true, None, Some("xterm")));
        assert!(wanted(true, Some(""), Some("xterm")));
        assert!(!wanted(true, Some("1"), Some("xterm")));
        assert!(!wanted(true, None, Some("dumb")));
        assert!(!wanted(true, None, None));
        assert!(!wanted(false, None, Some("xterm")));
    }

    #[test]
    fn paint_surrounds_the_text_or_leaves_it() {
        assert_eq!(
            Paint { is_on: true }.tone(Tone::Bad, "denied"),
            "\x1b[31mdenied\x1b[0m"
        );
        assert_eq!(Paint { is_on: false }.tone(Tone::Bad, "denied"), "denied");
    }

    #[test]
    fn nothing_foreign_reaches_the_terminal() {
        assert_eq!(plain("a\x1b[2Jb\r\nc"), "a\\u{1b}[2Jb\\r\\nc");
    }
}
