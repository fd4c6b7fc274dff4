//! Parses the time formats of logs: `10/Oct/2026:13:55:36 -0700`, RFC 3339 and Unix time.

use std::cell::Cell;

use tollgate::Micros;

/// The length of a time in the common log format.
const COMMON_LEN: usize = 26;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const SECOND: u64 = 1_000_000;
const DAY_SECS: i64 = 86_400;

/// Parses times of the common log format. In a busy log, thousands of lines have the same time, so
/// the last one is cached.
#[derive(Clone, Debug)]
pub(super) struct ClfTimeParser {
    last: Cell<[u8; COMMON_LEN]>,
    time: Cell<Micros>,
}

impl Default for ClfTimeParser {
    fn default() -> Self {
        Self {
            last: Cell::new([0; COMMON_LEN]),
            time: Cell::default(),
        }
    }
}

impl ClfTimeParser {
    #[inline]
    pub(super) fn parse(&self, text: &[u8]) -> Option<Micros> {
        let text: &[u8; COMMON_LEN] = text.try_into().ok()?;
        if *text != self.last.get() {
            self.time.set(parse_clf(text)?);
            self.last.set(*text);
        }
        Some(self.time.get())
    }
}

/// Parses `10/Oct/2026:13:55:36 -0700`.
fn parse_clf(text: &[u8; COMMON_LEN]) -> Option<Micros> {
    let [
        _,
        _,
        b'/',
        _,
        _,
        _,
        b'/',
        _,
        _,
        _,
        _,
        b':',
        _,
        _,
        b':',
        _,
        _,
        b':',
        _,
        _,
        b' ',
        rest @ ..,
    ] = text
    else {
        return None;
    };

    let month = MONTHS
        .iter()
        .position(|month| month.eq_ignore_ascii_case(&text[3..6]))?;
    let date = CivilDate {
        year: number(&text[7..11])?,
        month: 1 + i64::try_from(month).ok()?,
        day: number(&text[..2])?,
    };
    let clock = TimeOfDay {
        hour: number(&text[12..14])?,
        minute: number(&text[15..17])?,
        second: number(&text[18..20])?,
    };
    to_micros(&date, &clock, parse_zone(rest)?, 0)
}

/// Parses `2026-10-10T13:55:36.789-07:00`. A space may replace the T, and the zone defaults to UTC.
pub(super) fn parse_rfc3339(text: &[u8]) -> Option<Micros> {
    let (date_and_clock, rest) = text.split_at_checked(19)?;
    let [
        _,
        _,
        _,
        _,
        b'-',
        _,
        _,
        b'-',
        _,
        _,
        b'T' | b't' | b' ',
        _,
        _,
        b':',
        _,
        _,
        b':',
        _,
        _,
    ] = date_and_clock
    else {
        return None;
    };

    let part = |from: usize, to: usize| number(&date_and_clock[from..to]);
    let date = CivilDate {
        year: part(0, 4)?,
        month: part(5, 7)?,
        day: part(8, 10)?,
    };
    let clock = TimeOfDay {
        hour: part(11, 13)?,
        minute: part(14, 16)?,
        second: part(17, 19)?,
    };
    let (micros, rest) = match rest {
        [b'.' | b',', rest @ ..] => parse_fraction(rest)?,
        _ => (0, rest),
    };
    to_micros(&date, &clock, parse_zone(rest)?, micros)
}

/// Parses a Unix time in seconds, with or without a fraction, or in milli-, micro- or nanoseconds.
/// The unit follows from the size of the number, as seconds would be thousands of years away.
pub(super) fn parse_unix_time(text: &[u8]) -> Option<Micros> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=19).contains(&digits) {
        return None;
    }

    let whole = text[..digits]
        .iter()
        .fold(0_u64, |sum, byte| sum * 10 + u64::from(byte - b'0'));
    let (micros, rest) = match &text[digits..] {
        [b'.', rest @ ..] => parse_fraction(rest)?,
        rest => (0, rest),
    };
    if !rest.is_empty() {
        return None;
    }

    let time = match whole {
        0..100_000_000_000 => whole * SECOND + micros,
        100_000_000_000..100_000_000_000_000 => whole * 1_000 + micros / 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => whole,
        _ => whole / 1_000,
    };
    in_range(time)
}

/// Parses a time in any of these formats.
pub(super) fn parse_any(text: &str) -> Option<Micros> {
    let text = text.trim().as_bytes();
    let bare = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"))
        .unwrap_or(text);
    let as_clf = || bare.try_into().ok().and_then(parse_clf);
    parse_rfc3339(bare)
        .or_else(as_clf)
        .or_else(|| parse_unix_time(bare))
}

struct CivilDate {
    year: i64,
    month: i64,
    day: i64,
}

struct TimeOfDay {
    hour: i64,
    minute: i64,
    second: i64,
}

/// The time, or `None` if the date or the time of day does not exist. A leap second becomes the
/// second after it.
fn to_micros(date: &CivilDate, clock: &TimeOfDay, offset_secs: i64, micros: u64) -> Option<Micros> {
    let is_date = (1..=12).contains(&date.month) && (1..=month_days(date)).contains(&date.day);
    let is_clock = clock.hour < 24 && clock.minute < 60 && clock.second <= 60;
    if !(is_date && is_clock) {
        return None;
    }

    let of_day = clock.hour * 3_600 + clock.minute * 60 + clock.second;
    let secs = days_since_1970(date) * DAY_SECS + of_day - offset_secs;
    in_range(u64::try_from(secs).ok()? * SECOND + micros)
}

/// `None` for times too large for the arithmetic of limits.
fn in_range(micros: u64) -> Option<Micros> {
    (micros < Micros::MAX.get() / 2).then(|| Micros::new(micros))
}

fn month_days(date: &CivilDate) -> i64 {
    let is_leap = date.year % 4 == 0 && (date.year % 100 != 0 || date.year % 400 == 0);
    match date.month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years start in March here, so that the leap day is the last day of a year.
fn days_since_1970(date: &CivilDate) -> i64 {
    let year = if date.month > 2 {
        date.year
    } else {
        date.year - 1
    };
    let month = (date.month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + date.day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// Parses `+hh:mm`, `+hhmm` or `+hh` into seconds. An empty text and `Z` are UTC.
fn parse_zone(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };

    let (hours, minutes) = match digits {
        [a, b] => (number(&[*a, *b])?, 0),
        [a, b, c, d] | [a, b, b':', c, d] => (number(&[*a, *b])?, number(&[*c, *d])?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Parses the digits after the decimal point into microseconds, and returns the rest.
fn parse_fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (shown, rest) = text.split_at(digits);
    let micros = (0..6).fold(0, |sum, at| {
        sum * 10 + u64::from(shown.get(at).map_or(0, |byte| byte - b'0'))
    });
    (digits > 0).then_some((micros, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, byte| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + i64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(text: &str) -> Option<u64> {
        parse_any(text).map(|time| time.get() / SECOND)
    }

    #[test]
    fn every_format_gives_the_same_time() {
        for text in [
            "10/Oct/2026:13:55:36 -0700",
            "[10/Oct/2026:20:55:36 +0000]",
            "2026-10-10T20:55:36Z",
            "2026-10-10 20:55:36",
            "2026-10-10T13:55:36-07:00",
            "2026-10-11T02:25:36.000+0530",
            "1791665736",
            "1791665736.0",
            "1791665736000",
            "1791665736000000",
            "1791665736000000000",
        ] {
            assert_eq!(secs(text), Some(1_791_665_736), "{text}");
        }
    }

    #[test]
    fn fractions_are_kept_to_the_microsecond() {
        assert_eq!(
            parse_any("2026-10-10T20:55:36.1234567Z"),
            Some(Micros::new(1_791_665_736_123_456))
        );
        assert_eq!(
            parse_any("1791665736.25"),
            Some(Micros::new(1_791_665_736_250_000))
        );
        assert_eq!(
            parse_any("1791665736123.5"),
            Some(Micros::new(1_791_665_736_123_500))
        );
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(secs("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(secs("29/Feb/2000:00:00:00 +0000"), Some(951_782_400));
        assert_eq!(secs("2100-03-01T00:00:00Z"), Some(4_107_542_400));
        assert_eq!(secs("2016-12-31T23:59:60Z"), secs("2017-01-01T00:00:00Z"));
    }

    #[test]
    fn invalid_times_are_rejected() {
        for text in [
            "",
            "-",
            "yesterday",
            "29/Feb/2026:00:00:00 +0000",
            "31/Apr/2026:00:00:00 +0000",
            "00/Jan/2026:00:00:00 +0000",
            "10/Okt/2026:13:55:36 -0700",
            "10/Oct/2026:24:00:00 +0000",
            "10/Oct/2026:13:60:36 -0700",
            "10/Oct/2026:13:55:36 0700",
            "10/Oct/2026:13:55:36 +9900",
            "31/Dec/1969:00:00:00 +0000",
            "2026-13-01T00:00:00Z",
            "2026-10-10",
            "2026-10-10T20:55:36.Z",
            "2026-10-10T20:55:36+1",
            "17916657x",
            "99999999999999999999",
            "1791665736.",
            "9999-12-31T00:00:00Z",
        ] {
            assert_eq!(parse_any(text), None, "{text}");
        }
    }

    #[test]
    fn the_cached_time_is_not_used_for_another() {
        let times = ClfTimeParser::default();
        let first = times.parse(b"10/Oct/2026:13:55:36 -0700");
        assert_eq!(first, times.parse(b"10/Oct/2026:13:55:36 -0700"));
        assert_eq!(
            times
                .parse(b"10/Oct/2026:13:55:37 -0700")
                .unwrap()
                .since(first.unwrap()),
            Micros::from_secs(1)
        );
        assert_eq!(times.parse(b"10/Oct/2026:13:55:3"), None);
        assert_eq!(
            times.parse(&[0; COMMON_LEN]),
            None,
            "the initial cache content is not a valid time"
        );
    }
}
