//! Errors of store calls, and the classification of error replies.

use std::sync::Arc;

use tollgate::StoreError;

use crate::endpoint::Address;
use crate::resp::ProtocolError;

/// Longest part of a server's error reply that is repeated in our own errors, in characters.
const SERVER_TEXT_MAX: usize = 160;

/// The reason why an attempt at a store call failed. Many calls can fail for the same reason, so
/// it is cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The deadline has passed. The call may have run.
    Timeout,
    /// The queue to the server is full. The call has not run.
    Overloaded,
    /// The server cannot be reached, or cannot decide now. The call may have run.
    Unavailable(ServerError),
    /// The server replied with an error. The call has not run.
    Refused(ServerError),
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
    /// The script and our arithmetic do not agree on a verdict.
    pub(crate) fn foreign_write() -> Self {
        Self::Refused(ServerError::new(
            "a counter was written by another program or by another version of Tollgate",
        ))
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

    /// Repeats the beginning of an error reply. It is cut off at the first quotation mark, because
    /// some servers quote the command that they were sent, which may contain a password or a key.
    pub(crate) fn from_reply(error: &[u8]) -> Self {
        let error = String::from_utf8_lossy(error);
        let unquoted = error.split(['`', '\'', '"']).next().unwrap_or_default();
        let text: String = unquoted.chars().take(SERVER_TEXT_MAX).collect();

        Self::new(format!("server error: {}", text.trim_end()))
    }
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
            CallError::Overloaded => Self::Overloaded,
            CallError::Unavailable(error) => Self::Unavailable(Box::new(error)),
            CallError::Refused(error) => Self::Refused(Box::new(error)),

            CallError::Moved(_) | CallError::Ask(_) | CallError::TryAgain => {
                let error = ServerError::new("too many redirections: the slot is being migrated");
                Self::Unavailable(Box::new(error))
            }
        }
    }
}

/// What an error reply means for the calls that it answers, and for the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The server does not have the script: send the call again with the script's source.
    ScriptMissing,
    /// The calls fail. The connection remains usable.
    CallFailed(CallError),
    /// The calls fail, and the server must not be used until it has recovered.
    ServerUnusable(ServerError),
}

impl ErrorClass {
    /// Classifies an error reply by its first word, the error code.
    pub(crate) fn from_reply(error: &[u8]) -> Self {
        let text = String::from_utf8_lossy(error);
        let mut words = text.split(' ');
        let code = words.next().unwrap_or_default();

        let server_error = || ServerError::from_reply(error);
        let unavailable = || CallError::Unavailable(server_error());
        // A redirection has a slot and an address, as in `MOVED 3999 127.0.0.1:6381`.
        let mut redirection = |redirected: fn(Address) -> CallError| {
            let address = words.nth(1).and_then(Address::parse_announced);
            Self::CallFailed(address.map_or_else(unavailable, redirected))
        };

        match code {
            "NOSCRIPT" => Self::ScriptMissing,
            "MOVED" => redirection(CallError::Moved),
            "ASK" => redirection(CallError::Ask),
            "TRYAGAIN" => Self::CallFailed(CallError::TryAgain),
            "CLUSTERDOWN" => Self::CallFailed(unavailable()),
            "READONLY" | "LOADING" | "BUSY" | "MASTERDOWN" | "NOAUTH" | "NOREPLICAS" => {
                Self::ServerUnusable(server_error())
            }
            _ => Self::CallFailed(CallError::Refused(server_error())),
        }
    }
}

/// The error with which the calls fail.
impl From<ErrorClass> for CallError {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::ScriptMissing => {
                Self::Refused(ServerError::new("the server does not accept the script"))
            }
            ErrorClass::CallFailed(error) => error,
            ErrorClass::ServerUnusable(error) => Self::Unavailable(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_carry_the_address() {
        let moved = ErrorClass::from_reply(b"MOVED 3999 127.0.0.1:6381");
        let address = Address::new("127.0.0.1", 6381);
        assert_eq!(moved, ErrorClass::CallFailed(CallError::Moved(address)));

        let ask = ErrorClass::from_reply(b"ASK 3999 ::1:6381");
        let address = Address::new("::1", 6381);
        assert_eq!(ask, ErrorClass::CallFailed(CallError::Ask(address)));

        for without_address in [&b"MOVED 3999"[..], b"MOVED 3999 :6381"] {
            assert!(matches!(
                ErrorClass::from_reply(without_address),
                ErrorClass::CallFailed(CallError::Unavailable(_))
            ));
        }
    }

    #[test]
    fn a_server_that_cannot_decide_is_unusable() {
        for error in [
            "LOADING Redis is loading",
            "READONLY You can't write",
            "BUSY Redis is busy",
        ] {
            let class = ErrorClass::from_reply(error.as_bytes());
            assert!(matches!(class, ErrorClass::ServerUnusable(_)), "{error}");
        }

        assert!(matches!(
            ErrorClass::from_reply(b"OOM command not allowed"),
            ErrorClass::CallFailed(CallError::Refused(_))
        ));
    }

    #[test]
    fn quoted_text_of_a_server_is_not_repeated() {
        let ErrorClass::CallFailed(CallError::Refused(error)) =
            ErrorClass::from_reply(b"ERR unknown command 'AUTH', with args `hunter2`")
        else {
            panic!("wrong class")
        };

        assert_eq!(error.to_string(), "server error: ERR unknown command");
    }
}
