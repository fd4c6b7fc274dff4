//! The kinds of invalid lines.

use serde::Serialize;

/// Why a line cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LineErrorKind {
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
}

impl LineErrorKind {
    /// All kinds, in the order of their discriminants.
    pub(crate) const ALL: [Self; 7] = [
        Self::TooLong,
        Self::Layout,
        Self::Time,
        Self::NoRequest,
        Self::Request,
        Self::Json,
        Self::NoTime,
    ];

    /// What was found.
    pub const fn found(self) -> &'static str {
        match self {
            Self::TooLong => "longer than 64 KiB",
            Self::Layout => "not in the common or combined log format",
            Self::Time => "invalid time",
            Self::NoRequest => "a connection without a request",
            Self::Request => "invalid request",
            Self::Json => "not a JSON object",
            Self::NoTime => "no time",
        }
    }

    /// What was expected, or how to fix it.
    pub const fn expected(self) -> &'static str {
        match self {
            Self::TooLong => "a line must have at most 65,536 bytes",
            Self::Layout => {
                "expected a line such as \
                 203.0.113.7 - ann [10/Oct/2026:13:55:36 +0000] \"GET /a HTTP/1.1\" 200 512"
            }
            Self::Time => {
                "expected 10/Oct/2026:13:55:36 -0700, 2026-10-10T13:55:36Z or a Unix time"
            }
            Self::NoRequest => "nothing to fix: no limit applies to it",
            Self::Request => r#"expected a request such as "GET /path?x=1 HTTP/1.1""#,
            Self::Json => {
                "expected one object per line, such as \
                 {\"time\": \"2026-10-10T13:55:36Z\", \"client_ip\": \"203.0.113.7\"}"
            }
            Self::NoTime => "name the field that has it, such as --field time=ts",
        }
    }
}

impl std::fmt::Display for LineErrorKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.found(), self.expected())
    }
}
