//! The keys and the order in which they are used, drawn before the clock starts.

use crate::random::Random;

/// The length of an order; a power of two, because the measured loop wraps around with a mask.
pub(super) const ORDER_LEN: usize = 1 << 22;

/// A key as an application might write it.
pub(super) fn name(number: u32) -> String {
    let mut name = String::new();
    write_name(number, &mut name);
    name
}

/// Writes a key into an existing string, as a server does when it reads a request. It must be fast,
/// because it is part of every subject's time.
#[inline]
pub(super) fn write_name(mut number: u32, name: &mut String) {
    let mut bytes = *b"user:0000000000";
    for digit in bytes[5..].iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
    name.clear();
    name.push_str(std::str::from_utf8(&bytes).unwrap_or_default());
}

pub(super) fn names(count: u32) -> Vec<String> {
    (0..count).map(name).collect()
}

/// One key, repeated.
pub(super) fn one() -> Vec<u32> {
    vec![0; ORDER_LEN]
}

/// Keys with equal probability.
pub(super) fn uniform(keys: u32) -> Vec<u32> {
    let mut random = Random::new(1);
    (0..ORDER_LEN).map(|_| random.below(keys)).collect()
}

/// Popular keys and a long tail, with the popular ones scattered over memory as in a real
/// application.
pub(super) fn zipf(keys: u32) -> Vec<u32> {
    let mut random = Random::new(2);
    let key_of_rank = random.permutation(keys);
    let zipf = Zipf::new(keys);
    (0..ORDER_LEN)
        .map(|_| key_of_rank[zipf.rank(random.fraction())])
        .collect()
}

/// Zipf's law with exponent 1: the second is half as frequent as the first, the third a third as
/// frequent.
struct Zipf {
    /// For each rank, the weight of it and of all ranks before it.
    up_to: Vec<f64>,
}

impl Zipf {
    fn new(ranks: u32) -> Self {
        let up_to = (1..=ranks).scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        });
        Self {
            up_to: up_to.collect(),
        }
    }

    /// The rank at this fraction of the total weight.
    fn rank(&self, fraction: f64) -> usize {
        let total = self.up_to.last().copied().unwrap_or_default();
        let rank = self.up_to.partition_point(|sum| *sum <= fraction * total);
        rank.min(self.up_to.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_zipf_is_as_frequent_as_the_law_says() {
        let zipf = Zipf::new(1_000);
        let mut random = Random::new(3);
        let mut hits = [0_u32; 1_000];
        for _ in 0..200_000 {
            hits[zipf.rank(random.fraction())] += 1;
        }
        // The thousandth harmonic number is 7.485, so the first rank has 13.36 % of all hits.
        for (rank, expected) in [(0, 26_720), (1, 13_360), (9, 2_672)] {
            let off = hits[rank].abs_diff(expected);
            assert!(
                off < expected / 10,
                "rank {rank}: {} instead of about {expected}",
                hits[rank]
            );
        }
        assert!(hits.iter().all(|hits| *hits > 0));
    }

    #[test]
    fn keys_have_one_length() {
        assert_eq!(name(123_456), "user:0000123456");
        assert_eq!(names(3).len(), 3);
    }
}
