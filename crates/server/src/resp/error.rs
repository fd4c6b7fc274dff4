//! Error replies: a code in capitals, which clients look at, and a text for humans.

use std::borrow::Cow;

use tollgate_gate::{AccessError, DecideError};

use super::frame::FrameError;

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RespError {
    /// The first word of the reply.
    pub(super) code: &'static str,
    /// What was found and what is expected.
    pub(super) text: Cow<'static, str>,
    /// The code that it is counted under, the same as on other fronts. None if a limit decided.
    pub(super) cause: Option<&'static str>,
}

impl RespError {
    /// A command that cannot be carried out.
    pub(super) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: "ERR",
            text: text.into(),
            cause: Some("invalid-command"),
        }
    }

    /// The same error, counted under another code.
    pub(super) fn because(self, cause: &'static str) -> Self {
        Self {
            cause: Some(cause),
            ..self
        }
    }

    /// A command with too few or too many arguments.
    pub(super) fn usage(name: &str, usage: &str) -> Self {
        Self::new(format!(
            "wrong number of arguments for '{name}' command; usage: {usage}"
        ))
    }

    /// A version of the protocol that this port does not speak.
    pub(super) fn version(found: &str) -> Self {
        Self {
            code: "NOPROTO",
            ..Self::new(format!(
                "unsupported protocol version '{found}'; use 2 or 3"
            ))
        }
    }

    /// A connection that has not sent a valid token.
    pub(super) const fn no_auth() -> Self {
        Self {
            code: "NOAUTH",
            text: Cow::Borrowed("Authentication required."),
            cause: Some("no-token"),
        }
    }

    pub(super) const fn wrong_password() -> Self {
        Self {
            code: "WRONGPASS",
            text: Cow::Borrowed("unknown token: send one of `server.tokens` as the password"),
            cause: Some("wrong-token"),
        }
    }

    pub(super) fn overloaded() -> Self {
        Self::new("overloaded: too many requests in flight; retry in a second")
            .because("overloaded")
    }

    /// The command came over a connection beyond `connections_max`.
    pub(super) fn too_many_connections() -> Self {
        Self::new("overloaded: too many connections; retry in a second").because("overloaded")
    }

    /// The configuration does not allow what the command asks for.
    pub(super) fn forbidden(text: String, cause: &'static str) -> Self {
        Self {
            code: "NOPERM",
            ..Self::new(text).because(cause)
        }
    }

    /// The store is unavailable, so this limit denies: its failure policy is `deny`.
    pub(super) fn denied_by_policy(limit: &str) -> Self {
        let text = format!(
            "store unavailable: the limit `{limit}` has `on_store_failure: deny`; retry in a second"
        );
        Self {
            // It is counted as a decision.
            cause: None,
            ..Self::new(text)
        }
    }
}

impl From<FrameError> for RespError {
    fn from(error: FrameError) -> Self {
        Self::new(format!("Protocol error: {error}")).because("protocol-error")
    }
}

impl From<AccessError> for RespError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::MissingToken | AccessError::UnknownToken => {
                Self::no_auth().because(error.code())
            }
            AccessError::NotPermitted { .. } => Self::forbidden(error.to_string(), error.code()),
        }
    }
}

impl From<DecideError> for RespError {
    fn from(error: DecideError) -> Self {
        let text = match error.store_error() {
            Some(store_error) => format!("store unavailable: {store_error}"),
            None => error.to_string(),
        };
        Self::new(text).because(error.code())
    }
}
