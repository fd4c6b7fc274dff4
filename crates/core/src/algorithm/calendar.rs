//! Units of the UTC calendar: when the second, minute, hour, day or month of a moment ends.

use crate::time::Micros;

/// A day in microseconds.
const DAY: u64 = 86_400_000_000;

/// A unit of the UTC calendar. UNIX time has no leap seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Calendar {
    /// From one whole second to the next.
    Second,
    /// From one whole minute to the next.
    Minute,
    /// From one whole hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next, 28 to 31 days.
    Month,
}

impl Calendar {
    /// The end of the unit that contains `now`; always later than `now`.
    pub const fn end_of(self, now: Micros) -> Micros {
        let (now, length) = (now.get(), self.length_max().get());
        if matches!(self, Self::Month) {
            return Micros::new(next_month_start_day(now / DAY).saturating_mul(DAY));
        }
        Micros::new((now - now % length).saturating_add(length))
    }

    /// The beginning of the unit that contains `now`.
    pub(super) const fn start_of(self, now: Micros) -> Micros {
        let (now, length) = (now.get(), self.length_max().get());
        if !matches!(self, Self::Month) {
            return Micros::new(now - now % length);
        }

        // The first day from which on months end where this one does.
        let (mut day, next) = (now / DAY, next_month_start_day(now / DAY));
        while day > 0 && next_month_start_day(day - 1) == next {
            day -= 1;
        }
        Micros::new(day * DAY)
    }

    /// The unit's name, as in a configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    /// The unit as the length of a window: `1s`, `1m`, `1h`, `1d` or `1month`.
    #[cfg(feature = "serde")]
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::Month => "1month".to_owned(),
            unit => unit.length_max().to_string(),
        }
    }

    /// The unit with this text. The error shows the text and what is expected.
    #[cfg(feature = "serde")]
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let units = [
            Self::Second,
            Self::Minute,
            Self::Hour,
            Self::Day,
            Self::Month,
        ];
        let unit = units.into_iter().find(|unit| unit.to_text() == text);
        unit.ok_or_else(|| {
            let expected = "1s, 1m, 1h, 1d or 1month, because of `align: clock`";
            format!("invalid window {text:?}; expected {expected}")
        })
    }

    /// The greatest length of the unit.
    pub const fn length_max(self) -> Micros {
        match self {
            Self::Second => Micros::from_secs(1),
            Self::Minute => Micros::from_secs(60),
            Self::Hour => Micros::from_secs(3_600),
            Self::Day => Micros::new(DAY),
            Self::Month => Micros::new(31 * DAY),
        }
    }
}

/// The first day of the month after the month of `day`, both counted from 1970-01-01.
///
/// The civil calendar repeats every 400 years (146,097 days). Counting years from the first of
/// March puts the leap day at the end of the year, so that every month starts on the same day of
/// every year: 0, 31, 61, 92, ... = (153 m + 2) / 5.
const fn next_month_start_day(day: u64) -> u64 {
    // Count from 0000-03-01 instead of 1970-01-01.
    let day = day + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);

    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let year_start = year_of_era * 365 + year_of_era / 4 - year_of_era / 100;
    let month = (5 * (day_of_era - year_start) + 2) / 153;

    let next_start = if month == 11 {
        // February is the last month of a year that starts in March.
        let next = year_of_era + 1;
        next * 365 + next / 4 - next / 100 + next / 400
    } else {
        year_start + (153 * (month + 1) + 2) / 5
    };

    era * 146_097 + next_start - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first day of every month from 1970-02 on, by adding up the lengths of the months.
    fn month_starts() -> impl Iterator<Item = u64> {
        let leap = |year: u64| {
            (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
        };

        (1970..2256u64)
            .flat_map(move |year| {
                let february = if leap(year) { 29 } else { 28 };
                [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
            })
            .scan(0, |day, length| {
                *day += length;
                Some(*day)
            })
    }

    #[test]
    fn months_end_where_adding_up_their_lengths_says_for_286_years() {
        let mut day = 0;
        for start in month_starts() {
            while day < start {
                assert_eq!(next_month_start_day(day), start, "day {day}");
                day += 1;
            }
        }
    }

    #[test]
    fn a_unit_ends_after_the_moment_it_contains() {
        let noon = Micros::from_secs(1_794_744_000); // 2026-11-15 12:00:00 UTC
        assert_eq!(
            Calendar::Second.end_of(noon),
            Micros::from_secs(1_794_744_001)
        );
        assert_eq!(
            Calendar::Minute.end_of(noon),
            Micros::from_secs(1_794_744_060)
        );
        assert_eq!(
            Calendar::Hour.end_of(noon),
            Micros::from_secs(1_794_747_600)
        );
        assert_eq!(Calendar::Day.end_of(noon), Micros::from_secs(1_794_787_200));
        assert_eq!(
            Calendar::Month.end_of(noon),
            Micros::from_secs(1_796_083_200)
        ); // 2026-12-01
    }

    #[test]
    fn the_end_of_time_does_not_panic() {
        for unit in [
            Calendar::Second,
            Calendar::Minute,
            Calendar::Hour,
            Calendar::Day,
            Calendar::Month,
        ] {
            assert!(unit.end_of(Micros::new(u64::MAX)) >= unit.end_of(Micros::MAX));
        }
    }
}
