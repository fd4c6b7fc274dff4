//! Keys that a request may lack, and the choice of what to do then.

use std::borrow::Cow;

use http::StatusCode;
use tollgate::KeyParts;

use super::extractor::{KeyExtractor, MissingKey};
use crate::request_head::RequestHead;

/// Looks up a key that a request may lack. Wrap it in [`OptionalKey`] to choose what to do without
/// the key.
pub trait KeySource: Send + Sync + 'static {
    /// Writes the key into `parts` if the request has one. If it returns anything but
    /// [`KeyLookup::Written`], it must have written nothing.
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup;

    /// The key as a noun with its article, for the message that tells a client what is missing:
    /// `the header x-api-key`.
    fn description(&self) -> Cow<'_, str>;
}

/// The result of looking up a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyLookup {
    /// The request has the key, and it has been written.
    Written,
    /// The request does not have the key.
    Absent,
    /// The request has several different values for the key, and the application might use any of
    /// them. The request is rejected with status 400.
    Ambiguous,
    /// The key cannot be looked up because the application is set up wrongly. The text says what is
    /// wrong and how to fix it; it is logged, and clients do not see it.
    Misconfigured(String),
}

/// Whether the key has been written.
impl From<bool> for KeyLookup {
    fn from(is_written: bool) -> Self {
        if is_written {
            Self::Written
        } else {
            Self::Absent
        }
    }
}

/// A key that a request may lack. It becomes a [`KeyExtractor`] once you say what to do without
/// the key: [`or`](Self::or), [`or_skip`](Self::or_skip) or [`or_reject`](Self::or_reject).
///
/// Without one of these the code does not compile:
///
/// ```compile_fail,E0277
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_tower::{RateLimitLayer, by};
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("api", 10, Rate::per_second(1))])?;
/// let layer = RateLimitLayer::new(&limiter, "api", by::header("x-api-key"));
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "say what to do without the key: `or`, `or_skip` or `or_reject`"]
pub struct OptionalKey<S>(pub S);

impl<S: KeySource> OptionalKey<S> {
    /// Counts requests without the key under another key.
    pub fn or<K: KeyExtractor>(self, other: K) -> KeyOr<S, K> {
        KeyOr {
            source: self.0,
            other,
        }
    }

    /// Does not apply the limit to requests without the key. Choose this only if another limit
    /// covers them.
    pub fn or_skip(self) -> KeyOr<S, MissingKey> {
        self.or(MissingKey::Skip)
    }

    /// Rejects requests without the key with this status, such as 401. The response says which key
    /// is missing.
    pub fn or_reject(self, status: StatusCode) -> KeyOr<S, MissingKey> {
        let description = self.0.description().into_owned();
        self.or(MissingKey::Reject {
            status,
            description,
        })
    }
}

/// A key, and another key or what to do without it. Created by [`OptionalKey::or`],
/// [`or_skip`](OptionalKey::or_skip) and [`or_reject`](OptionalKey::or_reject).
#[derive(Clone, Copy, Debug)]
pub struct KeyOr<S, K> {
    source: S,
    other: K,
}

impl<S: KeySource, K: KeyExtractor> KeyExtractor for KeyOr<S, K> {
    fn extract(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> Result<(), MissingKey> {
        match self.source.look_up(head, parts) {
            KeyLookup::Written => Ok(()),
            KeyLookup::Absent => self.other.extract(head, parts),
            KeyLookup::Ambiguous => Err(MissingKey::Ambiguous {
                description: self.source.description().into_owned(),
            }),
            KeyLookup::Misconfigured(reason) => Err(MissingKey::Misconfigured { reason }),
        }
    }
}
