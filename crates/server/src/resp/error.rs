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
}

impl RespError {
    /// A command that cannot be carried out.
    pub(super) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: "ERR",
            text: text.into(),
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
            text: format!("unsupported protocol version '{found}'; use 2 or 3").into(),
        }
    }

    /// A connection that has not sent a valid token.
    pub(super) const fn no_auth() -> Self {
        Self {
            code: "NOAUTH",
            text: Cow::Borrowed("Authentication required."),
        }
    }

    pub(super) const fn wrong_password() -> Self {
        Self {
            code: "WRONGPASS",
            text: Cow::Borrowed("unknown token: send one of `server.tokens` as the password"),
        }
    }

    pub(super) const fn overloaded() -> Self {
        Self {
            code: "ERR",
            text: Cow::Borrowed("overloaded: too many requests in flight; retry in a second"),
        }
    }

    /// The command came over a connection beyond `connections_max`.
    pub(super) const fn too_many_connections() -> Self {
        Self {
            code: "ERR",
            text: Cow::Borrowed("overloaded: too many connections; retry in a second"),
        }
    }

    /// The configuration does not allow what the command asks for.
    pub(super) fn forbidden(text: String) -> Self {
        Self {
            code: "NOPERM",
            text: text.into(),
        }
    }

    /// The store is unavailable, so this limit denies: its failure policy is `deny`.
    pub(super) fn denied_by_policy(limit: &str) -> Self {
        Self::new(format!(
            "store unavailable: the limit `{limit}` has `on_store_failure: deny`; retry in a second"
        ))
    }
}

impl From<FrameError> for RespError {
    fn from(error: FrameError) -> Self {
        Self::new(format!("Protocol error: {error}"))
    }
}

impl From<AccessError> for RespError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::MissingToken | AccessError::UnknownToken => Self::no_auth(),
            AccessError::NotPermitted { .. } => Self::forbidden(error.to_string()),
        }
    }
}

impl From<DecideError> for RespError {
    fn from(error: DecideError) -> Self {
        match error.store_error() {
            Some(store_error) => Self::new(format!("store unavailable: {store_error}")),
            None => Self::new(error.to_string()),
        }
    }
}
