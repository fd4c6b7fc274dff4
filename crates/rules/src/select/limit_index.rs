//! Finds the limits that may apply to a request without looking at all of them.
//!
//! Each limit is indexed by one of its conditions, the most selective that can be indexed. A lookup
//! returns a superset of the limits whose conditions hold, so the caller still evaluates the other
//! conditions of each candidate. Lookups ignore ASCII case, which only adds candidates.

mod path_index;

use std::borrow::Cow;
use std::collections::HashMap;

use smallvec::SmallVec;

use self::path_index::PathIndex;
use super::Attributes;
use super::request_view::RequestView;
use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::ascii_lower;
use crate::limit::{Condition, LimitConfig, Pattern};

/// The limits that may apply to a request, in the order of the configuration.
pub(super) type Candidates = SmallVec<[Candidate; 8]>;

/// A limit that may apply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// The index of the limit.
    pub(super) limit: usize,
    pub(super) path: PathMatch,
}

/// Whether the limit's condition on the path has been evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathMatch {
    /// The condition holds.
    Known,
    /// The condition has yet to be evaluated, if there is one.
    Unknown,
}

/// An index over the limits of a configuration.
#[derive(Debug, Default)]
pub(super) struct LimitIndex {
    /// The limits without a condition that can be indexed. They are always candidates.
    always: Candidates,
    /// The limits that are indexed by the path.
    paths: PathIndex,
    /// One index for each other attribute that limits are indexed by.
    attributes: Vec<AttributeIndex>,
}

/// The limits that are indexed by the values of one attribute.
#[derive(Debug)]
struct AttributeIndex {
    attribute: Attribute,
    /// By the value, in lower case.
    by_value: HashMap<Box<str>, Vec<usize>>,
}

impl Candidate {
    /// A limit whose conditions have yet to be evaluated.
    const fn new(limit: usize) -> Self {
        Self {
            limit,
            path: PathMatch::Unknown,
        }
    }
}

impl LimitIndex {
    /// Indexes the limits of a configuration.
    pub(super) fn new<'l>(limits: impl Iterator<Item = &'l LimitConfig>) -> Self {
        let mut index = Self::default();
        let mut paths = Vec::new();

        for (limit, config) in limits.enumerate() {
            let conditions = config.conditions.iter();
            let best = conditions
                .filter_map(|condition| Some((selectivity(condition)?, condition)))
                .max_by_key(|(selectivity, _)| *selectivity);
            match best {
                Some((_, condition)) if condition.is_path() => paths.push((condition, limit)),
                Some((_, condition)) => index.insert(condition, limit),
                None => index.always.push(Candidate::new(limit)),
            }
        }

        index.paths = PathIndex::new(paths);
        index
    }

    /// Returns the limits that may apply to a request, in the order of the configuration.
    pub(super) fn candidates(&self, request: &RequestView<'_, impl Attributes>) -> Candidates {
        let mut candidates = self.always.clone();
        for index in &self.attributes {
            for value in request.texts(&index.attribute).as_slice() {
                let limits = index.by_value.get(&*lower_case(value));
                candidates.extend(limits.into_iter().flatten().copied().map(Candidate::new));
            }
        }

        if let Some(attribute) = self.paths.attribute()
            && let Some(path) = request.path(attribute)
        {
            self.paths.extend_candidates(path, &mut candidates);
        }

        // A limit may have been found by several patterns, values or readings. Those that are known
        // to match come first.
        candidates.sort_unstable();
        candidates.dedup_by_key(|candidate| candidate.limit);
        candidates
    }

    fn insert(&mut self, condition: &Condition, limit: usize) {
        let attribute = &condition.attribute;
        let known = self
            .attributes
            .iter()
            .position(|index| index.attribute == *attribute);
        let at = known.unwrap_or_else(|| {
            self.attributes.push(AttributeIndex {
                attribute: attribute.clone(),
                by_value: HashMap::new(),
            });
            self.attributes.len() - 1
        });

        let by_value = &mut self.attributes[at].by_value;
        for value in condition.any_of.iter().filter_map(only_value) {
            let limits = by_value.entry(lower_case(value).into()).or_default();
            limits.push(limit);
        }
    }
}

/// How well a condition narrows down the limits; `None` if it cannot be indexed, because one of its
/// patterns can match anything.
fn selectivity(condition: &Condition) -> Option<u8> {
    let has_values = condition
        .any_of
        .iter()
        .all(|pattern| only_value(pattern).is_some());
    let has_segments = || {
        let mut patterns = condition.any_of.iter();
        patterns
            .all(|pattern| only_value(pattern).is_some() || !leading_segments(pattern).is_empty())
    };

    match condition.attribute.kind() {
        // Few methods serve many paths.
        AttributeKind::Method => Some(0),
        AttributeKind::Path if has_values => Some(4),
        AttributeKind::Path if has_segments() => Some(2),
        AttributeKind::Path => Some(1),
        _ => has_values.then_some(3),
    }
}

/// The only value that a pattern matches, apart from its case. `None` if it matches others.
fn only_value(pattern: &Pattern) -> Option<&str> {
    match pattern {
        Pattern::Exact(value) => Some(value),
        Pattern::Glob(glob) => glob.is_literal().then_some(glob.folded()),
    }
}

/// The complete segments before the first star of a path pattern, such as `/v1/users`; often empty.
fn leading_segments(pattern: &Pattern) -> &str {
    let Pattern::Glob(glob) = pattern else {
        return "";
    };
    // `/v1/users*` matches `/v1/users-old`, so only the segments before the one with the star
    // count.
    let literal = glob.folded().split('*').next().unwrap_or_default();
    literal
        .rsplit_once('/')
        .map_or("", |(segments, _)| segments)
}

fn lower_case(text: &str) -> Cow<'_, str> {
    ascii_lower(Cow::Borrowed(text))
}
