//! The set of positions in a pattern that a text prefix can lead to, as in a nondeterministic
//! finite automaton.
//!
//! Each byte of the text advances all positions together. A position is in the set or not, however
//! many ways lead to it. That is why matching takes linear time and never backtracks.

use super::token::{PATTERN_MAX, Token};

const WORD_BITS: usize = 64;
/// One bit for each token, and one for the end of the pattern.
const WORDS: usize = (PATTERN_MAX + 1).div_ceil(WORD_BITS);

/// A bit set of token indices. Each is the index of the token to match next; the index after the
/// last token is the end of the pattern.
#[derive(Clone, Copy, Default)]
pub(super) struct MatchStates([u64; WORDS]);

impl MatchStates {
    /// The states before the first byte of the text.
    pub(super) fn start(tokens: &[Token]) -> Self {
        let mut states = Self::default();
        states.reach(tokens, 0);
        states
    }

    /// The states after one more byte of the text.
    pub(super) fn step(self, tokens: &[Token], byte: u8) -> Self {
        let mut next = Self::default();
        self.each(|at| match tokens.get(at) {
            Some(Token::Byte(same)) if *same == byte => next.reach(tokens, at + 1),
            Some(Token::OptionalSlash) if byte == b'/' => next.reach(tokens, at + 1),
            Some(Token::Star) if byte != b'/' => next.reach(tokens, at),
            Some(Token::DoubleStar) => next.reach(tokens, at),
            _ => {}
        });
        next
    }

    /// Whether the rest of the text no longer matters: no state is left, or the pattern ends with a
    /// `**` that has been reached.
    pub(super) fn is_decided(self, tokens: &[Token]) -> bool {
        let takes_all = matches!(tokens, [.., Token::DoubleStar])
            && self.contains(tokens.len().saturating_sub(1));
        takes_all || self.0 == [0; WORDS]
    }

    /// Whether the text may end here.
    pub(super) fn contains_end(self, tokens: &[Token]) -> bool {
        self.contains(tokens.len())
    }

    /// Adds a state, and all states that are reachable from it without a byte.
    fn reach(&mut self, tokens: &[Token], at: usize) {
        let mut next = Some(at);
        while let Some(at) = next.take() {
            if self.contains(at) {
                return;
            }
            self.set(at);

            match tokens.get(at) {
                Some(Token::Star | Token::DoubleStar) => next = Some(at + 1),
                Some(Token::OptionalSlash) => next = Some(at + 2),
                _ => {}
            }
        }
    }

    fn contains(self, at: usize) -> bool {
        self.0
            .get(at / WORD_BITS)
            .is_some_and(|word| word >> (at % WORD_BITS) & 1 == 1)
    }

    fn set(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / WORD_BITS) {
            *word |= 1 << (at % WORD_BITS);
        }
    }

    /// Calls `visit` for each state.
    fn each(self, mut visit: impl FnMut(usize)) {
        for (index, mut word) in self.0.into_iter().enumerate() {
            while word != 0 {
                visit(index * WORD_BITS + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}
