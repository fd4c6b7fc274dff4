//! Why limits cannot be selected for a request.

use tollgate::KeyError;
use tollgate::algorithm::AMOUNT_MAX;
use tollgate_subject::{AddressError, VALUES_MAX};

use crate::config::InlineLimitError;

/// The reason why limits cannot be selected for a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No limit has this name.
    #[error("unknown limit {found:?}; expected one of {known}")]
    UnknownLimit {
        /// The requested name, cut to 80 characters.
        found: String,
        /// The names of the first limits of the configuration.
        known: String,
    },
    /// A limit that the request brings along is configured.
    #[error("the limit {limit:?} is configured: send only `name`, `key` and `cost`")]
    Configured {
        /// The name of the limit.
        limit: String,
    },
    /// A limit that the request brings along is invalid or not allowed.
    #[error(transparent)]
    Inline(#[from] InlineLimitError),
    /// A limit that the request brings along has no key.
    #[error("missing field `key` of the limit {limit:?}; expected a string, such as \"user:42\"")]
    MissingKey {
        /// The name of the limit.
        limit: String,
    },
    /// The request gives one key for a limit whose key does not have exactly one attribute.
    #[error("invalid `key` for the limit {limit:?}: {expected}")]
    AmbiguousKey {
        /// The name of the limit.
        limit: String,
        /// What the limit counts by, and what to send.
        expected: String,
    },
    /// The request lacks an attribute of a limit's key.
    #[error(
        "missing attribute `{attribute}`: the limit {limit:?} counts by it; send the attribute, or \
         make the limit optional"
    )]
    MissingAttribute {
        /// The name of the limit.
        limit: String,
        /// The attribute and its alternatives, separated by ` | `.
        attribute: String,
    },
    /// The attribute `client_ip` is not a valid address.
    #[error("invalid attribute `client_ip` for the limit {limit:?}: {cause}")]
    Address {
        /// The name of the limit.
        limit: String,
        /// What is wrong with the address.
        cause: AddressError,
    },
    /// The key is not valid.
    #[error("invalid key for the limit {limit:?}: {cause}")]
    Key {
        /// The name of the limit.
        limit: String,
        /// What is wrong with the key.
        cause: KeyError,
    },
    /// A header, cookie or query parameter has too many different values.
    #[error(
        "too many values of the attribute `{attribute}`: at most {VALUES_MAX} different values are \
         allowed in a request"
    )]
    TooManyValues {
        /// The attribute.
        attribute: String,
    },
    /// The attributes of a limit's key have too many different values.
    #[error("too many values of the attributes that the limit {limit:?} counts by; send each once")]
    TooManyKeys {
        /// The name of the limit.
        limit: String,
    },
    /// The path has several readings, and a limit applies to some of them only.
    #[error(
        "ambiguous path for the limit {limit:?}: servers may read it as {readings}; send it \
         without encoded, empty or relative segments"
    )]
    AmbiguousPath {
        /// The name of the limit.
        limit: String,
        /// A reading that the limit applies to and one that it does not apply to, each cut to 80
        /// characters.
        readings: String,
    },
    /// No limit counts tokens of this kind: what was found, and the known kinds.
    #[error("{0}")]
    TokenKind(String),
    /// The request states a cost that is too large.
    #[error("invalid cost {found}: must be a whole number up to {AMOUNT_MAX}")]
    Amount {
        /// The stated cost.
        found: u64,
    },
    /// The attribute that holds the cost is not a whole number, or too large.
    #[error(
        "invalid cost {found:?} in the attribute `{attribute}` for the limit {limit:?}: must be a \
         whole number up to {AMOUNT_MAX}"
    )]
    Cost {
        /// The name of the limit.
        limit: String,
        /// The attribute.
        attribute: String,
        /// The value of the attribute, cut to 40 characters.
        found: String,
    },
}
