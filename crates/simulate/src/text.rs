//! Formats numbers and times, the same way for the terminal and the HTML page.

use jiff::Timestamp;
use tollgate::Micros;

/// An integer in groups of three digits.
///
/// ```
/// assert_eq!(tollgate_simulate::text::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A part of a whole as a percentage. Only 0 is shown as `0%`, and only the whole as `100%`.
///
/// ```
/// use tollgate_simulate::text::share;
///
/// assert_eq!(share(1, 8), "12.5%");
/// assert_eq!(share(1, 1_000_000), "<0.1%");
/// assert_eq!(share(0, 0), "0%");
/// ```
pub fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0%".to_owned();
    }

    match u128::from(part) * 1_000 / u128::from(whole) {
        _ if part == whole => "100%".to_owned(),
        0 => "<0.1%".to_owned(),
        permille => format!("{}.{}%", permille / 10, permille % 10),
    }
}

/// A time in UTC, to the second: `2026-10-10T20:55:36Z`.
///
/// ```
/// use tollgate::Micros;
///
/// let time = Micros::from_secs(1_791_665_736);
/// assert_eq!(tollgate_simulate::text::utc(time), "2026-10-10T20:55:36Z");
/// ```
pub fn utc(time: Micros) -> String {
    let secs = i64::try_from(time.get() / 1_000_000).unwrap_or(i64::MAX);
    Timestamp::from_second(secs)
        .unwrap_or(Timestamp::MAX)
        .to_string()
}

/// How many times a number another one is, with a decimal below 10.
///
/// ```
/// use tollgate_simulate::text::times;
///
/// assert_eq!(times(48, 2), "24");
/// assert_eq!(times(16, 5), "3.2");
/// ```
pub fn times(number: u64, other: u64) -> String {
    let other = u128::from(other.max(1));
    let tenths = (u128::from(number) * 10 + other / 2) / other;
    if tenths < 100 {
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        (tenths / 10).to_string()
    }
}

/// A length of time in its largest whole unit: `10 minutes`, `1 hour`.
///
/// ```
/// assert_eq!(tollgate_simulate::text::span(600), "10 minutes");
/// ```
pub fn span(secs: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (604_800, "week"),
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let whole = |(unit, _): &&(u64, &str)| secs >= *unit && secs.is_multiple_of(*unit);
    let (unit, name) = UNITS.iter().find(whole).unwrap_or(&(1, "second"));
    match secs / unit {
        1 => format!("1 {name}"),
        count => format!("{count} {name}s"),
    }
}

/// A time from [`utc`], to the minute: `2026-10-10 20:55`.
///
/// ```
/// assert_eq!(tollgate_simulate::text::minute("2026-10-10T20:55:36Z"), "2026-10-10 20:55");
/// ```
pub fn minute(utc: &str) -> String {
    utc.get(..16).unwrap_or(utc).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn spans_are_in_whole_units() {
        for (secs, text) in [
            (1, "1 second"),
            (2, "2 seconds"),
            (60, "1 minute"),
            (90, "90 seconds"),
            (7_200, "2 hours"),
            (86_400, "1 day"),
            (1_209_600, "2 weeks"),
        ] {
            assert_eq!(span(secs), text);
        }
    }

    #[test]
    fn small_shares_are_not_shown_as_zero() {
        for (part, whole, text) in [
            (999_999, 1_000_000, "99.9%"),
            (5, 5, "100%"),
            (1, 3, "33.3%"),
            (0, 9, "0%"),
            (1, 1_001, "<0.1%"),
        ] {
            assert_eq!(share(part, whole), text);
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(utc(Micros::from_secs(secs)), text);
        }
    }
}
