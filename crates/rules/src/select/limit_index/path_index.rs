//! Limits by the patterns of their condition on the path.
//!
//! Paths without stars are looked up. All other patterns with the same leading segments are matched
//! together, so the cost of a path depends on the patterns below its own segments, and only a little
//! on their number.

use std::collections::HashMap;

use tollgate_subject::{Glob, GlobSet, PathReadings};

use super::{Candidate, Candidates, PathMatch, leading_segments, lower_case, only_value};
use crate::attribute::Attribute;
use crate::limit::{Condition, Pattern};

/// The limits that are indexed by the path.
#[derive(Debug, Default)]
pub(super) struct PathIndex {
    /// The attribute `path`. `None` if no limit is indexed by it.
    attribute: Option<Attribute>,
    /// All limits of the index.
    all: Vec<usize>,
    /// By the whole path, in lower case.
    by_path: HashMap<Box<str>, Vec<usize>>,
    /// By leading segments, such as `/v1/users`, in lower case; `""` for patterns without any.
    by_segments: HashMap<Box<str>, PatternGroup>,
    /// The length of the longest key of `by_segments`, in bytes.
    segments_max: usize,
}

/// Patterns with the same leading segments.
#[derive(Debug)]
struct PatternGroup {
    patterns: GlobSet,
    /// The limit of each pattern.
    limits: Vec<usize>,
}

impl PathIndex {
    /// Indexes limits by their conditions on the path.
    pub(super) fn new(conditions: Vec<(&Condition, usize)>) -> Self {
        let mut index = Self {
            attribute: conditions
                .first()
                .map(|(condition, _)| condition.attribute.clone()),
            all: conditions.iter().map(|(_, limit)| *limit).collect(),
            ..Self::default()
        };

        let mut groups: HashMap<Box<str>, Vec<(&Glob, usize)>> = HashMap::new();
        for (condition, limit) in conditions {
            for pattern in &condition.any_of {
                match (only_value(pattern), pattern) {
                    (Some(path), _) => {
                        let limits = index.by_path.entry(lower_case(path).into());
                        limits.or_default().push(limit);
                    }
                    (None, Pattern::Glob(glob)) => {
                        let group = groups.entry(lower_case(leading_segments(pattern)).into());
                        group.or_default().push((glob, limit));
                    }
                    (None, Pattern::Exact(_)) => {}
                }
            }
        }

        index.segments_max = groups
            .keys()
            .map(|segments| segments.len())
            .max()
            .unwrap_or(0);
        let groups = groups.into_iter();
        index.by_segments = groups
            .map(|(segments, group)| (segments, group.into()))
            .collect();
        index
    }

    /// The attribute `path`, if a limit is indexed by it.
    pub(super) const fn attribute(&self) -> Option<&Attribute> {
        self.attribute.as_ref()
    }

    /// Adds the limits whose patterns match a reading of the path.
    pub(super) fn extend_candidates(&self, path: &PathReadings<'_>, candidates: &mut Candidates) {
        if !path.is_readable() {
            candidates.extend(self.all.iter().copied().map(Candidate::new));
            return;
        }
        for reading in path.iter() {
            self.extend_by_reading(reading, candidates);
        }
    }

    /// Adds the limits for a reading. It is looked up once for each of its leading segments, up to
    /// the longest that was indexed.
    fn extend_by_reading(&self, reading: &str, candidates: &mut Candidates) {
        let folded = lower_case(reading);
        if let Some(limits) = self.by_path.get(&*folded) {
            candidates.extend(limits.iter().copied().map(Candidate::new));
        }
        if self.by_segments.is_empty() {
            return;
        }

        let bytes = folded.as_bytes();
        for end in 0..=bytes.len().min(self.segments_max) {
            let is_segment_end = bytes.get(end).is_none_or(|byte| *byte == b'/');
            if is_segment_end && let Some(group) = self.by_segments.get(&folded[..end]) {
                group.extend_candidates(reading, candidates);
            }
        }
    }
}

impl PatternGroup {
    fn extend_candidates(&self, reading: &str, candidates: &mut Candidates) {
        self.patterns.for_each_match(reading, |pattern| {
            candidates.push(Candidate {
                limit: self.limits[pattern],
                path: PathMatch::Known,
            });
        });
    }
}

impl From<Vec<(&Glob, usize)>> for PatternGroup {
    fn from(patterns: Vec<(&Glob, usize)>) -> Self {
        Self {
            patterns: GlobSet::new(patterns.iter().map(|(glob, _)| *glob)),
            limits: patterns.into_iter().map(|(_, limit)| limit).collect(),
        }
    }
}
