//! Keys from the request's body, such as the account that somebody tries to log in to.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate::{KeyParts, ToKey};

use super::{Find, Found, Wanted};
use crate::head::Head;

/// A key that stands in the body. A [`ReadBodyLayer`](crate::ReadBodyLayer) outside of this layer
/// must have read it: bodies are read only where somebody says so, and only so much of them.
///
/// ```
/// use http::StatusCode;
/// use tollgate_tower::by;
///
/// // One account whatever the spelling, or whoever tries passwords has a budget for each spelling.
/// let account = by::body("an e-mail address", |body| {
///     let text = std::str::from_utf8(body).ok()?;
///     Some(text.strip_prefix("email=")?.trim().to_lowercase())
/// });
/// let account = account.or_refuse(StatusCode::BAD_REQUEST);
/// # let _ = account;
/// ```
pub const fn body<K, F>(what: &'static str, key: F) -> Wanted<BodyKey<F>>
where
    K: ToKey,
    F: Fn(&Bytes) -> Option<K> + Send + Sync + 'static,
{
    Wanted(BodyKey { what, key })
}

/// See [`body`].
#[derive(Clone, Copy, Debug)]
pub struct BodyKey<F> {
    what: &'static str,
    key: F,
}

impl<K, F> Find for BodyKey<F>
where
    K: ToKey,
    F: Fn(&Bytes) -> Option<K> + Send + Sync + 'static,
{
    fn find(&self, head: &Head<'_>, parts: &mut KeyParts) -> Found {
        let Some(body) = head.body() else {
            return Found::Broken(format!(
                "a limit looks for {} in the request's body, which nobody has read; put a `ReadBodyLayer` outside of it",
                self.what
            ));
        };
        Found::is((self.key)(body).inspect(|key| key.write(parts)).is_some())
    }

    fn what(&self) -> Cow<'_, str> {
        self.what.into()
    }
}
