//! Why a line says nothing that can be replayed.

use serde::Serialize;

/// What is wrong with a line. There are few kinds, so that they can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BadLine {
    /// Longer than any line that is looked at.
    TooLong,
    /// Not laid out as the format says.
    Layout,
    /// The moment cannot be read.
    Time,
    /// There was a connection and no request on it.
    NoRequest,
    /// The request is not method, path and version.
    Request,
    /// Not an object of JSON.
    Json,
    /// An object without a moment.
    NoTime,
}

impl BadLine {
    /// Every kind, in the order of their numbers.
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
            Self::Layout => "not in the common or combined format",
            Self::Time => "a time that cannot be read",
            Self::NoRequest => "a connection without a request",
            Self::Request => "a request that is none",
            Self::Json => "no JSON object",
            Self::NoTime => "no time",
        }
    }

    /// What would be right.
    pub const fn right(self) -> &'static str {
        match self {
            Self::TooLong => "a line has at most 65,536 bytes",
            Self::Layout => {
                r#"as in: 203.0.113.7 - ann [10/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 512"#
            }
            Self::Time => {
                "write 10/Oct/2026:13:55:36 -0700, 2026-10-10T13:55:36Z or seconds since 1970"
            }
            Self::NoRequest => "nothing: it never reached a limit",
            Self::Request => r#"as in "GET /path?x=1 HTTP/1.1""#,
            Self::Json => {
                r#"one object a line, as in {"time": "2026-10-10T13:55:36Z", "client_ip": "203.0.113.7"}"#
            }
            Self::NoTime => "name the field that holds it, as in --field time=ts",
        }
    }
}

impl std::fmt::Display for BadLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.found(), self.right())
    }
}
