//! Products that may not fit into 64 bits, and their division.
//!
//! Almost every limit's products do fit, and then everything is a few instructions; 128 bits take a
//! call to divide and ten times as long. The bucket's arithmetic is written once, over either
//! width.

use std::ops::{Add, Sub};

/// An integer wide enough for the products of a limit.
pub(super) trait Width: Copy + Ord + Add<Output = Self> + Sub<Output = Self> {
    /// The product of two numbers, known to fit.
    fn product(a: u64, b: u64) -> Self;
    /// A number as it is.
    fn of(number: u64) -> Self;
    /// Quotient and remainder, the quotient known to fit into 64 bits.
    fn divide(self, divisor: u64) -> (u64, u64);
    /// `self - other`, or zero.
    fn less(self, other: Self) -> Self;

    /// The quotient, rounded up.
    #[inline(always)]
    fn divide_ceil(self, divisor: u64) -> u64 {
        let (quotient, rest) = self.divide(divisor);
        quotient.saturating_add(u64::from(rest > 0))
    }
}

impl Width for u64 {
    #[inline(always)]
    fn product(a: u64, b: u64) -> Self {
        a.wrapping_mul(b)
    }

    #[inline(always)]
    fn of(number: u64) -> Self {
        number
    }

    #[inline(always)]
    fn divide(self, divisor: u64) -> (u64, u64) {
        // Everyday rates are one unit per so many microseconds.
        if divisor == 1 {
            (self, 0)
        } else {
            (self / divisor, self % divisor)
        }
    }

    #[inline(always)]
    fn less(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Width for u128 {
    #[inline(always)]
    fn product(a: u64, b: u64) -> Self {
        u128::from(a) * u128::from(b)
    }

    #[inline(always)]
    fn of(number: u64) -> Self {
        number.into()
    }

    #[inline(always)]
    fn divide(self, divisor: u64) -> (u64, u64) {
        match u64::try_from(self) {
            Ok(narrow) => narrow.divide(divisor),
            Err(_) => divide_wide(self, divisor),
        }
    }

    #[inline(always)]
    fn less(self, other: Self) -> Self {
        self.saturating_sub(other)
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

/// The full product of two numbers.
#[inline(always)]
pub(super) fn product(a: u64, b: u64) -> u128 {
    u128::product(a, b)
}

/// Quotient and remainder of `dividend / divisor`.
#[inline(always)]
pub(super) fn divide(dividend: u128, divisor: u64) -> (u64, u64) {
    dividend.divide(divisor)
}

/// `dividend / divisor`, rounded up.
#[inline(always)]
pub(super) fn divide_ceil(dividend: u128, divisor: u64) -> u64 {
    dividend.divide_ceil(divisor)
}
