//! Errors of store calls, and the classification of error replies.

use std::fmt;
use std::sync::Arc;

use tollgate::StoreError;

use crate::endpoint::Address;
use crate::resp::ProtocolError;
use crate::wire::{DemandTerms, ScriptError};

/// Longest part of a server's error reply that is repeated in our own errors, in characters.
const SERVER_TEXT_MAX: usize = 160;

/// The failure of a store that was opened for one server, which is one of several.
const PART_OF_CLUSTER: &str = "the server is part of a cluster, where it has some of the counters \
     only; open the store as a cluster: RedisBuilder::cluster, or `type: redis-cluster`";

/// The reason why an attempt at a store call failed. Many calls can fail for the same reason, so
/// it is cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The reply did not arrive within the timeout. The call may have run.
    Timeout,
    /// The decision took longer than it may, in the queue or in this process. The call may have
    /// run.
    Overdue,
    /// The same, and the call was not sent. The call has not run.
    Expired,
    /// The queue to the server is full. The call has not run.
    Overloaded,
    /// The server cannot be reached, or cannot decide now. The call may have run.
    Unavailable(ServerError),
    /// The server cannot be reached, and the call was not sent.
    NotSent(ServerError),
    /// The server cannot decide now, and must not be used until it has recovered. The call may have
    /// run.
    ServerUnusable(ServerError),
    /// The server replied with an error. The call has not run.
    Refused(ServerError),
    /// A counter has too many open reservations. The call has not run. With the index of the demand.
    Bound(usize),
    /// Another program has written to a counter, which was deleted. The call has not run. With the
    /// index of the demand, if it is known.
    Malformed(Option<usize>),
    /// The script failed. The call may have run in part.
    ScriptFailed(ServerError),
    /// The server does not have the script. The call has not run.
    ScriptMissing,
    /// `MOVED`: the slot belongs to another server. The call has not run.
    Moved(Address),
    /// `ASK`: the slot is being migrated, and this key is already at the other server. The call
    /// has not run.
    Ask(Address),
    /// `TRYAGAIN`: the slot is being migrated, and only some of the keys have been moved. The call
    /// has not run.
    TryAgain,
}

impl CallError {
    /// The meaning of an error reply, by its first word, the error code.
    pub(crate) fn from_reply(error: &[u8]) -> Self {
        let text = String::from_utf8_lossy(error);
        let mut words = text.split(' ');
        let code = words.next().unwrap_or_default();
        // A redirection has a slot and an address, as in `MOVED 3999 127.0.0.1:6381`.
        let mut address = || words.nth(1).and_then(Address::parse_announced);

        let server_error = ServerError::from_reply(error);
        match code {
            "NOSCRIPT" => Self::ScriptMissing,
            "MOVED" => address().map_or(Self::Unavailable(server_error), Self::Moved),
            "ASK" => address().map_or(Self::Unavailable(server_error), Self::Ask),
            "TRYAGAIN" => Self::TryAgain,
            "CLUSTERDOWN" => Self::Unavailable(server_error),
            "READONLY" | "LOADING" | "BUSY" | "MASTERDOWN" | "MISCONF" | "NOAUTH"
            | "NOREPLICAS" => Self::ServerUnusable(server_error),
            "MALFORMED" | "WRONGTYPE" => Self::Malformed(None),
            _ if text.contains("user_script") => Self::ScriptFailed(server_error),
            _ => Self::Refused(server_error),
        }
    }

    /// The meaning of the error of one call in a reply of the script.
    pub(crate) fn from_script(error: ScriptError<'_>) -> Self {
        if error.text.starts_with(b"BOUND ") {
            return Self::Bound(error.demand);
        }
        match Self::from_reply(error.text) {
            Self::Malformed(_) => Self::Malformed(Some(error.demand)),
            other => other,
        }
    }

    /// The script and our arithmetic do not agree on a verdict: a counter was written by another
    /// program. With a single demand, it is about that one.
    pub(crate) fn foreign_write(demands: usize) -> Self {
        Self::Malformed((demands == 1).then_some(0))
    }

    /// The same error of a call about the demands with these indexes in a request.
    pub(crate) fn of_demands(self, indexes: &[usize]) -> Self {
        match self {
            Self::Malformed(Some(demand)) => Self::Malformed(indexes.get(demand).copied()),
            error => error,
        }
    }

    /// The error for the caller of a request, which names the limit that it concerns.
    pub(crate) fn for_demands(self, terms: &[DemandTerms]) -> StoreError {
        let limit = |demand: usize| terms.get(demand).map(|terms| terms.limit);
        match self {
            Self::Bound(demand) => StoreError::Bound {
                limit: limit(demand),
            },
            Self::Malformed(demand) => StoreError::Malformed {
                limit: demand.and_then(limit),
            },
            error => error.into(),
        }
    }
}

/// A failure of a server or of the connection to it, described for an operator. The text never
/// contains a password or a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ServerError(Arc<str>);

impl ServerError {
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Repeats the beginning of an error reply, after what it means and what to do if it is about
    /// access. It is cut off at the first quotation, because some servers quote the command that
    /// they were sent, which may contain a password or a key.
    pub(crate) fn from_reply(error: &[u8]) -> Self {
        let error = String::from_utf8_lossy(error);
        let text: String = before_quotation(&error)
            .chars()
            .take(SERVER_TEXT_MAX)
            .collect();

        let explanation = access_explanation(&text).unwrap_or("server error");
        Self::new(format!("{explanation}: {}", text.trim_end()))
    }

    /// The store was opened for one server, which is one of several.
    pub(crate) fn part_of_cluster() -> Self {
        Self::new(PART_OF_CLUSTER)
    }

    /// True when only a change of the settings helps.
    pub(crate) fn is_part_of_cluster(&self) -> bool {
        self.0.ends_with(PART_OF_CLUSTER)
    }

    /// The same failure, with the server that it is about.
    pub(crate) fn at(&self, server: &impl fmt::Display) -> Self {
        Self::new(format!("{server}: {self}"))
    }
}

/// What an error reply about users, passwords and permissions means.
fn access_explanation(text: &str) -> Option<&'static str> {
    match text.split(' ').next()? {
        "NOAUTH" => Some(
            "the server requires a password and none is configured; write it into the endpoint, \
             as in redis://user:password@host:6379 (without a user: redis://:password@host:6379)",
        ),
        "WRONGPASS" => Some(
            "the server does not accept the user or the password of the endpoint; correct them, \
             and write % as %25, @ as %40 and / as %2F",
        ),
        "NOPERM" => Some(
            "the user of the endpoint lacks a permission; grant what docs/redis.md lists under \
             \"Connect\"",
        ),
        _ if text.starts_with("ERR AUTH") || text.contains("no password is set") => Some(
            "the endpoint has a password and the server requires none; remove it from the \
             endpoint, or set it at the server",
        ),
        _ => None,
    }
}

/// The text before the first quotation mark. The apostrophe of a contraction, as in `can't` or
/// `it's`, is none.
fn before_quotation(text: &str) -> &str {
    let is_apostrophe = |index: usize| {
        let (before, after) = (&text[..index], &text[index + 1..]);
        let end = after.find(|c: char| !c.is_alphabetic());
        let (ending, rest) = after.split_at(end.unwrap_or(after.len()));

        before.ends_with(char::is_alphabetic)
            && matches!(ending, "t" | "s" | "re" | "ve" | "ll")
            && !rest.starts_with(|c: char| c == '\'' || c.is_numeric())
    };

    let mut marks = text.match_indices(['`', '\'', '"']);
    let quotation = marks.find(|(index, mark)| *mark != "'" || !is_apostrophe(*index));
    quotation.map_or(text, |(index, _)| &text[..index])
}

impl From<std::io::Error> for ServerError {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("connection failed: {error}"))
    }
}

impl From<ProtocolError> for ServerError {
    fn from(error: ProtocolError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Timeout => Self::Timeout,
            CallError::Overdue | CallError::Expired | CallError::Overloaded => Self::Overloaded,
            CallError::Unavailable(error)
            | CallError::NotSent(error)
            | CallError::ServerUnusable(error) => Self::Unavailable(Box::new(error)),
            CallError::Refused(error) => Self::Refused(Box::new(error)),
            CallError::Bound(_) => Self::Bound { limit: None },
            CallError::Malformed(_) => Self::Malformed { limit: None },
            CallError::ScriptFailed(error) => Self::Script(Box::new(error)),
            CallError::ScriptMissing => {
                Self::Refused("the server does not accept the script".into())
            }

            CallError::Moved(_) | CallError::Ask(_) | CallError::TryAgain => {
                Self::Unavailable("too many redirections: the slot is being migrated".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_carry_the_address() {
        let moved = CallError::from_reply(b"MOVED 3999 127.0.0.1:6381");
        let address = Address::new("127.0.0.1", 6381);
        assert_eq!(moved, CallError::Moved(address));

        let ask = CallError::from_reply(b"ASK 3999 ::1:6381");
        let address = Address::new("::1", 6381);
        assert_eq!(ask, CallError::Ask(address));

        for without_address in [&b"MOVED 3999"[..], b"MOVED 3999 :6381"] {
            assert!(matches!(
                CallError::from_reply(without_address),
                CallError::Unavailable(_)
            ));
        }
    }

    #[test]
    fn a_server_that_cannot_decide_is_unusable() {
        for text in [
            "LOADING Redis is loading",
            "READONLY You can't write",
            "BUSY Redis is busy",
            "MISCONF Redis is configured to save RDB snapshots",
        ] {
            let error = CallError::from_reply(text.as_bytes());
            assert!(matches!(error, CallError::ServerUnusable(_)), "{text}");
        }

        assert!(matches!(
            CallError::from_reply(b"OOM command not allowed"),
            CallError::Refused(_)
        ));
    }

    #[test]
    fn quoted_text_of_a_server_is_not_repeated() {
        let CallError::Refused(error) =
            CallError::from_reply(b"ERR unknown command 'AUTH', with args `hunter2`")
        else {
            panic!("wrong error")
        };

        assert_eq!(error.to_string(), "server error: ERR unknown command");
    }

    #[test]
    fn an_apostrophe_does_not_cut_the_text_off() {
        for (reply, expected) in [
            (
                "READONLY You can't write against a read only replica.",
                "READONLY You can't write against a read only replica.",
            ),
            ("ERR it's 'hunter2' again", "ERR it's"),
            ("ERR can't do \"hunter2\"", "ERR can't do"),
            ("ERR near x'hunter2'", "ERR near x"),
            ("'hunter2'", ""),
            ("ERR 'hunter2", "ERR"),
        ] {
            let error = ServerError::from_reply(reply.as_bytes()).to_string();
            assert_eq!(error, format!("server error: {expected}"));
        }
    }
}
