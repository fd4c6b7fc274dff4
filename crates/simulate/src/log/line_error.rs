//! Why lines are invalid.

use serde::Serialize;

/// Why a line cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[error("{}; {}", self.texts().0, self.texts().1)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LineError {
    /// The line is too long.
    TooLong,
    /// The line is not in the expected format.
    Layout,
    /// The time is invalid.
    Time,
    /// The server logged a connection on which no request arrived.
    NoRequest,
    /// The request is not a method, a target and a version.
    Request,
    /// The line is not a JSON object.
    Json,
    /// The JSON object has no time.
    NoTime,
    /// The line is not valid UTF-8. A copy with replaced bytes can be parsed.
    NotUtf8,
}

impl LineError {
    /// What was found, and what was expected or how to fix it.
    pub const fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::TooLong => (
                "longer than 64 KiB",
                "a line must have at most 65,536 bytes",
            ),
            Self::Layout => (
                "not in a known log format",
                "expected a line such as \
                 203.0.113.7 - ann [10/Oct/2026:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 512",
            ),
            Self::Time => (
                "invalid time",
                "expected 10/Oct/2026:13:55:36 -0700, 2026-10-10T13:55:36Z or a Unix time",
            ),
            Self::NoRequest => (
                "a connection without a request",
                "nothing to fix: no limit applies to it",
            ),
            Self::Request => (
                "invalid request",
                r#"expected a request such as "GET /path?x=1 HTTP/1.1""#,
            ),
            Self::Json => (
                "not a JSON object",
                "expected one object per line, such as \
                 {\"time\": \"2026-10-10T13:55:36Z\", \"client_ip\": \"203.0.113.7\"}",
            ),
            Self::NoTime => (
                "no time",
                "name the field that has it, such as --field time=ts",
            ),
            Self::NotUtf8 => ("not UTF-8", "expected a line in UTF-8"),
        }
    }
}
