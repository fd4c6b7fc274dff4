//! How much random testing a run does, and with which seeds.
//!
//! By default a tenth of it, with the same seeds every time: a change is tested quickly, and a
//! failure is due to the change. `cargo xtask test --thorough` sets `TOLLGATE_THOROUGH` and a new seed.

use proptest::test_runner::{Config, RngSeed};

/// The environment variable that asks for the whole volume, or for a multiple of it.
const THOROUGH: &str = "TOLLGATE_THOROUGH";

/// Returns true if at least the whole volume is asked for.
pub fn is_thorough() -> bool {
    multiple().is_some()
}

/// Returns `whole` times what `TOLLGATE_THOROUGH` says; without it a tenth, rounded up.
pub fn of(whole: u64) -> u64 {
    share(whole, multiple())
}

fn multiple() -> Option<u64> {
    let value = std::env::var(THOROUGH).ok();
    value.map(|text| text.parse().expect("TOLLGATE_THOROUGH is a whole number"))
}

fn share(whole: u64, multiple: Option<u64>) -> u64 {
    multiple.map_or_else(|| whole.div_ceil(10), |multiple| whole * multiple)
}

/// Returns the seed of the run: 0, or `PROPTEST_RNG_SEED`, which proptest reads as well.
pub fn seed() -> u64 {
    match Config::default().rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => 0,
    }
}

/// Returns the configuration for one round of a test with several. Each round has its own seed;
/// proptest would give all of them the same one.
pub fn round(number: u64, cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed().wrapping_add(number)),
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::test_runner::RngSeed;

    use super::{round, seed, share};

    #[test]
    fn a_run_does_a_tenth_unless_it_is_thorough() {
        let shares = [0, 1, 11, 1_000_000]
            .map(|whole| [None, Some(1), Some(3)].map(|multiple| share(whole, multiple)));
        let expected = [
            [0, 0, 0],
            [1, 1, 3],
            [2, 11, 33],
            [100_000, 1_000_000, 3_000_000],
        ];
        assert_eq!(shares, expected);
    }

    #[test]
    fn every_round_has_a_seed_of_its_own() {
        let seeds = [0, 1].map(|number| round(number, 10).rng_seed);
        let expected = [0, 1].map(|number| RngSeed::Fixed(seed().wrapping_add(number)));
        assert_eq!(seeds, expected);
    }
}
