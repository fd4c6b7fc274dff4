//! Chooses the key (the virtual client) of each request.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use fastrand::Rng;

use crate::zipf::ZipfDistribution;

/// The maximum number of keys in a file.
const LISTED_MAX: usize = 1_000_000;
/// The maximum length of a line of a key file, in bytes.
const LINE_MAX: usize = 256;

/// The keys of a load and how often each is used.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyDistribution(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Single,
    Uniform(NonZeroU32),
    Zipf(ZipfDistribution),
    Listed(Arc<[Box<str>]>),
}

/// An invalid key distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyDistributionError {
    /// The Zipf exponent is out of range.
    #[error("the zipf exponent must be greater than 0 and at most 10, such as 1.1")]
    Exponent,
    /// The file has only blank lines.
    #[error("the file has no keys; expected one key per line")]
    Empty,
    /// The file has too many keys.
    #[error("the file has more than {LISTED_MAX} keys, which is the maximum")]
    TooMany,
    /// The line with this number, counted from 1, is too long or has control characters.
    #[error(
        "line {0} of the file is longer than {LINE_MAX} bytes or has control characters; \
         expected one key per line"
    )]
    Line(usize),
}

impl KeyDistribution {
    /// A single key for all requests.
    pub const fn single() -> Self {
        Self(Kind::Single)
    }

    /// `count` keys, all equally likely.
    pub const fn uniform(count: NonZeroU32) -> Self {
        Self(Kind::Uniform(count))
    }

    /// `count` keys, the k-th with a probability in proportion to 1 / k^exponent.
    pub fn zipf(count: NonZeroU32, exponent: f64) -> Result<Self, KeyDistributionError> {
        let is_valid = exponent > 0.0 && exponent <= 10.0;
        if is_valid {
            Ok(Self(Kind::Zipf(ZipfDistribution::new(
                count.get(),
                exponent,
            ))))
        } else {
            Err(KeyDistributionError::Exponent)
        }
    }

    /// The lines of a text, all equally likely. Blank lines are skipped.
    pub fn from_lines(text: &str) -> Result<Self, KeyDistributionError> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.len() > LINE_MAX || line.chars().any(char::is_control) {
                return Err(KeyDistributionError::Line(index + 1));
            }
            if keys.len() == LISTED_MAX {
                return Err(KeyDistributionError::TooMany);
            }
            if !line.is_empty() {
                keys.push(Box::from(line));
            }
        }

        if keys.is_empty() {
            Err(KeyDistributionError::Empty)
        } else {
            Ok(Self(Kind::Listed(keys.into())))
        }
    }

    /// The number of keys.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Kind::Single => 1,
            Kind::Uniform(count) => count.get(),
            Kind::Zipf(zipf) => zipf.count(),
            Kind::Listed(keys) => u32::try_from(keys.len()).unwrap_or(u32::MAX),
        }
    }

    /// The index of a random key.
    pub fn sample(&self, random: &mut Rng) -> u32 {
        match &self.0 {
            Kind::Single => 0,
            Kind::Zipf(zipf) => zipf.sample(random),
            Kind::Uniform(_) | Kind::Listed(_) => random.u32(..self.count()),
        }
    }

    /// The key to send in a request.
    pub(crate) fn value(&self, index: u32) -> Cow<'_, str> {
        match &self.0 {
            Kind::Listed(keys) => keys
                .get(index as usize)
                .map_or("".into(), |key| (&**key).into()),
            _ => format!("key-{index}").into(),
        }
    }

    /// The name of the key in reports. Keys from a file are not shown, as they may be secrets.
    pub(crate) fn label(&self, index: u32) -> String {
        match &self.0 {
            Kind::Listed(_) => format!("key {} of the file", u64::from(index) + 1),
            _ => self.value(index).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_key_on_each_line() {
        let keys = KeyDistribution::from_lines("ann\n\n  bob \r\ncarl").unwrap();
        assert_eq!(
            (keys.count(), keys.value(1), keys.label(1)),
            (3, "bob".into(), "key 2 of the file".to_owned())
        );
        let mut random = Rng::with_seed(3);
        let drawn: std::collections::HashSet<u32> =
            (0..100).map(|_| keys.sample(&mut random)).collect();
        assert_eq!(drawn.len(), 3);
        assert_eq!(
            KeyDistribution::from_lines("\n \n"),
            Err(KeyDistributionError::Empty)
        );
        assert_eq!(
            KeyDistribution::from_lines("a\nb\u{7}\n"),
            Err(KeyDistributionError::Line(2))
        );
        assert_eq!(
            KeyDistribution::from_lines(&"x".repeat(300)),
            Err(KeyDistributionError::Line(1))
        );
        assert_eq!(
            KeyDistribution::from_lines(&"x\n".repeat(LISTED_MAX + 1)),
            Err(KeyDistributionError::TooMany)
        );
    }

    #[test]
    fn invalid_exponents_are_rejected() {
        let count = NonZeroU32::new(9).unwrap();
        for wrong in [0.0, -1.0, 11.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                KeyDistribution::zipf(count, wrong),
                Err(KeyDistributionError::Exponent)
            );
        }
        assert_eq!(KeyDistribution::zipf(count, 1.0).unwrap().count(), 9);
    }
}
