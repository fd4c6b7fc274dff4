//! Keys that a function computes from the request head.

use std::borrow::Cow;

use tollgate::{KeyParts, ToKey};

use super::{KeyLookup, KeySource, OptionalKey};
use crate::request_head::RequestHead;

/// A key that a function computes from the request head.
///
/// `description` names the key in the response to a request without it, as a noun with its article.
///
/// ```
/// use tollgate_tower::{RequestHead, by};
///
/// let tenant = by::function("a tenant's host name", |head: &RequestHead<'_>| {
///     let (tenant, _) = head.header("host")?.split_once('.')?;
///     Some(tenant.to_owned())
/// });
/// let tenant = tenant.or_skip();
/// # let _ = tenant;
/// ```
pub const fn function<K, F>(description: &'static str, key: F) -> OptionalKey<KeyFn<F>>
where
    K: ToKey,
    F: Fn(&RequestHead<'_>) -> Option<K> + Send + Sync + 'static,
{
    OptionalKey(KeyFn { description, key })
}

/// A key that a function computes from the request head. Created by [`function`].
#[derive(Clone, Copy, Debug)]
pub struct KeyFn<F> {
    description: &'static str,
    key: F,
}

impl<K, F> KeySource for KeyFn<F>
where
    K: ToKey,
    F: Fn(&RequestHead<'_>) -> Option<K> + Send + Sync + 'static,
{
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup {
        let key = (self.key)(head).inspect(|key| key.write(parts));
        KeyLookup::from_written(key.is_some())
    }

    fn description(&self) -> Cow<'_, str> {
        self.description.into()
    }
}
