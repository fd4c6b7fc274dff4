//! Patterns that are matched byte by byte, and the states of their nondeterministic automaton as the
//! bits of machine words.
//!
//! A state is a position in a pattern: the token to match next, or the pattern's end. A symbol of
//! the text, a byte or a whole segment, advances all states of all patterns together with a few
//! operations per word. So matching takes time proportional to the length of the text times the
//! number of words, for any text, and it never backtracks.

use super::Case;
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

const WORD_BITS: usize = u64::BITS as usize;

/// A set of positions, one bit each.
pub(super) type Words = Box<[u64]>;

/// The positions of all patterns, and what is reached without a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Positions {
    /// The positions that may be skipped: those of stars.
    skips: Words,
    /// The positions that may be skipped together with the next one: the slash of `/**`.
    double_skips: Words,
    /// The states before the first symbol.
    start: Words,
    /// The end of each pattern.
    ends: Vec<usize>,
    /// The first position of each pattern.
    starts: Vec<usize>,
}

impl Positions {
    /// Lays out patterns with these numbers of tokens. A pattern starts in a new word if it would
    /// not fit, which keeps fewer words busy.
    pub(super) fn new(lengths: impl Iterator<Item = usize>) -> Self {
        let mut next: usize = 0;
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for length in lengths {
            if next % WORD_BITS + length + 1 > WORD_BITS {
                next = next.next_multiple_of(WORD_BITS);
            }
            starts.push(next);
            ends.push(next + length);
            next += length + 1;
        }

        let empty: Words = vec![0; next.div_ceil(WORD_BITS)].into();
        let mut start = empty.clone();
        starts.iter().for_each(|at| insert(&mut start, *at));
        Self {
            skips: empty.clone(),
            double_skips: empty,
            start,
            ends,
            starts,
        }
    }

    /// The first position of each pattern.
    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// No position.
    pub(super) fn none(&self) -> Words {
        vec![0; self.words()].into()
    }

    /// The number of words of a set of states.
    pub(super) const fn words(&self) -> usize {
        self.start.len()
    }

    /// Says which positions may be skipped, alone or with the next one. Two of the former are never
    /// adjacent, nor is what the latter skips to one of them.
    pub(super) fn set_skips(&mut self, skips: Words, double_skips: Words) {
        let masks = skips.iter().zip(&double_skips);
        let mut carry = Carry::default();
        for (state, (skip, double_skip)) in self.start.iter_mut().zip(masks) {
            *state = carry.skip(*state, *skip, *double_skip);
        }
        (self.skips, self.double_skips) = (skips, double_skips);
    }

    /// Sets the states to those before the first symbol.
    pub(super) fn restart(&self, states: &mut [u64]) {
        states.copy_from_slice(&self.start);
    }

    /// Advances the states by a symbol: those in `matches` move on, those in `stays` stay. Returns
    /// false if none is left.
    #[inline]
    pub(super) fn advance(&self, states: &mut [u64], matches: &[u64], stays: &[u64]) -> bool {
        let masks = matches
            .iter()
            .zip(stays)
            .zip(&self.skips)
            .zip(&self.double_skips);
        let mut carry = Carry::default();
        let mut any = 0;
        for (state, (((matches, stays), skips), double_skips)) in states.iter_mut().zip(masks) {
            let moved = carry.moved.shift(*state & matches, 1);
            *state = carry.skip(moved | (*state & stays), *skips, *double_skips);
            any |= *state;
        }
        any != 0
    }

    /// The patterns whose ends are among the states.
    pub(super) fn matched(&self, states: &[u64]) -> impl Iterator<Item = usize> {
        let ends = self.ends.iter().enumerate();
        let matched = ends.filter(|(_, end)| contains(states, **end));
        matched.map(|(pattern, _)| pattern)
    }
}

/// The bits that are shifted from one word into the next.
#[derive(Default)]
struct Carry {
    moved: ShiftCarry,
    after_skip: ShiftCarry,
    after_double_skip: ShiftCarry,
}

impl Carry {
    /// Adds the positions that are reached without a symbol.
    fn skip(&mut self, state: u64, skips: u64, double_skips: u64) -> u64 {
        let state = state | self.after_skip.shift(state & skips, 1);
        state | self.after_double_skip.shift(state & double_skips, 2)
    }
}

/// The bits that one shift has left over for the next word.
#[derive(Default)]
struct ShiftCarry(u64);

impl ShiftCarry {
    fn shift(&mut self, word: u64, by: u32) -> u64 {
        let shifted = word << by | self.0;
        self.0 = word >> (u64::BITS - by);
        shifted
    }
}

/// Adds a position to a set.
pub(super) fn insert(words: &mut [u64], at: usize) {
    if let Some(word) = words.get_mut(at / WORD_BITS) {
        *word |= 1 << (at % WORD_BITS);
    }
}

fn contains(words: &[u64], at: usize) -> bool {
    let word = words.get(at / WORD_BITS);
    word.is_some_and(|word| word >> (at % WORD_BITS) & 1 == 1)
}
