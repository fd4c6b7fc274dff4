//! Many patterns that are matched in one pass.

use std::collections::HashMap;

use super::Glob;
use super::automaton::Automaton;
use super::segments::SegmentAutomaton;

/// Patterns that are matched together, at a cost that hardly depends on their number.
///
/// Ten patterns take about one machine word, and each segment of a text a few operations per word.
/// No text and no pattern makes it slower.
///
/// ```
/// use tollgate_subject::{Case, Glob, GlobSet};
///
/// let globs = ["/v1/**", "/**/users/*", "/v1/**"].map(|text| text.parse::<Glob>());
/// let globs = globs.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let set = GlobSet::new(&globs);
///
/// let mut matched = Vec::new();
/// set.for_each_match("/v1/users/ann", |index| matched.push(index));
/// matched.sort();
/// assert_eq!(matched, [0, 1, 2]);
/// # Ok::<(), tollgate_subject::GlobError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GlobSet {
    /// The patterns that are lists of segments, nearly all.
    segments: SegmentAutomaton,
    /// For each of them, the indices of the globs that are equal to it.
    segment_globs: Vec<Vec<usize>>,
    /// The other patterns, such as `/a**b`.
    bytes: Automaton,
    /// For each of them, the indices of the globs that are equal to it.
    byte_globs: Vec<Vec<usize>>,
}

impl GlobSet {
    /// Compiles patterns. Their indices are their positions here.
    pub fn new<'g>(globs: impl IntoIterator<Item = &'g Glob>) -> Self {
        let mut different: Vec<(&Glob, Vec<usize>)> = Vec::new();
        let mut known = HashMap::new();
        for (index, glob) in globs.into_iter().enumerate() {
            let at = *known
                .entry((glob.folded.as_ref(), glob.case))
                .or_insert_with(|| {
                    different.push((glob, Vec::new()));
                    different.len() - 1
                });
            different[at].1.push(index);
        }

        let is_list = |(glob, _): &(&Glob, _)| SegmentAutomaton::can_match(&glob.folded);
        let (lists, others): (Vec<_>, Vec<_>) = different.into_iter().partition(is_list);
        let patterns: Vec<_> = lists
            .iter()
            .map(|(glob, _)| (&*glob.folded, glob.case))
            .collect();
        Self {
            segments: SegmentAutomaton::new(&patterns),
            segment_globs: lists.into_iter().map(|(_, indices)| indices).collect(),
            bytes: Automaton::new(others.iter().map(|(glob, _)| (&*glob.tokens, glob.case))),
            byte_globs: others.into_iter().map(|(_, indices)| indices).collect(),
        }
    }

    /// Calls `visit` with the index of each pattern that matches the whole text, which is a path.
    pub fn for_each_match(&self, text: &str, mut visit: impl FnMut(usize)) {
        self.segments.for_each_match(text, |pattern| {
            self.segment_globs[pattern]
                .iter()
                .copied()
                .for_each(&mut visit);
        });
        if self.byte_globs.is_empty() {
            return;
        }

        let mut states = vec![0; self.bytes.words()];
        self.bytes.run(text.as_bytes(), &mut states);
        for pattern in self.bytes.matched(&states) {
            self.byte_globs[pattern]
                .iter()
                .copied()
                .for_each(&mut visit);
        }
    }
}
