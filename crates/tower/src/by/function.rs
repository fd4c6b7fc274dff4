//! Keys by any function of the request's head.

use std::borrow::Cow;

use tollgate::{KeyParts, ToKey};

use super::{Find, Found, Wanted};
use crate::head::Head;

/// Whatever a function makes of the request. `what` says what is missing where it makes nothing.
///
/// ```
/// use tollgate_tower::{Head, by};
///
/// let tenant = by::function("a tenant's host name", |head: &Head<'_>| {
///     let (tenant, _) = head.header("host")?.split_once('.')?;
///     Some(tenant.to_owned())
/// });
/// let tenant = tenant.or_skip();
/// # let _ = tenant;
/// ```
pub const fn function<K, F>(what: &'static str, key: F) -> Wanted<FromFn<F>>
where
    K: ToKey,
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
{
    Wanted(FromFn { what, key })
}

/// See [`function`].
#[derive(Clone, Copy, Debug)]
pub struct FromFn<F> {
    what: &'static str,
    key: F,
}

impl<K, F> Find for FromFn<F>
where
    K: ToKey,
    F: Fn(&Head<'_>) -> Option<K> + Send + Sync + 'static,
{
    fn find(&self, head: &Head<'_>, parts: &mut KeyParts) -> Found {
        Found::is((self.key)(head).inspect(|key| key.write(parts)).is_some())
    }

    fn what(&self) -> Cow<'_, str> {
        self.what.into()
    }
}
