//! Keys that functions compute: from the request head, its extensions, its path or its body.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate::{KeyParts, ToKey};
use tollgate_subject::{Case, Glob, GlobError};

use super::optional::{KeyLookup, KeySource, OptionalKey};
use crate::request_head::RequestHead;

/// A key that a function looks up.
#[derive(Clone)]
struct FnSource<F> {
    description: Cow<'static, str>,
    look_up: F,
}

impl<F> KeySource for FnSource<F>
where
    F: Fn(&RequestHead<'_>, &mut KeyParts) -> KeyLookup + Send + Sync + 'static,
{
    fn look_up(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> KeyLookup {
        (self.look_up)(head, parts)
    }

    fn description(&self) -> Cow<'_, str> {
        (&*self.description).into()
    }
}

fn source<F>(
    description: impl Into<Cow<'static, str>>,
    look_up: F,
) -> OptionalKey<impl KeySource + Clone>
where
    F: Fn(&RequestHead<'_>, &mut KeyParts) -> KeyLookup + Clone + Send + Sync + 'static,
{
    OptionalKey(FnSource {
        description: description.into(),
        look_up,
    })
}

/// Writes a key if there is one.
fn write(key: Option<impl ToKey>, parts: &mut KeyParts) -> KeyLookup {
    key.inspect(|key| key.write(parts)).is_some().into()
}

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
pub fn function<K: ToKey>(
    description: &'static str,
    key: impl Fn(&RequestHead<'_>) -> Option<K> + Clone + Send + Sync + 'static,
) -> OptionalKey<impl KeySource + Clone> {
    source(
        description,
        move |head: &RequestHead<'_>, parts: &mut KeyParts| write(key(head), parts),
    )
}

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
pub fn extension<T: Send + Sync + 'static, K: ToKey>(
    key: impl Fn(&T) -> K + Clone + Send + Sync + 'static,
) -> OptionalKey<impl KeySource + Clone> {
    let path = std::any::type_name::<T>();
    let name = path.rsplit("::").next().unwrap_or(path);
    let description = format!("the caller's identity ({name})");
    source(description, move |head, parts| {
        write(head.extensions().get().map(&key), parts)
    })
}

/// The name of the first class whose pattern matches the path, in any of its
/// [readings](RequestHead::path_readings).
///
/// So `/auth/./login`, `/auth%2Flogin` and `/Auth/Login` are in the same class as `/auth/login`. Put
/// the strictest class first. A path has no key only if no pattern matches any of its readings.
///
/// ```
/// use tollgate_tower::by;
///
/// let class = by::path_class([("/auth/**", "auth"), ("/reports/*.pdf", "reports")])?;
/// let per_class_and_client = (class.or_skip(), by::client_address());
/// # let _ = per_class_and_client;
/// # Ok::<(), tollgate_tower::GlobError>(())
/// ```
pub fn path_class<'c>(
    classes: impl IntoIterator<Item = (&'c str, &'c str)>,
) -> Result<OptionalKey<impl KeySource + Clone>, GlobError> {
    let parse = |(pattern, name): (&str, &str)| {
        Ok((Glob::for_path(pattern, Case::Insensitive)?, name.to_owned()))
    };
    let classes = classes
        .into_iter()
        .map(parse)
        .collect::<Result<Vec<_>, GlobError>>()?;

    Ok(source("a known path class", move |head, parts| {
        let path = head.path_readings();
        let mut classes = classes.iter();
        let class = classes.find(|(pattern, _)| path.any_matches(pattern));
        write(class.map(|(_, name)| name), parts)
    }))
}

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
pub fn body<K: ToKey>(
    description: &'static str,
    key: impl Fn(&Bytes) -> Option<K> + Clone + Send + Sync + 'static,
) -> OptionalKey<impl KeySource + Clone> {
    source(description, move |head, parts| {
        let Some(body) = head.body() else {
            return KeyLookup::Misconfigured(format!(
                "a limit uses {description} from the request body as its key, but the body has not \
                 been read; add a `ReadBodyLayer` outside of this layer"
            ));
        };
        write(key(body), parts)
    })
}
