//! Keys from the request body, such as the account of a login attempt.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate::{KeyParts, ToKey};

use super::{KeyLookup, KeySource, OptionalKey};
use crate::request_head::RequestHead;

/// A key from the request body.
///
/// A [`ReadBodyLayer`](crate::ReadBodyLayer) outside of this layer must have read the body; this
/// layer never reads it. `description` names the key in the response to a request without it, as a
/// noun with its article.
///
/// ```
/// use http::StatusCode;
/// use tollgate_tower::by;
///
/// // Normalise the account. Otherwise an attacker gets a new budget for each spelling.
/// let account = by::body("an e-mail address", |body| {
///     let text = std::str::from_utf8(body).ok()?;
///     Some(text.strip_prefix("email=")?.trim().to_lowercase())
/// });
/// let account = account.or_reject(StatusCode::BAD_REQUEST);
/// # let _ = account;
/// ```
pub const fn body<K, F>(description: &'static str, key: F) -> OptionalKey<BodyKey<F>>
where
    K: ToKey,
    F: Fn(&Bytes) -> Option<K> + Send + Sync + 'static,
{
    OptionalKey(BodyKey { description, key })
}

/// A key that a function takes from the request body. Created by [`body`].
#[derive(Clone, Copy, Debug)]
pub struct BodyKey<F> {
    description: &'static str,
    key: F,
}

impl<K, F> KeySource for BodyKey<F>
where
    K: ToKey,
    F: Fn(&Bytes) -> Option<K> + Send + Sync + 'static,
{
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup {
        let Some(body) = head.body() else {
            return KeyLookup::Misconfigured(format!(
                "a limit uses {} from the request body as its key, but the body has not been \
                 read; add a `ReadBodyLayer` outside of this layer",
                self.description
            ));
        };

        let key = (self.key)(body).inspect(|key| key.write(parts));
        KeyLookup::from_written(key.is_some())
    }

    fn description(&self) -> Cow<'_, str> {
        self.description.into()
    }
}
