//! Keys from what another layer has found out, such as the user behind a token.

use std::borrow::Cow;
use std::marker::PhantomData;

use tollgate::{KeyParts, ToKey};

use super::{Find, Found, Wanted};
use crate::head::Head;

/// A key made from an extension of the request, as an authentication layer or a
/// [look-up](crate::RateLimitLayer::look_up) leaves one.
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
/// let user = by::extension(|user: &User| user.id).or_refuse(StatusCode::UNAUTHORIZED);
/// # let _ = user;
/// ```
pub const fn extension<T, K, F>(key: F) -> Wanted<ExtensionKey<T, F>>
where
    T: Send + Sync + 'static,
    K: ToKey,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    Wanted(ExtensionKey {
        key,
        extension: PhantomData,
    })
}

/// See [`extension`].
#[derive(Clone, Copy, Debug)]
pub struct ExtensionKey<T, F> {
    key: F,
    extension: PhantomData<fn(&T)>,
}

impl<T, K, F> Find for ExtensionKey<T, F>
where
    T: Send + Sync + 'static,
    K: ToKey,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    fn find(&self, head: &Head<'_>, parts: &mut KeyParts) -> Found {
        let found = head.extensions().get::<T>();
        Found::is(
            found
                .inspect(|extension| (self.key)(extension).write(parts))
                .is_some(),
        )
    }

    fn what(&self) -> Cow<'_, str> {
        let name = std::any::type_name::<T>();
        format!(
            "who is asking ({})",
            name.rsplit("::").next().unwrap_or(name)
        )
        .into()
    }
}
