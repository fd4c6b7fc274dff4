//! Who asks: which of many virtual clients the next request comes from.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use fastrand::Rng;

use crate::zipf::Zipf;

/// The most clients of a file, and the longest of its lines in bytes.
const LISTED_MAX: usize = 1_000_000;
const LINE_MAX: usize = 256;

/// How clients are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys(Choice);

#[derive(Clone, Debug, PartialEq)]
enum Choice {
    One,
    Uniform(NonZeroU32),
    Zipf(Zipf),
    Listed(Arc<[Box<str>]>),
}

/// Why clients cannot be chosen so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The exponent makes no distribution.
    #[error("the exponent of zipf is from above 0 to 10, such as 1.1")]
    Exponent,
    /// No line has anything on it.
    #[error("the file has no keys; write one on each line")]
    Empty,
    /// More lines than are kept.
    #[error("the file has more than {LISTED_MAX} keys; {LISTED_MAX} are the most")]
    TooMany,
    /// A line that is too long, or has characters that are none.
    #[error(
        "line {0} of the file is longer than {LINE_MAX} bytes or has control characters; write one key on each line"
    )]
    Line(usize),
}

impl Keys {
    /// Always the same client.
    pub const fn one() -> Self {
        Self(Choice::One)
    }

    /// One of so many, each as often as the others.
    pub const fn uniform(count: NonZeroU32) -> Self {
        Self(Choice::Uniform(count))
    }

    /// One of so many, the k-th in proportion to 1 / k^exponent.
    pub fn zipf(count: NonZeroU32, exponent: f64) -> Result<Self, KeysError> {
        let is_right = exponent > 0.0 && exponent <= 10.0;
        if is_right {
            Ok(Self(Choice::Zipf(Zipf::new(count.get(), exponent))))
        } else {
            Err(KeysError::Exponent)
        }
    }

    /// One of the lines of a text, each as often as the others. Lines without anything are passed
    /// over.
    pub fn listed(text: &str) -> Result<Self, KeysError> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.len() > LINE_MAX || line.chars().any(char::is_control) {
                return Err(KeysError::Line(index + 1));
            }
            if keys.len() == LISTED_MAX {
                return Err(KeysError::TooMany);
            }
            if !line.is_empty() {
                keys.push(Box::from(line));
            }
        }
        if keys.is_empty() {
            Err(KeysError::Empty)
        } else {
            Ok(Self(Choice::Listed(keys.into())))
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Choice::One => 1,
            Choice::Uniform(count) => count.get(),
            Choice::Zipf(zipf) => zipf.count(),
            Choice::Listed(keys) => u32::try_from(keys.len()).unwrap_or(u32::MAX),
        }
    }

    /// The next one, by its number.
    pub(crate) fn draw(&self, random: &mut Rng) -> u32 {
        match &self.0 {
            Choice::One => 0,
            Choice::Zipf(zipf) => zipf.draw(random),
            Choice::Uniform(_) | Choice::Listed(_) => random.u32(..self.count()),
        }
    }

    /// What the service is told.
    pub(crate) fn value(&self, number: u32) -> Cow<'_, str> {
        match &self.0 {
            Choice::Listed(keys) => keys
                .get(number as usize)
                .map_or("".into(), |key| (&**key).into()),
            _ => format!("key-{number}").into(),
        }
    }

    /// What a report calls it. Lines of a file may be secrets.
    pub(crate) fn label(&self, number: u32) -> String {
        match &self.0 {
            Choice::Listed(_) => format!("key {} of the file", u64::from(number) + 1),
            _ => self.value(number).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_key_on_each_line() {
        let keys = Keys::listed("ann\n\n  bob \r\ncarl").unwrap();
        assert_eq!(
            (keys.count(), keys.value(1), keys.label(1)),
            (3, "bob".into(), "key 2 of the file".to_owned())
        );
        let mut random = Rng::with_seed(3);
        let drawn: std::collections::HashSet<u32> =
            (0..100).map(|_| keys.draw(&mut random)).collect();
        assert_eq!(drawn.len(), 3);
        assert_eq!(Keys::listed("\n \n"), Err(KeysError::Empty));
        assert_eq!(Keys::listed("a\nb\u{7}\n"), Err(KeysError::Line(2)));
        assert_eq!(Keys::listed(&"x".repeat(300)), Err(KeysError::Line(1)));
        assert_eq!(
            Keys::listed(&"x\n".repeat(LISTED_MAX + 1)),
            Err(KeysError::TooMany)
        );
    }

    #[test]
    fn exponents_that_make_no_sense_are_refused() {
        let count = NonZeroU32::new(9).unwrap();
        for wrong in [0.0, -1.0, 11.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Keys::zipf(count, wrong), Err(KeysError::Exponent));
        }
        assert_eq!(Keys::zipf(count, 1.0).unwrap().count(), 9);
    }
}
