//! The Zipf distribution: the k-th of n keys has a probability in proportion to 1 / k^s.
//!
//! Sampled by rejection-inversion (Hörmann and Derflinger 1996), which needs no table and a
//! constant number of steps on average for any n.

use fastrand::Rng;

/// A Zipf distribution over the keys 0 to `count - 1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ZipfDistribution {
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
    pub(crate) fn new(count: u32, exponent: f64) -> Self {
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

    /// The number of keys.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// A random key, from 0.
    pub(crate) fn sample(&self, random: &mut Rng) -> u32 {
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
