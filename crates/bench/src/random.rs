//! Random numbers that are the same in every run, so that every run sends the same requests.

/// `SplitMix64`: small, fast and good enough to scatter keys.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, the upper half of a product. Its bias is below one in four billion.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let product = (self.next() >> 32) * u64::from(bound);
        u32::try_from(product >> 32).expect("the upper half of a 64-bit product")
    }

    /// A number in the range from 0 (inclusive) to 1 (exclusive).
    pub(crate) fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).expect("32 bits are left");
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    /// The numbers below `count` in random order.
    pub(crate) fn permutation(&mut self, count: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..count).collect();
        for last in (1..count).rev() {
            numbers.swap(last as usize, self.below(last + 1) as usize);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_holds_every_number_once() {
        let mut numbers = Random::new(7).permutation(1_000);
        assert_ne!(numbers, (0..1_000).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
    }

    #[test]
    fn fractions_fill_the_unit_interval() {
        let mut random = Random::new(7);
        let mean = (0..10_000).map(|_| random.fraction()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
    }
}
