//! Keys from request headers.

use std::borrow::Cow;

use http::HeaderName;
use tollgate::{KeyHasher, KeyParts};
use tollgate_subject::header_values;

use super::optional::{KeyLookup, KeySource, OptionalKey};
use crate::request_head::RequestHead;

/// The value of a header, such as an API key. An empty header counts as missing.
///
/// White space around the value is ignored, and so is the scheme of `authorization`: `Bearer t` and
/// `bearer  t` are the same key. A request with several different values is rejected with status
/// 400, whatever [`or_skip`](OptionalKey::or_skip) and the like say: the application might use
/// either of them, so a client could choose its counter.
///
/// ```
/// use tollgate::KeyHasher;
/// use tollgate_tower::by;
///
/// // Only a hash of the API key reaches the store.
/// let secret = KeyHasher::new(b"sixteen bytes or more of a secret")?;
/// let caller = by::header("x-api-key").hashed(secret).or(by::client_address());
/// # let _ = caller;
/// # Ok::<(), tollgate::SecretError>(())
/// ```
///
/// # Panics
///
/// If the name is not a valid header name in lower case.
pub const fn header(name: &'static str) -> OptionalKey<HeaderKey> {
    OptionalKey(HeaderKey {
        name: HeaderName::from_static(name),
        hasher: None,
    })
}

/// A header value as a key. Created by [`header`].
#[derive(Clone, Debug)]
pub struct HeaderKey {
    name: HeaderName,
    /// `None` if the value itself is the key.
    hasher: Option<KeyHasher>,
}

impl OptionalKey<HeaderKey> {
    /// Uses the keyed hash of the value as the key, so that a secret does not reach the store.
    pub fn hashed(mut self, hasher: KeyHasher) -> Self {
        self.0.hasher = Some(hasher);
        self
    }
}

impl KeySource for HeaderKey {
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup {
        let lines = head.headers().get_all(&self.name).iter();
        let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()));
        let values = header_values(self.name.as_str(), lines);
        let value = match values.as_slice() {
            [] => return KeyLookup::Absent,
            [value] => value,
            _ => return KeyLookup::Ambiguous,
        };

        match &self.hasher {
            Some(hasher) => parts.hashed(hasher.hash(value.as_bytes())),
            None => parts.text(value),
        }
        KeyLookup::Written
    }

    fn description(&self) -> Cow<'_, str> {
        format!("the header {}", self.name).into()
    }
}
