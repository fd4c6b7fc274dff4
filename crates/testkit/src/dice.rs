//! Seeded random numbers: the same seed gives the same run on every machine, so that a failure can
//! be replayed.

/// A small random number generator, good enough for test data.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Creates a generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x9E37_79B9_7F4A_7C15,
        }
    }

    /// Returns the next 64-bit number.
    pub const fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.roll() % end }
    }

    /// Returns a number from `least` to `most`, both inclusive.
    pub const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns true with a probability of `in_thousand` in 1000.
    pub const fn chance(&mut self, in_thousand: u64) -> bool {
        self.below(1_000) < in_thousand
    }

    /// Returns one of the items.
    ///
    /// # Panics
    ///
    /// If there are no items.
    pub fn one_of<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        let index = self.below(some.len() as u64);
        some.get(usize::try_from(index).expect("the index fits in usize"))
            .expect("the slice is not empty")
    }
}
