//! Patterns compiled to one nondeterministic automaton, whose states are the bits of machine words.
//!
//! A state is a position in a pattern: the token to match next, or the pattern's end. Each byte of
//! the text advances all states of all patterns together with a few operations per word. So
//! matching takes time proportional to the length of the text times the number of words, for any
//! text, and it never backtracks.

use super::Case;
use super::token::Token;

const WORD_BITS: usize = u64::BITS as usize;

/// One or more patterns that are matched together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Automaton {
    /// The class of each byte. Bytes of one class are in the same patterns' positions.
    classes: Box<[u8; 256]>,
    /// For each class, the positions whose token matches a byte of it.
    matches: Vec<Words>,
    /// The positions of `**`, which any byte leaves where they are.
    double_stars: Words,
    /// The positions of `*` and `**`. A byte other than a slash leaves them where they are, and the
    /// position after them is reached without a byte.
    stars: Words,
    /// The positions of the slash of `/**`, which may be skipped together with the stars.
    optional_slashes: Words,
    /// The states before the first byte.
    start: Words,
    /// The end of each pattern.
    ends: Vec<usize>,
}

/// A set of positions, one bit each.
type Words = Box<[u64]>;

impl Automaton {
    /// Compiles patterns. They keep their order.
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = (&'p [Token], Case)>) -> Self {
        let patterns: Vec<_> = patterns.into_iter().collect();
        let starts = starts(&patterns);
        let last = starts.last().zip(patterns.last());
        let positions = last.map_or(0, |(start, (tokens, _))| start + tokens.len() + 1);
        let empty: Words = vec![0; positions.div_ceil(WORD_BITS)].into();

        let mut automaton = Self {
            classes: Box::new([0; 256]),
            matches: Vec::new(),
            double_stars: empty.clone(),
            stars: empty.clone(),
            optional_slashes: empty.clone(),
            start: empty.clone(),
            ends: Vec::new(),
        };
        let mut matches = vec![empty; 256];

        for (start, (tokens, case)) in starts.into_iter().zip(patterns) {
            for (at, token) in (start..).zip(tokens) {
                automaton.add(at, *token, case, &mut matches);
            }
            set(&mut automaton.start, start);
            automaton.ends.push(start + tokens.len());
        }

        automaton.skip_at_start();
        automaton.classify(matches);
        automaton
    }

    /// The number of words of a set of states.
    pub(super) const fn words(&self) -> usize {
        self.start.len()
    }

    /// Matches a text. `states` has [as many words](Self::words), and has the final states then.
    pub(super) fn run(&self, text: &[u8], states: &mut [u64]) {
        states.copy_from_slice(&self.start);
        for byte in text {
            if !self.step(*byte, states) {
                return;
            }
        }
    }

    /// The patterns whose ends are among the final states.
    pub(super) fn matched(&self, states: &[u64]) -> impl Iterator<Item = usize> {
        let ends = self.ends.iter().enumerate();
        let matched = ends.filter(|(_, end)| contains(states, **end));
        matched.map(|(pattern, _)| pattern)
    }

    /// Advances the states by one byte. Returns false if none is left.
    fn step(&self, byte: u8, states: &mut [u64]) -> bool {
        let matches = &self.matches[usize::from(self.classes[usize::from(byte)])];
        let stays = match byte {
            b'/' => &self.double_stars,
            _ => &self.stars,
        };

        let masks = matches
            .iter()
            .zip(stays)
            .zip(&self.stars)
            .zip(&self.optional_slashes);
        let mut carry = Carry::default();
        let mut any = 0;
        for (state, (((matches, stays), stars), slashes)) in states.iter_mut().zip(masks) {
            let moved = carry.moved.shift(*state & matches, 1);
            *state = carry.skip(moved | (*state & stays), *stars, *slashes);
            any |= *state;
        }
        any != 0
    }

    /// Adds the positions that are reached from the start without a byte.
    fn skip_at_start(&mut self) {
        let masks = self.stars.iter().zip(&self.optional_slashes);
        let mut carry = Carry::default();
        for (state, (stars, slashes)) in self.start.iter_mut().zip(masks) {
            *state = carry.skip(*state, *stars, *slashes);
        }
    }

    fn add(&mut self, at: usize, token: Token, case: Case, matches: &mut [Words]) {
        let mut add_byte = |byte: u8| set(&mut matches[usize::from(byte)], at);
        match token {
            Token::Byte(byte) => {
                add_byte(byte);
                if case == Case::Insensitive {
                    add_byte(byte.to_ascii_lowercase());
                    add_byte(byte.to_ascii_uppercase());
                }
            }
            Token::OptionalSlash => {
                add_byte(b'/');
                set(&mut self.optional_slashes, at);
            }
            Token::Star => set(&mut self.stars, at),
            Token::DoubleStar => {
                set(&mut self.stars, at);
                set(&mut self.double_stars, at);
            }
        }
    }

    /// Gives bytes with the same positions the same class.
    fn classify(&mut self, matches: Vec<Words>) {
        for (byte, positions) in matches.into_iter().enumerate() {
            let known = self.matches.iter().position(|other| *other == positions);
            let class = known.unwrap_or_else(|| {
                self.matches.push(positions);
                self.matches.len() - 1
            });
            // There are at most as many classes as bytes.
            self.classes[byte] = u8::try_from(class).unwrap_or(u8::MAX);
        }
    }
}

/// The bits that are shifted from one word into the next.
#[derive(Default)]
struct Carry {
    moved: ShiftCarry,
    after_star: ShiftCarry,
    after_slash: ShiftCarry,
}

impl Carry {
    /// Adds the positions after stars, and after optional slashes with their stars. Two stars are
    /// never adjacent, nor are two `/**`, so one round finds all.
    fn skip(&mut self, state: u64, stars: u64, slashes: u64) -> u64 {
        let state = state | self.after_star.shift(state & stars, 1);
        state | self.after_slash.shift(state & slashes, 2)
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

/// The first position of each pattern. A pattern starts in a new word if it would not fit, which
/// leaves fewer words busy.
fn starts(patterns: &[(&[Token], Case)]) -> Vec<usize> {
    let mut next: usize = 0;
    let start = |(tokens, _): &(&[Token], Case)| {
        let length = tokens.len() + 1;
        if next % WORD_BITS + length > WORD_BITS {
            next = next.next_multiple_of(WORD_BITS);
        }
        let start = next;
        next += length;
        start
    };
    patterns.iter().map(start).collect()
}

fn set(words: &mut [u64], at: usize) {
    if let Some(word) = words.get_mut(at / WORD_BITS) {
        *word |= 1 << (at % WORD_BITS);
    }
}

fn contains(words: &[u64], at: usize) -> bool {
    let word = words.get(at / WORD_BITS);
    word.is_some_and(|word| word >> (at % WORD_BITS) & 1 == 1)
}
