//! A part of a key as JSON.

use std::borrow::Cow;

use serde::Serialize;
use tollgate_rules::DisplayPart;

/// One attribute of a key. For attributes in `hash_keys`, `value` is the hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct KeyPartView<'a> {
    pub(crate) attribute: Cow<'a, str>,
    pub(crate) value: String,
    pub(crate) hashed: bool,
}

impl<'a> KeyPartView<'a> {
    /// The parts of a key.
    pub(crate) fn list(parts: Vec<DisplayPart<'a>>) -> Vec<Self> {
        let view = |part: DisplayPart<'a>| Self {
            attribute: part.attribute.name().into(),
            value: part.value,
            hashed: part.is_hashed,
        };
        parts.into_iter().map(view).collect()
    }
}
