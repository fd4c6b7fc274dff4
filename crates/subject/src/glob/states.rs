//! All the places in a pattern that a text may have led to.
//!
//! Each byte of the text moves every place at once. A place is reached or not, however many ways
//! lead there, and that is what keeps the time in proportion.

use super::{PATTERN_MAX, Token};

const WORD_BITS: usize = 64;
/// One bit for each token, and one for the end behind the last.
const WORDS: usize = (PATTERN_MAX + 1).div_ceil(WORD_BITS);

/// Numbers of tokens: the token is the next to match. The number behind the last is the end.
#[derive(Clone, Copy, Default)]
pub(super) struct States([u64; WORDS]);

impl States {
    /// Where a pattern begins.
    pub(super) fn start(tokens: &[Token]) -> Self {
        let mut states = Self::default();
        states.reach(tokens, 0);
        states
    }

    /// Where the places lead when the text goes on with this byte.
    pub(super) fn step(self, tokens: &[Token], byte: u8) -> Self {
        let mut next = Self::default();
        self.each(|at| match tokens.get(at) {
            Some(Token::Byte(same)) if *same == byte => next.reach(tokens, at + 1),
            Some(Token::Opening) if byte == b'/' => next.reach(tokens, at + 1),
            Some(Token::Star) if byte != b'/' => next.reach(tokens, at),
            Some(Token::DoubleStar) => next.reach(tokens, at),
            _ => {}
        });
        next
    }

    /// Whether the rest of the text no longer matters, because nothing is left or the last token
    /// takes anything.
    pub(super) fn are_decided(self, tokens: &[Token]) -> bool {
        let takes_all =
            matches!(tokens, [.., Token::DoubleStar]) && self.hold(tokens.len().saturating_sub(1));
        takes_all || self.0 == [0; WORDS]
    }

    /// Whether the text may end here.
    pub(super) fn hold_the_end(self, tokens: &[Token]) -> bool {
        self.hold(tokens.len())
    }

    /// Adds a place and those that can be had from there for nothing.
    fn reach(&mut self, tokens: &[Token], at: usize) {
        let mut next = Some(at);
        while let Some(at) = next.take() {
            if self.hold(at) {
                return;
            }
            self.set(at);
            match tokens.get(at) {
                Some(Token::Star | Token::DoubleStar) => next = Some(at + 1),
                Some(Token::Opening) => next = Some(at + 2),
                _ => {}
            }
        }
    }

    fn hold(self, at: usize) -> bool {
        self.0
            .get(at / WORD_BITS)
            .is_some_and(|word| word >> (at % WORD_BITS) & 1 == 1)
    }

    fn set(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / WORD_BITS) {
            *word |= 1 << (at % WORD_BITS);
        }
    }

    fn each(self, mut visit: impl FnMut(usize)) {
        for (index, mut word) in self.0.into_iter().enumerate() {
            while word != 0 {
                visit(index * WORD_BITS + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}
