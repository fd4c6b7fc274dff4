//! Keys from request extensions, such as the user that an authentication layer found.

use std::borrow::Cow;
use std::marker::PhantomData;

use tollgate::{KeyParts, ToKey};

use super::{KeyLookup, KeySource, OptionalKey};
use crate::request_head::RequestHead;

/// A key from an extension of the request, which an authentication layer or
/// [`look_up`](crate::RateLimitLayer::look_up) has inserted.
///
/// ```
/// use http::StatusCode;
/// use tollgate_tower::by;
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
/// }
///
/// let user = by::extension(|user: &User| user.id).or_reject(StatusCode::UNAUTHORIZED);
/// # let _ = user;
/// ```
pub const fn extension<T, K, F>(key: F) -> OptionalKey<ExtensionKey<T, F>>
where
    T: Send + Sync + 'static,
    K: ToKey,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    OptionalKey(ExtensionKey {
        key,
        extension: PhantomData,
    })
}

/// A key that a function takes from an extension of type `T`. Created by [`extension`].
#[derive(Clone, Copy, Debug)]
pub struct ExtensionKey<T, F> {
    key: F,
    extension: PhantomData<fn(&T)>,
}

impl<T, K, F> KeySource for ExtensionKey<T, F>
where
    T: Send + Sync + 'static,
    K: ToKey,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup {
        let extension = head.extensions().get::<T>();
        let extension = extension.inspect(|extension| (self.key)(extension).write(parts));
        KeyLookup::from_written(extension.is_some())
    }

    fn description(&self) -> Cow<'_, str> {
        let path = std::any::type_name::<T>();
        let name = path.rsplit("::").next().unwrap_or(path);
        format!("the caller's identity ({name})").into()
    }
}
