//! Keys from headers.

use std::borrow::Cow;

use http::HeaderName;
use tollgate::{KeyHasher, KeyParts};

use super::{Find, Found, Wanted};
use crate::head::Head;

/// The value of a header, such as an API key.
///
/// ```
/// use tollgate::KeyHasher;
/// use tollgate_tower::by;
///
/// // The key itself never leaves the process.
/// let secret = KeyHasher::new(b"sixteen bytes or more of a secret")?;
/// let caller = by::header("x-api-key").hashed(secret).or(by::client_address());
/// # let _ = caller;
/// # Ok::<(), tollgate::SecretError>(())
/// ```
///
/// # Panics
///
/// When the name is no name of a header in lower case.
pub const fn header(name: &'static str) -> Wanted<HeaderKey> {
    Wanted(HeaderKey {
        name: HeaderName::from_static(name),
        hasher: None,
    })
}

/// See [`header`].
#[derive(Clone, Debug)]
pub struct HeaderKey {
    name: HeaderName,
    hasher: Option<KeyHasher>,
}

impl Wanted<HeaderKey> {
    /// Counts under the keyed hash of the value, so that a secret does not reach the store.
    pub fn hashed(mut self, hasher: KeyHasher) -> Self {
        self.0.hasher = Some(hasher);
        self
    }
}

impl Find for HeaderKey {
    fn find(&self, head: &Head<'_>, parts: &mut KeyParts) -> Found {
        let Some(value) = head.header(&self.name).filter(|value| !value.is_empty()) else {
            return Found::Absent;
        };
        match &self.hasher {
            Some(hasher) => parts.hashed(hasher.hash(value.as_bytes())),
            None => parts.text(value),
        }
        Found::Written
    }

    fn what(&self) -> Cow<'_, str> {
        format!("the header {}", self.name).into()
    }
}
