//! Division of wide products. The hardware divides 64 bits in a few cycles; 128 bits take a call and ten times as
//! long, and almost no limit needs them.

/// Quotient and remainder of `dividend / divisor`. The quotient must fit, as it does for everything the quotas admit.
#[inline(always)]
pub(super) fn divide(dividend: u128, divisor: u64) -> (u64, u64) {
    match u64::try_from(dividend) {
        Ok(narrow) => (narrow / divisor, narrow % divisor),
        Err(_) => {
            let divisor = u128::from(divisor);
            (saturate(dividend / divisor), saturate(dividend % divisor))
        }
    }
}

/// `dividend / divisor`, rounded up.
#[inline(always)]
pub(super) fn divide_ceil(dividend: u128, divisor: u64) -> u64 {
    let (quotient, rest) = divide(dividend, divisor);
    quotient.saturating_add(u64::from(rest > 0))
}

/// The full product of two numbers.
#[inline(always)]
pub(super) fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

fn saturate(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}
