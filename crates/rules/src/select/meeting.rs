//! How a request meets a limit, for people who ask why.

use std::borrow::Cow;

use super::seen::RequestView;
use super::{Attributes, SelectError, SelectedLimit};
use crate::attribute::Attribute;
use crate::rule::Condition;

/// How a request meets a limit.
#[derive(Clone, Debug)]
pub enum Explanation<'r> {
    /// It must pass it.
    Met {
        /// The check that is made.
        chosen: SelectedLimit<'r>,
        /// The parts of its key.
        parts: Vec<DisplayPart<'r>>,
        /// The tier whose numbers are used.
        tier: Option<String>,
    },
    /// A condition does not hold.
    No {
        /// Which.
        condition: &'r Condition,
        /// What the attribute is instead, if the request has it.
        found: Option<String>,
    },
    /// The key is not there, and the limit is optional.
    PassedOver,
    /// The request cannot be put to it.
    Wrong(SelectError),
}

/// A part of a key for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayPart<'r> {
    /// The attribute it was taken from.
    pub attribute: &'r Attribute,
    /// Its value, or the hash of it.
    pub value: String,
    /// True when only the hash is shown.
    pub is_hashed: bool,
}

impl<'r> Explanation<'r> {
    pub(super) fn no(condition: &'r Condition, seen: &RequestView<'_, impl Attributes>) -> Self {
        Self::No {
            condition,
            found: seen.text(&condition.attribute).map(Cow::into_owned),
        }
    }
}
