//! The values of headers, cookies and query parameters, read as servers read them.
//!
//! Servers disagree about names that occur twice and about unusual spellings. A client could count
//! under a new key with each of them. So spellings that any of the usual servers takes for the same
//! value become one value here, and where servers choose different values, all are returned.

mod cookie;
mod header;
mod query;

use std::borrow::Cow;

use smallvec::SmallVec;

pub use cookie::cookie_values;
pub use header::{header_lines, header_values, joined_lines};
pub use query::query_values;

/// The most different values of one name that are read. A request with more is suspicious.
pub const VALUES_MAX: usize = 8;

/// The different values that a request has for one name, in the order of the request. Empty values
/// are left out: servers treat them as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldValues<'v> {
    /// At most [`VALUES_MAX`].
    values: SmallVec<[Cow<'v, str>; 1]>,
    has_more: bool,
}

impl<'v> FieldValues<'v> {
    /// The values, at most [`VALUES_MAX`].
    pub fn as_slice(&self) -> &[Cow<'v, str>] {
        &self.values
    }

    /// Whether the request has more than [`VALUES_MAX`] different values.
    pub const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Adds a value, unless it is empty or there already.
    fn push(&mut self, value: Cow<'v, str>) {
        if value.is_empty() || self.values.contains(&value) {
            return;
        }
        if self.values.len() < VALUES_MAX {
            self.values.push(value);
        } else {
            self.has_more = true;
        }
    }
}

impl<'v> FromIterator<Cow<'v, str>> for FieldValues<'v> {
    fn from_iter<I: IntoIterator<Item = Cow<'v, str>>>(values: I) -> Self {
        let mut all = Self::default();
        values.into_iter().for_each(|value| all.push(value));
        all
    }
}

impl<'v> IntoIterator for FieldValues<'v> {
    type Item = Cow<'v, str>;
    type IntoIter = smallvec::IntoIter<[Cow<'v, str>; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

#[cfg(test)]
mod tests;
