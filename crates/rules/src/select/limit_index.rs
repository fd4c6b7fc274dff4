//! Finds the limits that may apply to a request without looking at all of them.
//!
//! Each limit is indexed by one of its conditions, the most selective that can be indexed: by the
//! exact values it compares with, or by the leading path segments of its globs. A lookup returns a
//! superset of the limits whose conditions hold, so the caller still evaluates the conditions of
//! each candidate. Lookups ignore ASCII case, which only adds candidates.

use std::borrow::Cow;
use std::collections::HashMap;

use smallvec::SmallVec;

use super::Attributes;
use super::request_view::RequestView;
use crate::attribute::{Attribute, AttributeKind};
use crate::limit::{Condition, LimitConfig, Pattern};

/// The indices of limits, in the order of the configuration.
pub(super) type Candidates = SmallVec<[usize; 8]>;

/// An index over the limits of a configuration.
#[derive(Debug, Default)]
pub(super) struct LimitIndex {
    /// The limits without a condition that can be indexed. They are always candidates.
    always: Candidates,
    /// One index for each attribute that limits are indexed by.
    attributes: Vec<AttributeIndex>,
}

/// The limits that are indexed by one attribute.
#[derive(Debug)]
struct AttributeIndex {
    attribute: Attribute,
    /// By the value, in lower case.
    by_value: HashMap<Box<str>, Vec<usize>>,
    /// By leading path segments, such as `/v1/users`, in lower case. Empty for other attributes.
    by_segments: HashMap<Box<str>, Vec<usize>>,
    /// The length of the longest key of `by_segments`, in bytes.
    segments_max: usize,
}

/// How a pattern is indexed.
enum IndexKey<'p> {
    /// The pattern matches only this value, apart from its case.
    Value(&'p str),
    /// The pattern matches only paths that start with these segments.
    Segments(&'p str),
}

impl LimitIndex {
    /// Indexes the limits of a configuration.
    pub(super) fn new<'l>(limits: impl Iterator<Item = &'l LimitConfig>) -> Self {
        let mut index = Self::default();

        for (position, limit) in limits.enumerate() {
            let conditions = limit.conditions.iter();
            let best = conditions
                .filter_map(|condition| Some((selectivity(condition)?, condition)))
                .max_by_key(|(selectivity, _)| *selectivity);
            match best {
                Some((_, condition)) => index.insert(condition, position),
                None => index.always.push(position),
            }
        }

        index
    }

    /// Returns the limits that may apply to a request, in the order of the configuration.
    pub(super) fn candidates(&self, request: &RequestView<'_, impl Attributes>) -> Candidates {
        let mut candidates = self.always.clone();
        for index in &self.attributes {
            for value in request.texts(&index.attribute) {
                index.extend_candidates(&lower_case(&value), &mut candidates);
            }
        }

        // A limit with several patterns may have been found by more than one of them.
        if !self.attributes.is_empty() {
            candidates.sort_unstable();
            candidates.dedup();
        }
        candidates
    }

    fn insert(&mut self, condition: &Condition, position: usize) {
        let attribute = &condition.attribute;
        let known = self
            .attributes
            .iter()
            .position(|index| index.attribute == *attribute);
        let at = known.unwrap_or_else(|| {
            self.attributes.push(AttributeIndex::new(attribute.clone()));
            self.attributes.len() - 1
        });

        let index = &mut self.attributes[at];
        for key in condition.any_of.iter().filter_map(index_key) {
            index.insert(&key, position);
        }
    }
}

impl AttributeIndex {
    fn new(attribute: Attribute) -> Self {
        Self {
            attribute,
            by_value: HashMap::new(),
            by_segments: HashMap::new(),
            segments_max: 0,
        }
    }

    fn insert(&mut self, key: &IndexKey<'_>, position: usize) {
        let limits = match key {
            IndexKey::Value(value) => self.by_value.entry(lower_case(value).into()),
            IndexKey::Segments(segments) => {
                self.segments_max = self.segments_max.max(segments.len());
                self.by_segments.entry(lower_case(segments).into())
            }
        };
        limits.or_default().push(position);
    }

    /// Adds the limits for a value. A path is looked up once for each of its leading segments, up
    /// to the longest that was indexed.
    fn extend_candidates(&self, value: &str, candidates: &mut Candidates) {
        if let Some(limits) = self.by_value.get(value) {
            candidates.extend_from_slice(limits);
        }
        if self.by_segments.is_empty() {
            return;
        }

        let bytes = value.as_bytes();
        for end in 1..=bytes.len().min(self.segments_max) {
            let is_segment_end = bytes.get(end).is_none_or(|byte| *byte == b'/');
            if is_segment_end && let Some(limits) = self.by_segments.get(&value[..end]) {
                candidates.extend_from_slice(limits);
            }
        }
    }
}

/// How well a condition narrows down the limits; `None` if it cannot be indexed, because one of its
/// patterns can match anything.
fn selectivity(condition: &Condition) -> Option<u8> {
    let mut by_segments = false;
    for pattern in &condition.any_of {
        match index_key(pattern)? {
            IndexKey::Value(_) => {}
            IndexKey::Segments(_) => by_segments = true,
        }
    }

    Some(match condition.attribute.kind() {
        // Few methods serve many paths.
        AttributeKind::Method => 0,
        AttributeKind::Path if by_segments => 1,
        AttributeKind::Path => 3,
        // Only paths have segments.
        _ if by_segments => return None,
        _ => 2,
    })
}

/// The key under which a pattern is indexed. `None` if the pattern starts with a star, or if it has
/// no complete segment before its first star.
fn index_key(pattern: &Pattern) -> Option<IndexKey<'_>> {
    let glob = match pattern {
        Pattern::Exact(value) => return Some(IndexKey::Value(value)),
        Pattern::Glob(glob) if glob.is_literal() => return Some(IndexKey::Value(glob.as_str())),
        Pattern::Glob(glob) => glob,
    };

    // `/v1/users*` matches `/v1/users-old`, so only the segments before the one with the star
    // count.
    let text = glob.as_str();
    let (literal, _) = text.split_once('*')?;
    let (segments, _) = literal.rsplit_once('/')?;
    (!segments.is_empty()).then_some(IndexKey::Segments(segments))
}

fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}
