//! Formats numbers and times, the same way for the terminal and the HTML page.

use tollgate::Micros;

const DAY: u64 = 86_400;

/// An integer in groups of three digits.
///
/// ```
/// assert_eq!(tollgate_simulate::text::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
    match (part, whole) {
        (0, _) | (_, 0) => "0%".to_owned(),
        _ if part == whole => "100%".to_owned(),
        _ => {
            let permille = u128::from(part) * 1_000 / u128::from(whole);
            match permille {
                0 => "<0.1%".to_owned(),
                _ => format!("{}.{}%", permille / 10, permille % 10),
            }
        }
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
    let (date, clock) = date_and_clock(time);
    format!("{date}T{clock}Z")
}

/// The date and the time of day, both in UTC.
pub fn date_and_clock(time: Micros) -> (String, String) {
    let secs = time.get() / 1_000_000;
    let (day, of_day) = (secs / DAY, secs % DAY);
    let (year, month, day) = civil(day);

    let date = format!("{year:04}-{month:02}-{day:02}");
    (
        date,
        format!(
            "{:02}:{:02}:{:02}",
            of_day / 3_600,
            of_day / 60 % 60,
            of_day % 60
        ),
    )
}

/// Year, month and day of a number of days since 1970. Years start in March here, so that the leap
/// day is the last day of a year.
const fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);

    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (
        year + era * 400 + if month <= 2 { 1 } else { 0 },
        month,
        day,
    )
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
