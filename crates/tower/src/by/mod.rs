//! Who a request counts for: ready-made keys, keys by function, and combinations of them.
//!
//! A [`Subject`] writes the key of a request. What a request may lack, such as a header, is
//! [`Wanted`]: it becomes a subject by saying what happens without it, so that no limit ever counts
//! strangers together by accident.
//!
//! ```
//! use http::StatusCode;
//! use tollgate_tower::by;
//!
//! // The API key, or the address of those who have none.
//! let caller = by::header("x-api-key").or(by::client_address());
//! // Only those who say which tenant they are; the others are refused.
//! let tenant = by::header("x-tenant").or_refuse(StatusCode::BAD_REQUEST);
//! // Both together: each pair of tenant and caller has a counter of its own.
//! let both = (tenant, caller);
//! # let _ = tollgate_tower::RateLimitLayer::new(&tollgate::Limiter::in_memory([]), "api", both);
//! ```

mod address;
mod body;
mod extension;
mod function;
mod header;
mod path;
mod wanted;

use http::StatusCode;
use tollgate::KeyParts;

pub use address::{ClientAddress, client_address};
pub use body::{BodyKey, body};
pub use extension::{ExtensionKey, extension};
pub use function::{FromFn, function};
pub use header::{HeaderKey, header};
pub use path::{PathClass, path_class};
pub use wanted::{Find, Found, Or, OrRefuse, OrSkip, Wanted};

use crate::head::Head;

/// Writes the key under which a request counts.
pub trait Subject: Send + Sync + 'static {
    /// Writes the parts of the key, or says what happens to a request that has none.
    fn write(&self, head: &Head<'_>, parts: &mut KeyParts) -> Result<(), Missing>;
}

/// What happens to a request that lacks its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The limit does not apply to it.
    Skip,
    /// It is answered with this status, and told what it lacks.
    Refuse {
        /// The status.
        status: StatusCode,
        /// What is missing, as a noun: `the header x-api-key`.
        what: String,
    },
    /// The application is put together wrongly. The request is answered with status 500, and the
    /// log says what to do.
    Broken {
        /// What is wrong and what would be right.
        what: String,
    },
}

/// One counter for all requests.
///
/// ```
/// use tollgate::{Limit, Limiter, Rate};
/// use tollgate_tower::{RateLimitLayer, by};
///
/// let limiter = Limiter::in_memory([Limit::token_bucket("whole-site", 5_000, Rate::per_second(5_000))]);
/// let layer = RateLimitLayer::new(&limiter, "whole-site", by::everyone());
/// # let _ = layer;
/// ```
pub const fn everyone() -> Everyone {
    Everyone
}

/// See [`everyone`].
#[derive(Clone, Copy, Debug)]
pub struct Everyone;

impl Subject for Everyone {
    fn write(&self, _: &Head<'_>, _: &mut KeyParts) -> Result<(), Missing> {
        Ok(())
    }
}

macro_rules! together {
    ($($name:ident),+) => {
        /// Together, each combination with a counter of its own.
        impl<$($name: Subject),+> Subject for ($($name,)+) {
            fn write(&self, head: &Head<'_>, parts: &mut KeyParts) -> Result<(), Missing> {
                #[expect(non_snake_case, reason = "the parts of the tuple have no better names than their types")]
                let ($($name,)+) = self;
                $($name.write(head, parts)?;)+
                Ok(())
            }
        }
    };
}

together!(A, B);
together!(A, B, C);
together!(A, B, C, D);
