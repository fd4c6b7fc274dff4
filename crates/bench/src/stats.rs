//! Statistics of a few rounds.

/// The median, the minimum and the maximum of some rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |index: usize| rounds.get(index).copied().unwrap_or(f64::NAN);
        let (low, high) = (rounds.len().saturating_sub(1) / 2, rounds.len() / 2);
        Self {
            median: f64::midpoint(at(low), at(high)),
            min: at(0),
            max: at(rounds.len().saturating_sub(1)),
        }
    }
}

/// Rounds to one decimal place, which is finer than the precision of any of these numbers.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let spread = Spread::of(vec![5.0, 1.0, 9.0]);
        assert_eq!(
            spread,
            Spread {
                median: 5.0,
                min: 1.0,
                max: 9.0
            }
        );
        assert!((Spread::of(vec![4.0, 1.0, 9.0, 2.0]).median - 3.0).abs() < 1e-9);
        assert!((Spread::of(vec![4.0]).median - 4.0).abs() < 1e-9);
    }

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        assert!((Spread::of(vec![10.0, 11.0, 10.5, 9_000.0, 10.2]).median - 10.5).abs() < 1e-9);
    }
}
