//! The path of a request in a [`RequestView`]: its readings, and whether limits agree about them.

use std::borrow::Cow;

use tollgate_subject::{FieldValues, PathReadings};

use super::request_view::RequestView;
use super::{Attributes, SelectError, Value};
use crate::attribute::Attribute;
use crate::limit::{AmbiguousPathPolicy, Condition, LimitConfig};

/// The most characters of a path that an error shows.
const PATH_SHOWN: usize = 80;

impl<'a, A: Attributes> RequestView<'a, A> {
    /// The readings of the path. `None` if it is missing or empty.
    pub(super) fn path(&self, attribute: &Attribute) -> Option<&PathReadings<'a>> {
        let path = self
            .path
            .get_or_init(|| match self.attributes.get(attribute)? {
                Value::Text(path) if path.is_empty() => None,
                Value::Text(Cow::Borrowed(path)) => Some(PathReadings::new(path)),
                other => Some(PathReadings::new(&other.into_text()).into_owned()),
            });
        path.as_ref()
    }

    /// All readings of the path, for what counts by it.
    pub(super) fn path_texts(&self, attribute: &Attribute) -> FieldValues<'_> {
        let Some(path) = self.path(attribute) else {
            return FieldValues::default();
        };

        let values: FieldValues<'_> = path.iter().map(Cow::Borrowed).collect();
        if values.has_more() || !path.is_readable() {
            self.add_crowded(attribute);
        }
        values
    }

    /// The reading of the path that a limit's condition matches, quoted. `None` if the limit has no
    /// condition on the path, or if the path has one reading only.
    pub(super) fn matched_path(&self, limit: &LimitConfig) -> Option<String> {
        let (condition, path) = self.ambiguous_path(limit)?;
        if !path.is_readable() {
            return Some("anything, because it is too long or has too many readings".to_owned());
        }
        let matched = path.iter().find(|reading| condition.matches(reading));
        matched.map(quoted_start)
    }

    /// An error if the limit, whose conditions hold, refuses ambiguous paths and would not apply to
    /// another reading of the path.
    pub(super) fn ensure_unambiguous(&self, limit: &LimitConfig) -> Result<(), SelectError> {
        // A shadow limit never refuses a request, whatever its path.
        if limit.on_ambiguous_path == AmbiguousPathPolicy::MatchAny || limit.rule.is_shadow() {
            return Ok(());
        }
        let Some((condition, path)) = self.ambiguous_path(limit) else {
            return Ok(());
        };

        let other = path.iter().find(|reading| !condition.matches(reading));
        if path.is_readable() && other.is_none() {
            return Ok(());
        }
        let mut readings = self.matched_path(limit).unwrap_or_default();
        if let Some(other) = other.filter(|_| path.is_readable()) {
            readings += " or as ";
            readings += &quoted_start(other);
        }
        Err(SelectError::AmbiguousPath {
            limit: limit.rule.name().to_string(),
            readings,
        })
    }

    /// The condition of a limit on the path, and the path, if that has several readings.
    fn ambiguous_path<'l>(
        &self,
        limit: &'l LimitConfig,
    ) -> Option<(&'l Condition, &PathReadings<'a>)> {
        let condition = limit
            .conditions
            .iter()
            .find(|condition| condition.is_path())?;
        let path = self.path(&condition.attribute)?;
        path.is_ambiguous().then_some((condition, path))
    }
}

/// The start of a path in quotes.
fn quoted_start(path: &str) -> String {
    let start: String = path.chars().take(PATH_SHOWN).collect();
    format!("{start:?}")
}
