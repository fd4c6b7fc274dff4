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

    /// `self - other`, or zero when `other` is larger.
    #[inline(always)]
    fn minus_or_zero(self, other: Self) -> Self {
        self - other.min(self)
    }
}

impl ProductInt for u64 {
    #[inline(always)]
    fn product(a: u64, b: u64) -> Self {
        a.wrapping_mul(b)
    }

    #[inline(always)]
    fn divide(self, divisor: u64) -> (u64, u64) {
        // Most rates reduce to one unit every n microseconds, so the divisor is often 1.
        if divisor == 1 {
            (self, 0)
        } else {
            // A divisor is never 0. Without the panic for it, the compiler leaves out a division
            // whose result is not used.
            (
                self.checked_div(divisor).unwrap_or_default(),
                self.checked_rem(divisor).unwrap_or_default(),
            )
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
