//! Patterns that are matched byte by byte.

use super::Case;
use super::positions::{Positions, Words, insert};
use super::token::Token;

/// One or more patterns that are matched together, byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Automaton {
    positions: Positions,
    /// The class of each byte. The same positions match all bytes of a class.
    classes: Box<[u8; 256]>,
    /// For each class, the positions whose token matches a byte of it.
    matches: Vec<Words>,
    /// The positions of `**`, which any byte leaves where they are.
    double_stars: Words,
    /// The positions of `*` and `**`, which a byte other than a slash leaves where they are.
    stars: Words,
}

impl Automaton {
    /// Compiles patterns. They keep their order.
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = (&'p [Token], Case)>) -> Self {
        let patterns: Vec<_> = patterns.into_iter().collect();
        let mut positions = Positions::new(patterns.iter().map(|(tokens, _)| tokens.len()));
        let mut matches = vec![positions.none(); 256];
        let [mut stars, mut double_stars, mut slashes] = [(); 3].map(|()| positions.none());

        for (start, (tokens, case)) in positions.starts().iter().zip(&patterns) {
            for (at, token) in (*start..).zip(*tokens) {
                match token {
                    Token::Byte(byte) => match case {
                        Case::Sensitive => insert(&mut matches[usize::from(*byte)], at),
                        Case::Insensitive => {
                            insert(&mut matches[usize::from(byte.to_ascii_lowercase())], at);
                            insert(&mut matches[usize::from(byte.to_ascii_uppercase())], at);
                        }
                    },
                    Token::OptionalSlash => {
                        insert(&mut matches[usize::from(b'/')], at);
                        insert(&mut slashes, at);
                    }
                    Token::Star => insert(&mut stars, at),
                    Token::DoubleStar => {
                        insert(&mut stars, at);
                        insert(&mut double_stars, at);
                    }
                }
            }
        }

        positions.set_skips(stars.clone(), slashes);
        let (classes, matches) = classify(matches);
        Self {
            positions,
            classes,
            matches,
            double_stars,
            stars,
        }
    }

    /// The number of words of a set of states.
    pub(super) const fn words(&self) -> usize {
        self.positions.words()
    }

    /// Matches a text. `states` has [as many words](Self::words), and has the final states then.
    pub(super) fn run(&self, text: &[u8], states: &mut [u64]) {
        self.positions.restart(states);
        for byte in text {
            let matches = &self.matches[usize::from(self.classes[usize::from(*byte)])];
            let stays = match byte {
                b'/' => &self.double_stars,
                _ => &self.stars,
            };
            if !self.positions.advance(states, matches, stays) {
                return;
            }
        }
    }

    /// The patterns whose ends are among the final states.
    pub(super) fn matched(&self, states: &[u64]) -> impl Iterator<Item = usize> {
        self.positions.matched(states)
    }
}

/// Gives bytes with the same positions the same class.
fn classify(matches: Vec<Words>) -> (Box<[u8; 256]>, Vec<Words>) {
    let mut classes = Box::new([0; 256]);
    let mut different: Vec<Words> = Vec::new();
    for (class, positions) in classes.iter_mut().zip(matches) {
        let known = different.iter().position(|other| *other == positions);
        let index = known.unwrap_or_else(|| {
            different.push(positions);
            different.len() - 1
        });
        // There are at most as many classes as bytes.
        *class = u8::try_from(index).unwrap_or(u8::MAX);
    }
    (classes, different)
}
