//! The key under which a limit counts a request, and what to do without one.

use http::StatusCode;
use tollgate::KeyParts;

use crate::request_head::RequestHead;

/// Extracts the key under which a limit counts a request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the key of a limit",
    label = "expected a `KeyExtractor`",
    note = "if a request may lack the key, as with `by::header(..)`, say what to do then: \
            `.or(other_key)`, `.or_skip()` or `.or_reject(status)`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Writes the parts of the key into `parts`, or returns what to do with a request that has no
    /// key.
    fn extract(&self, head: &RequestHead<'_>, parts: &mut KeyParts) -> Result<(), MissingKey>;
}

/// What to do with a request that has no key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// Do not apply the limit to the request.
    Skip,
    /// Reject the request and name the missing key in the response.
    Reject {
        /// The status of the response.
        status: StatusCode,
        /// The missing key as a noun with its article, such as `the header x-api-key`.
        description: String,
    },
    /// Reject the request with status 400: it has several different values for the key.
    Ambiguous {
        /// The key as a noun with its article, such as `the header x-api-key`.
        description: String,
    },
    /// Answer with status 500 and log the reason: the application is set up wrongly.
    Misconfigured {
        /// What is wrong and how to fix it. Clients do not see it.
        reason: String,
    },
}

/// What to do without a key, as the last key of several: it never extracts one.
impl KeyExtractor for MissingKey {
    fn extract(&self, _: &RequestHead<'_>, _: &mut KeyParts) -> Result<(), MissingKey> {
        Err(self.clone())
    }
}

/// One counter for all requests.
///
/// ```
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_tower::{RateLimitLayer, by};
///
/// let limiter = Limiter::in_memory([
///     Limit::token_bucket("whole-site", 5_000, Rate::per_second(5_000)),
/// ])?;
/// let layer = RateLimitLayer::new(&limiter, "whole-site", by::everyone());
/// # let _ = layer;
/// # Ok::<(), tollgate::Error>(())
/// ```
pub const fn everyone() -> GlobalKey {
    GlobalKey
}

/// The key that all requests share. Created by [`everyone`].
#[derive(Clone, Copy, Debug)]
pub struct GlobalKey;

impl KeyExtractor for GlobalKey {
    fn extract(&self, _: &RequestHead<'_>, _: &mut KeyParts) -> Result<(), MissingKey> {
        Ok(())
    }
}

macro_rules! impl_for_tuple {
    ($($name:ident),+) => {
        /// A combined key: each combination of the parts has its own counter.
        impl<$($name: KeyExtractor),+> KeyExtractor for ($($name,)+) {
            fn extract(
                &self,
                head: &RequestHead<'_>,
                parts: &mut KeyParts,
            ) -> Result<(), MissingKey> {
                #[expect(non_snake_case, reason = "the macro reuses the type names as variables")]
                let ($($name,)+) = self;
                $($name.extract(head, parts)?;)+
                Ok(())
            }
        }
    };
}

impl_for_tuple!(A, B);
impl_for_tuple!(A, B, C);
impl_for_tuple!(A, B, C, D);
