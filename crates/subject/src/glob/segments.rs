//! Patterns that are matched segment by segment.
//!
//! Most patterns for paths are lists of names, `*` and `**`. A name is looked up once for all of
//! them, so a path takes a step per segment instead of one per byte.

use std::collections::HashMap;

use super::automaton::{Automaton, Positions, Words, insert};
use super::{Case, token};

/// The most bytes of a name that is looked up; no pattern is longer.
const NAME_MAX: usize = token::PATTERN_MAX;

/// Patterns that are matched together, segment by segment.
#[derive(Clone, Debug)]
pub(super) struct SegmentAutomaton {
    positions: Positions,
    /// The positions of `*`, which any segment matches.
    any: Words,
    /// The positions of `**`, which any segment leaves where they are.
    double_stars: Words,
    /// The positions of names, by the name in lower case.
    names: HashMap<Box<str>, Vec<NamePosition>>,
    /// The lengths of the names that start with each byte in lower case: bit `n` for `n` bytes, and
    /// the last bit for all longer ones. This saves most lookups.
    name_lengths: Box<[u64; 256]>,
    /// The segments with both stars and text, such as `*.php`.
    globs: Automaton,
    /// The position of each of them.
    glob_positions: Vec<usize>,
}

/// Where a pattern has a name.
#[derive(Clone, Debug)]
struct NamePosition {
    at: usize,
    /// The name, if its case matters.
    exact: Option<Box<str>>,
}

impl SegmentAutomaton {
    /// Whether a pattern is a list of segments: it starts with a slash, and no `**` shares a
    /// segment with other text.
    pub(super) fn can_match(pattern: &str) -> bool {
        let mut segments = pattern.split('/');
        segments.next() == Some("") && segments.all(|name| name == "**" || !name.contains("**"))
    }

    /// Compiles patterns that [can be matched](Self::can_match) so. They keep their order.
    pub(super) fn new(patterns: &[(&str, Case)]) -> Self {
        let segments = |pattern: &'_ str| -> Vec<Box<str>> {
            let mut segments: Vec<Box<str>> = pattern.split('/').skip(1).map(Into::into).collect();
            // `**` twice is `**`.
            segments.dedup_by(|one, other| **one == **other && **one == *"**");
            segments
        };
        let lists: Vec<_> = patterns.iter().map(|(text, _)| segments(text)).collect();

        let positions = Positions::new(lists.iter().map(Vec::len));
        let mut automaton = Self {
            any: positions.none(),
            double_stars: positions.none(),
            names: HashMap::new(),
            name_lengths: Box::new([0; 256]),
            globs: Automaton::new([]),
            glob_positions: Vec::new(),
            positions,
        };

        let mut globs = Vec::new();
        let starts = automaton.positions.starts().to_vec();
        for ((start, list), (_, case)) in starts.into_iter().zip(&lists).zip(patterns) {
            for (at, segment) in (start..).zip(list) {
                match &**segment {
                    "*" => insert(&mut automaton.any, at),
                    "**" => insert(&mut automaton.double_stars, at),
                    name if name.contains('*') => {
                        globs.push((token::parse(name), *case));
                        automaton.glob_positions.push(at);
                    }
                    name => automaton.add_name(name, *case, at),
                }
            }
        }

        let globs = globs.iter().map(|(tokens, case)| (&tokens[..], *case));
        automaton.globs = Automaton::new(globs);
        let none = automaton.positions.none();
        automaton
            .positions
            .set_skips(automaton.double_stars.clone(), none);
        automaton
    }

    /// Calls `visit` with the index of each pattern that matches the whole text.
    pub(super) fn for_each_match(&self, text: &str, visit: impl FnMut(usize)) {
        let mut states = self.positions.none();
        let mut matches = self.positions.none();
        let mut glob_states = vec![0; self.globs.words()];
        let mut folded = String::new();
        self.positions.restart(&mut states);

        let mut segments = text.split('/');
        if segments.next() != Some("") {
            return;
        }
        for segment in segments {
            matches.copy_from_slice(&self.any);
            self.add_matches_of_name(segment, &mut folded, &mut matches);
            if !self.glob_positions.is_empty() {
                self.globs.run(segment.as_bytes(), &mut glob_states);
                for glob in self.globs.matched(&glob_states) {
                    insert(&mut matches, self.glob_positions[glob]);
                }
            }
            if !self
                .positions
                .advance(&mut states, &matches, &self.double_stars)
            {
                return;
            }
        }
        self.positions.matched(&states).for_each(visit);
    }

    fn add_name(&mut self, name: &str, case: Case, at: usize) {
        let folded = name.to_ascii_lowercase();
        let (first, length) = signature(&folded);
        self.name_lengths[usize::from(first)] |= length;
        let exact = (case == Case::Sensitive).then(|| name.into());
        let positions = self.names.entry(folded.into()).or_default();
        positions.push(NamePosition { at, exact });
    }

    /// Adds the positions of a name. `folded` is a buffer.
    fn add_matches_of_name(&self, name: &str, folded: &mut String, matches: &mut [u64]) {
        let (first, length) = signature(name);
        if self.name_lengths[usize::from(first)] & length == 0 || name.len() > NAME_MAX {
            return;
        }

        folded.clear();
        folded.push_str(name);
        folded.make_ascii_lowercase();
        for position in self.names.get(&**folded).into_iter().flatten() {
            if position.exact.as_deref().is_none_or(|exact| exact == name) {
                insert(matches, position.at);
            }
        }
    }
}

/// The first byte of a name in lower case, and a bit for its length.
fn signature(name: &str) -> (u8, u64) {
    let first = name.bytes().next().unwrap_or_default();
    (first.to_ascii_lowercase(), 1 << name.len().min(63))
}
