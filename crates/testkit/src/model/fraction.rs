//! An exact fraction of big integers, written for clarity, not speed.

use std::cmp::Ordering;

use num_bigint::BigInt;

/// A numerator over a positive denominator, not always in lowest terms.
#[derive(Clone, Debug)]
pub(super) struct Fraction {
    numerator: BigInt,
    denominator: BigInt,
}

impl Fraction {
    /// `numerator / denominator`; the denominator must be positive.
    pub(super) fn new(numerator: impl Into<BigInt>, denominator: impl Into<BigInt>) -> Self {
        Self {
            numerator: numerator.into(),
            denominator: denominator.into(),
        }
    }

    /// A whole number.
    pub(super) fn whole(number: impl Into<BigInt>) -> Self {
        Self::new(number, 1)
    }

    /// `self + other`.
    #[must_use]
    pub(super) fn plus(&self, other: &Self) -> Self {
        let (ours, theirs) = (&self.denominator, &other.denominator);

        if ours == theirs {
            Self::new(&self.numerator + &other.numerator, ours.clone())
        } else if is_multiple(ours, theirs) {
            Self::new(
                &self.numerator + &other.numerator * (ours / theirs),
                ours.clone(),
            )
        } else if is_multiple(theirs, ours) {
            Self::new(
                &self.numerator * (theirs / ours) + &other.numerator,
                theirs.clone(),
            )
        } else {
            Self::new(
                &self.numerator * theirs + &other.numerator * ours,
                ours * theirs,
            )
        }
    }

    /// `self - other`.
    #[must_use]
    pub(super) fn minus(&self, other: &Self) -> Self {
        self.plus(&Self::new(-&other.numerator, other.denominator.clone()))
    }

    /// `self * numerator / denominator`; the denominator must be positive.
    #[must_use]
    pub(super) fn times(
        &self,
        numerator: impl Into<BigInt>,
        denominator: impl Into<BigInt>,
    ) -> Self {
        Self::new(
            &self.numerator * numerator.into(),
            &self.denominator * denominator.into(),
        )
    }

    /// The same fraction in lowest terms.
    #[must_use]
    pub(super) fn reduced(&self) -> Self {
        let (mut a, mut b) = (self.denominator.clone(), self.numerator.clone());
        while b != BigInt::ZERO {
            (a, b) = (b.clone(), a % b);
        }
        let divisor = if a < BigInt::ZERO { -a } else { a };
        Self::new(&self.numerator / &divisor, &self.denominator / &divisor)
    }

    /// The largest whole number that is not greater.
    pub(super) fn floor(&self) -> i128 {
        let quotient = &self.numerator / &self.denominator;
        let rest = &self.numerator % &self.denominator;
        let floor = if rest < BigInt::ZERO {
            quotient - 1
        } else {
            quotient
        };
        i128::try_from(floor).expect("amounts and times in a trace are far below 2^127")
    }

    /// The smallest whole number that is not less.
    pub(super) fn ceil(&self) -> i128 {
        -Self::new(-&self.numerator, self.denominator.clone()).floor()
    }
}

fn is_multiple(number: &BigInt, divisor: &BigInt) -> bool {
    number % divisor == BigInt::ZERO
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Fraction {}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.denominator == other.denominator {
            return self.numerator.cmp(&other.numerator);
        }
        (&self.numerator * &other.denominator).cmp(&(&other.numerator * &self.denominator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_whatever_the_denominators() {
        let third = Fraction::new(1, 3);
        assert_eq!(third.plus(&Fraction::new(1, 6)), Fraction::new(1, 2));
        assert_eq!(third.plus(&third).plus(&third), Fraction::whole(1));
        assert_eq!(third.minus(&Fraction::new(1, 4)), Fraction::new(1, 12));
        assert!(Fraction::new(999_983, 1_000_000) < Fraction::whole(1));
    }

    #[test]
    fn rounding_goes_down_and_up_below_zero_too() {
        assert_eq!(
            (Fraction::new(7, 2).floor(), Fraction::new(7, 2).ceil()),
            (3, 4)
        );
        assert_eq!(
            (Fraction::new(-7, 2).floor(), Fraction::new(-7, 2).ceil()),
            (-4, -3)
        );
        assert_eq!(
            (Fraction::whole(5).floor(), Fraction::whole(5).ceil()),
            (5, 5)
        );
    }

    #[test]
    fn lowest_terms_keep_the_value() {
        let reduced = Fraction::new(-12, 18).reduced();
        assert_eq!(
            (reduced.numerator.clone(), reduced.denominator.clone()),
            (BigInt::from(-2), BigInt::from(3))
        );
        assert_eq!(reduced, Fraction::new(-12, 18));
        assert_eq!(Fraction::new(0, 5).reduced(), Fraction::whole(0));
    }
}
