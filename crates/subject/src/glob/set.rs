//! Many patterns that are matched in one pass.

use super::Glob;
use super::automaton::Automaton;

/// Patterns that are matched together, at a cost that hardly depends on their number.
///
/// A thousand patterns take a few hundred machine words, and each byte of a text a few operations
/// per word. No text and no pattern makes it slower.
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
    automaton: Automaton,
    /// For each pattern of the automaton, the indices of the globs that are equal to it.
    globs: Vec<Vec<usize>>,
}

impl GlobSet {
    /// Compiles patterns. Their indices are their positions here.
    pub fn new<'g>(globs: impl IntoIterator<Item = &'g Glob>) -> Self {
        let mut different: Vec<(&Glob, Vec<usize>)> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for (index, glob) in globs.into_iter().enumerate() {
            let at = *known
                .entry((glob.folded.as_ref(), glob.case))
                .or_insert_with(|| {
                    different.push((glob, Vec::new()));
                    different.len() - 1
                });
            different[at].1.push(index);
        }

        let patterns = different.iter().map(|(glob, _)| (&*glob.tokens, glob.case));
        Self {
            automaton: Automaton::new(patterns),
            globs: different.into_iter().map(|(_, indices)| indices).collect(),
        }
    }

    /// Calls `visit` with the index of each pattern that matches the whole text.
    pub fn for_each_match(&self, text: &str, mut visit: impl FnMut(usize)) {
        let mut states = vec![0; self.automaton.words()];
        self.automaton.run(text.as_bytes(), &mut states);
        for pattern in self.automaton.matched(&states) {
            self.globs[pattern].iter().copied().for_each(&mut visit);
        }
    }
}
