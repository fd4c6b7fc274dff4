//! Why a limit applies to a request or not, for `tollgate explain` and the admin API.

use std::borrow::Cow;

use tollgate::{Demand, EncodedKey};

use super::request_view::RequestView;
use super::{Attributes, SelectError};
use crate::attribute::Attribute;
use crate::limit::Condition;

/// Why a limit applies to a request or not.
#[derive(Clone, Debug)]
pub enum Explanation<'r> {
    /// The limit applies.
    Applies {
        /// The limit with its key, cost and quota.
        demand: Demand<'r, EncodedKey>,
        /// The parts of the key in readable form.
        parts: Vec<DisplayPart<'r>>,
        /// The tier whose quota is used. `None` if the limit has no tiers.
        tier: Option<String>,
        /// The reading of the path that the limit's condition matches, quoted. `None` if the limit
        /// has no condition on the path, or if the path has one reading only.
        path: Option<String>,
    },
    /// The limit does not apply because a condition does not hold.
    NotMatched {
        /// The first condition that does not hold.
        condition: &'r Condition,
        /// The value of its attribute. `None` if the request lacks the attribute.
        found: Option<String>,
    },
    /// The request lacks an attribute of the key, and the limit is optional.
    Skipped,
    /// The limit applies, but its key or cost cannot be determined.
    Invalid(SelectError),
}

/// One part of a key in readable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayPart<'r> {
    /// The attribute that the part was taken from.
    pub attribute: &'r Attribute,
    /// The value of the attribute, or its hash.
    pub value: String,
    /// Whether `value` is a hash.
    pub is_hashed: bool,
}

impl<'r> Explanation<'r> {
    pub(super) fn not_matched(
        condition: &'r Condition,
        request: &RequestView<'_, impl Attributes>,
    ) -> Self {
        Self::NotMatched {
            condition,
            found: request
                .texts(&condition.attribute)
                .into_iter()
                .next()
                .map(Cow::into_owned),
        }
    }
}
