//! Chooses the key (the virtual client) of each request.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use fastrand::Rng;

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
            Kind::Zipf(zipf) => zipf.count,
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

/// A Zipf distribution over the keys 0 to `count - 1`: the k-th of n keys has a probability in
/// proportion to 1 / k^s.
///
/// Sampled by rejection-inversion (Hörmann and Derflinger 1996), which needs no table and a constant
/// number of steps on average for any n.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ZipfDistribution {
    count: u32,
    exponent: f64,
    /// Bounds of the areas to sample from.
    first: f64,
    last: f64,
    /// A sample that is at most this far below its key is accepted without a further test.
    sure: f64,
}

impl ZipfDistribution {
    /// `count` and `exponent` must be above 0.
    fn new(count: u32, exponent: f64) -> Self {
        let mut zipf = Self {
            count,
            exponent,
            first: 0.0,
            last: 0.0,
            sure: 0.0,
        };

        zipf.first = zipf.area(1.5) - 1.0;
        zipf.last = zipf.area(f64::from(count) + 0.5);
        zipf.sure = 2.0 - zipf.inverse_area(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// A random key, from 0.
    fn sample(&self, random: &mut Rng) -> u32 {
        loop {
            let area = self.last + random.f64() * (self.first - self.last);
            let x = self.inverse_area(area);
            let key = x.round().clamp(1.0, f64::from(self.count));
            if key - x <= self.sure || area >= self.area(key + 0.5) - self.height(key) {
                return to_u32(key) - 1;
            }
        }
    }

    /// 1 / x^s.
    fn height(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// The integral of the height from 1 to x.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        let grown = (1.0 - self.exponent) * log;
        log * if grown.abs() < 1e-8 {
            1.0 + grown / 2.0
        } else {
            grown.exp_m1() / grown
        }
    }

    /// The x for which `area(x)` is `area`.
    fn inverse_area(&self, area: f64) -> f64 {
        let grown = (area * (1.0 - self.exponent)).max(-1.0);
        let factor = if grown.abs() < 1e-8 {
            1.0 - grown / 2.0
        } else {
            grown.ln_1p() / grown
        };
        (area * factor).exp()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the key lies between 1 and a u32"
)]
fn to_u32(key: f64) -> u32 {
    (key as u32).max(1)
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

    fn shares(count: u32, exponent: f64) -> Vec<f64> {
        let all: f64 = (1..=count).map(|key| f64::from(key).powf(-exponent)).sum();
        (1..=count)
            .map(|key| f64::from(key).powf(-exponent) / all)
            .collect()
    }

    /// Every key of small distributions, within five standard deviations of what the definition
    /// says.
    #[test]
    fn frequencies_match_the_definition() {
        const DRAWN: u32 = 200_000;
        for (count, exponent) in [
            (1, 1.0),
            (2, 0.5),
            (10, 1.0),
            (10, 1.5),
            (50, 0.9),
            (50, 3.0),
        ] {
            let (zipf, mut random) = (ZipfDistribution::new(count, exponent), Rng::with_seed(7));
            let mut counts = vec![0_u32; count as usize];
            (0..DRAWN).for_each(|_| counts[zipf.sample(&mut random) as usize] += 1);
            for (found, share) in counts.iter().zip(shares(count, exponent)) {
                let expected = share * f64::from(DRAWN);
                let deviation = (expected * (1.0 - share)).sqrt();
                let off = (f64::from(*found) - expected).abs();
                assert!(
                    off <= 5.0 * deviation + 1.0,
                    "{count} {exponent}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn keys_are_always_in_range() {
        let mut random = Rng::with_seed(1);
        for count in [1, 2, 3, 1_000_000, u32::MAX] {
            for exponent in [0.01, 0.5, 1.0, 1.000_000_001, 2.0, 10.0] {
                let zipf = ZipfDistribution::new(count, exponent);
                assert!(
                    (0..1_000).all(|_| zipf.sample(&mut random) < count),
                    "{count} {exponent}"
                );
            }
        }
    }
}
