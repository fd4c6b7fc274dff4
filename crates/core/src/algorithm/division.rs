//! Products that may not fit into 64 bits, and their division.
//!
//! The products of almost every limit fit into 64 bits and then take a few instructions. A 128-bit
//! division is a function call and takes ten times as long. The arithmetic of a bucket is therefore
//! written once and compiled for both widths.

use std::ops::{Add, Sub};

/// An integer type wide enough for the products of a limit.
pub(super) trait ProductInt:
    Copy + Ord + From<u64> + Add<Output = Self> + Sub<Output = Self>
{
    /// The product of two numbers, known to fit.
    fn product(a: u64, b: u64) -> Self;
    /// Quotient and remainder; the quotient is known to fit into 64 bits.
    fn divide(self, divisor: u64) -> (u64, u64);

    /// The quotient, rounded up.
    #[inline(always)]
    fn divide_ceil(self, divisor: u64) -> u64 {
        let (quotient, rest) = self.divide(divisor);
        quotient.saturating_add(u64::from(rest > 0))
    }

    /// Like [`divide`](Self::divide), by a divisor whose reciprocal is known.
    #[inline(always)]
    fn divide_by(self, divisor: Divisor) -> (u64, u64) {
        self.divide(divisor.value)
    }

    /// Like [`divide_ceil`](Self::divide_ceil), by a divisor whose reciprocal is known.
    #[inline(always)]
    fn divide_ceil_by(self, divisor: Divisor) -> u64 {
        let (quotient, rest) = self.divide_by(divisor);
        quotient.saturating_add(u64::from(rest > 0))
    }

    /// `self - other`, or zero when `other` is larger.
    #[inline(always)]
    fn minus_or_zero(self, other: Self) -> Self {
        self - other.min(self)
    }
}

/// A divisor of a limit, with its reciprocal: a decision divides by it three times, and a
/// multiplication takes a third of the time of a division.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Divisor {
    value: u64,
    /// 2^64 / value, rounded down; for 1 it is one less.
    reciprocal: u64,
}

impl Divisor {
    /// A divisor, which is not 0.
    pub(super) const fn new(value: u64) -> Self {
        let reciprocal = match u64::MAX.checked_div(value) {
            Some(reciprocal) => reciprocal,
            None => 0,
        };
        Self { value, reciprocal }
    }

    #[inline(always)]
    pub(super) const fn get(self) -> u64 {
        self.value
    }
}

impl std::fmt::Debug for Divisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

impl ProductInt for u64 {
    #[inline(always)]
    fn product(a: u64, b: u64) -> Self {
        a.wrapping_mul(b)
    }

    #[inline(always)]
    fn divide(self, divisor: u64) -> (u64, u64) {
        // A divisor is never 0. Without the panic for it, the compiler leaves out a division whose
        // result is not used.
        (
            self.checked_div(divisor).unwrap_or_default(),
            self.checked_rem(divisor).unwrap_or_default(),
        )
    }

    #[inline(always)]
    fn divide_by(self, Divisor { value, reciprocal }: Divisor) -> (u64, u64) {
        // The reciprocal is too small by less than value / 2^64, so the estimate is the quotient or
        // one less.
        let estimate = ((u128::from(self) * u128::from(reciprocal)) >> u64::BITS) as u64;
        let rest = self.wrapping_sub(estimate.wrapping_mul(value));
        if rest >= value {
            (estimate + 1, rest - value)
        } else {
            (estimate, rest)
        }
    }
}

impl ProductInt for u128 {
    #[inline(always)]
    fn product(a: u64, b: u64) -> Self {
        u128::from(a) * u128::from(b)
    }

    #[inline(always)]
    fn divide(self, divisor: u64) -> (u64, u64) {
        match u64::try_from(self) {
            Ok(narrow) => narrow.divide(divisor),
            Err(_) => divide_wide(self, divisor),
        }
    }
}

#[cold]
fn divide_wide(dividend: u128, divisor: u64) -> (u64, u64) {
    let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
    (
        narrow(dividend / u128::from(divisor)),
        narrow(dividend % u128::from(divisor)),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of every length, and those around powers of two.
    fn number() -> impl Strategy<Value = u64> {
        let near = (0..64_u32, 0..5_u64)
            .prop_map(|(log2, more)| (1_u64 << log2).wrapping_add(more).wrapping_sub(2));
        let short = (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift);
        prop_oneof![short, near]
    }

    proptest! {
        #[test]
        fn a_reciprocal_divides_exactly(dividend in number(), divisor in number()) {
            let divisor = divisor.max(1);
            let expected = (dividend / divisor, dividend % divisor);
            prop_assert_eq!(dividend.divide_by(Divisor::new(divisor)), expected);
        }
    }

    #[test]
    fn the_largest_and_smallest_numbers_are_divided_exactly() {
        let numbers = [1, 2, 3, 1 << 32, u64::MAX - 1, u64::MAX];
        for (dividend, divisor) in numbers.iter().flat_map(|a| numbers.map(|b| (*a, b))) {
            let expected = (dividend / divisor, dividend % divisor);
            assert_eq!(dividend.divide_by(Divisor::new(divisor)), expected);
            assert_eq!(0_u64.divide_by(Divisor::new(divisor)), (0, 0));
        }
    }
}
