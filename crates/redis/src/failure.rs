//! Why a request got no answer.

use std::sync::Arc;

use tollgate::StoreError;

use crate::endpoint::Address;
use crate::resp::Garbage;

/// Why one attempt got no answer. Many requests can fail for the same reason, so it is cheap to
/// copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Not in time. It may have run.
    Timeout,
    /// Too many are waiting already. It has not run.
    Overloaded,
    /// The server cannot be reached, or is not able to decide. It may have run.
    Unavailable(Cause),
    /// The server said no. It has not run.
    Refused(Cause),
    /// The slot is elsewhere, for good. It has not run.
    Moved(Address),
    /// The slot is on its way elsewhere, and this key with it. It has not run.
    Ask(Address),
    /// The slot is on its way elsewhere, and the keys are in both places. It has not run.
    TryAgain,
}

/// What happened, in words for an operator. Never holds a password or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Cause(pub(crate) Arc<str>);

impl Cause {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The beginning of a server's error. Some servers quote what they were sent, so quotes are
    /// left out.
    pub(crate) fn told_by_server(error: &[u8]) -> Self {
        let error = String::from_utf8_lossy(error);
        let plain = error.split(['`', '\'', '"']).next().unwrap_or_default();
        Self::new(format!(
            "the server says: {}",
            plain.chars().take(160).collect::<String>().trim_end()
        ))
    }
}

impl From<std::io::Error> for Cause {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("the connection failed: {error}"))
    }
}

impl From<Garbage> for Cause {
    fn from(garbage: Garbage) -> Self {
        Self::new(garbage.to_string())
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Timeout => Self::Timeout,
            Failure::Overloaded => Self::Overloaded,
            Failure::Unavailable(cause) => Self::Unavailable(Box::new(cause)),
            Failure::Refused(cause) => Self::Refused(Box::new(cause)),
            Failure::Moved(_) | Failure::Ask(_) | Failure::TryAgain => Self::Unavailable(Box::new(
                Cause::new("the slot moves faster than it can be followed"),
            )),
        }
    }
}

/// What a server's error means for the requests that met it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The script is not known there: send it along.
    NoScript,
    /// These requests fail, and the connection stays.
    Fails(Failure),
    /// These requests fail, and nothing more is asked of this server until it is well again.
    Breaks(Cause),
}

impl Meaning {
    pub(crate) fn of(error: &str) -> Self {
        let (code, rest) = error.split_once(' ').unwrap_or((error, ""));
        let away = || Failure::Unavailable(cause(error));
        match code {
            "NOSCRIPT" => Self::NoScript,
            "MOVED" => Self::Fails(address(rest).map_or_else(away, Failure::Moved)),
            "ASK" => Self::Fails(address(rest).map_or_else(away, Failure::Ask)),
            "TRYAGAIN" => Self::Fails(Failure::TryAgain),
            "CLUSTERDOWN" => Self::Fails(away()),
            "READONLY" | "LOADING" | "BUSY" | "MASTERDOWN" | "NOAUTH" | "NOREPLICAS" => {
                Self::Breaks(cause(error))
            }
            _ => Self::Fails(Failure::Refused(cause(error))),
        }
    }
}

fn cause(error: &str) -> Cause {
    Cause::told_by_server(error.as_bytes())
}

/// The address in `3999 127.0.0.1:6381`.
fn address(rest: &str) -> Option<Address> {
    rest.split_whitespace()
        .nth(1)
        .and_then(Address::parse_announced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_name_where_to_go() {
        let moved = Meaning::of("MOVED 3999 127.0.0.1:6381");
        assert_eq!(
            moved,
            Meaning::Fails(Failure::Moved(Address::new("127.0.0.1", 6381)))
        );
        let ask = Meaning::of("ASK 3999 ::1:6381");
        assert_eq!(ask, Meaning::Fails(Failure::Ask(Address::new("::1", 6381))));
        assert!(matches!(
            Meaning::of("MOVED 3999"),
            Meaning::Fails(Failure::Unavailable(_))
        ));
        assert!(matches!(
            Meaning::of("MOVED 3999 :6381"),
            Meaning::Fails(Failure::Unavailable(_))
        ));
    }

    #[test]
    fn a_server_that_cannot_decide_is_left_alone() {
        for error in [
            "LOADING Redis is loading",
            "READONLY You can't write",
            "BUSY Redis is busy",
        ] {
            assert!(matches!(Meaning::of(error), Meaning::Breaks(_)), "{error}");
        }
        assert!(matches!(
            Meaning::of("OOM command not allowed"),
            Meaning::Fails(Failure::Refused(_))
        ));
    }

    #[test]
    fn what_a_server_quotes_is_not_repeated() {
        let Meaning::Fails(Failure::Refused(cause)) =
            Meaning::of("ERR unknown command 'AUTH', with args `hunter2`")
        else {
            panic!("another meaning")
        };
        assert_eq!(cause.to_string(), "the server says: ERR unknown command");
    }
}
