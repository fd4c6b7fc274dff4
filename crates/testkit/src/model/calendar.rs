//! The UTC calendar, counted naively: year by year, month by month.

use tollgate::Calendar;

const SECOND: i128 = 1_000_000;
const DAY: i128 = 86_400 * SECOND;

/// The end of the calendar unit that contains `now`, in microseconds since the epoch.
pub(super) fn end_of(unit: Calendar, now: i128) -> i128 {
    match unit {
        Calendar::Second => next_multiple(now, SECOND),
        Calendar::Minute => next_multiple(now, 60 * SECOND),
        Calendar::Hour => next_multiple(now, 3_600 * SECOND),
        Calendar::Day => next_multiple(now, DAY),
        Calendar::Month => next_month(now),
    }
}

/// The maximum length of the unit.
pub(super) fn longest(unit: Calendar) -> i128 {
    match unit {
        Calendar::Second => SECOND,
        Calendar::Minute => 60 * SECOND,
        Calendar::Hour => 3_600 * SECOND,
        Calendar::Day => DAY,
        Calendar::Month => 31 * DAY,
    }
}

fn next_multiple(now: i128, length: i128) -> i128 {
    (now / length + 1) * length
}

fn next_month(now: i128) -> i128 {
    let (mut year, mut end) = (1970, 0);
    while end + days_of(year) * DAY <= now {
        end += days_of(year) * DAY;
        year += 1;
    }

    for days in months_of(year) {
        end += days * DAY;
        if end > now {
            break;
        }
    }

    end
}

fn days_of(year: i128) -> i128 {
    if is_leap(year) { 366 } else { 365 }
}

fn months_of(year: i128) -> [i128; 12] {
    let february = if is_leap(year) { 29 } else { 28 };
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

fn is_leap(year: i128) -> bool {
    year % 400 == 0 || (year % 4 == 0 && year % 100 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times taken from a printed calendar: 2024-02-29, 2024-03-01, 2027-01-01, 2027-02-01 and
    /// 2100-03-01, in seconds.
    #[test]
    fn months_end_where_a_printed_calendar_says() {
        let end = |secs: i128| end_of(Calendar::Month, secs * SECOND) / SECOND;
        assert_eq!(end(1_709_164_800), 1_709_251_200);
        assert_eq!(end(1_709_251_199), 1_709_251_200);
        assert_eq!(end(1_798_761_600), 1_801_440_000);
        assert_eq!(end(4_107_456_000), 4_107_542_400);
        assert_eq!(end(0), 31 * 86_400);
    }

    #[test]
    fn the_end_is_outside_the_unit() {
        assert_eq!(end_of(Calendar::Second, 0), SECOND);
        assert_eq!(end_of(Calendar::Minute, 60 * SECOND - 1), 60 * SECOND);
        assert_eq!(end_of(Calendar::Minute, 60 * SECOND), 120 * SECOND);
        assert_eq!(end_of(Calendar::Hour, 3_599 * SECOND), 3_600 * SECOND);
        assert_eq!(end_of(Calendar::Day, DAY), 2 * DAY);
    }
}
