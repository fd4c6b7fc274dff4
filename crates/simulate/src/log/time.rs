//! Moments as logs write them, each with its own zone: `10/Oct/2026:13:55:36 -0700`, RFC 3339, and
//! seconds since 1970.

use std::cell::Cell;

use tollgate::Micros;

/// The length of a moment in the common format.
const COMMON_LEN: usize = 26;
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const SECOND: u64 = 1_000_000;
const DAY_SECS: i64 = 86_400;

/// Reads moments of the common format. Thousands of lines of a busy log have the same one, so the
/// last is remembered.
#[derive(Clone, Debug)]
pub(super) struct CommonTimes {
    last: Cell<[u8; COMMON_LEN]>,
    time: Cell<Micros>,
}

impl Default for CommonTimes {
    fn default() -> Self {
        Self {
            last: Cell::new([0; COMMON_LEN]),
            time: Cell::default(),
        }
    }
}

impl CommonTimes {
    #[inline]
    pub(super) fn read(&self, text: &[u8]) -> Option<Micros> {
        let text: &[u8; COMMON_LEN] = text.try_into().ok()?;
        if *text != self.last.get() {
            self.time.set(common(text)?);
            self.last.set(*text);
        }
        Some(self.time.get())
    }
}

/// `10/Oct/2026:13:55:36 -0700`.
fn common(text: &[u8; COMMON_LEN]) -> Option<Micros> {
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
    let date = Date {
        year: number(&text[7..11])?,
        month: 1 + i64::try_from(month).ok()?,
        day: number(&text[..2])?,
    };
    let clock = Clock {
        hour: number(&text[12..14])?,
        minute: number(&text[15..17])?,
        second: number(&text[18..20])?,
    };
    moment(&date, &clock, zone(rest)?, 0)
}

/// `2026-10-10T13:55:36.789-07:00`, with a blank instead of the T, and in UTC where no zone is
/// given.
pub(super) fn rfc3339(text: &[u8]) -> Option<Micros> {
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
    let date = Date {
        year: part(0, 4)?,
        month: part(5, 7)?,
        day: part(8, 10)?,
    };
    let clock = Clock {
        hour: part(11, 13)?,
        minute: part(14, 16)?,
        second: part(17, 19)?,
    };
    let (micros, rest) = match rest {
        [b'.' | b',', rest @ ..] => fraction(rest)?,
        _ => (0, rest),
    };
    moment(&date, &clock, zone(rest)?, micros)
}

/// Seconds since 1970 with or without a fraction; or milli-, micro- or nanoseconds, which their
/// size tells apart: as seconds they would be thousands of years away.
pub(super) fn since_1970(text: &[u8]) -> Option<Micros> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=19).contains(&digits) {
        return None;
    }
    let whole = text[..digits]
        .iter()
        .fold(0_u64, |sum, byte| sum * 10 + u64::from(byte - b'0'));
    let (micros, rest) = match &text[digits..] {
        [b'.', rest @ ..] => fraction(rest)?,
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

/// Any of the forms there are.
pub(super) fn any(text: &str) -> Option<Micros> {
    let text = text.trim().as_bytes();
    let bare = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"))
        .unwrap_or(text);
    let as_common = || bare.try_into().ok().and_then(common);
    rfc3339(bare)
        .or_else(as_common)
        .or_else(|| since_1970(bare))
}

struct Date {
    year: i64,
    month: i64,
    day: i64,
}

struct Clock {
    hour: i64,
    minute: i64,
    second: i64,
}

/// The moment, if there is one. A leap second is the first second after it.
fn moment(date: &Date, clock: &Clock, offset_secs: i64, micros: u64) -> Option<Micros> {
    let is_date = (1..=12).contains(&date.month) && (1..=month_days(date)).contains(&date.day);
    let is_clock = clock.hour < 24 && clock.minute < 60 && clock.second <= 60;
    if !(is_date && is_clock) {
        return None;
    }
    let of_day = clock.hour * 3_600 + clock.minute * 60 + clock.second;
    let secs = days_since_1970(date) * DAY_SECS + of_day - offset_secs;
    in_range(u64::try_from(secs).ok()? * SECOND + micros)
}

/// Moments that the arithmetic of limits holds, with room to go on.
fn in_range(micros: u64) -> Option<Micros> {
    (micros < Micros::MAX.get() / 2).then(|| Micros::new(micros))
}

fn month_days(date: &Date) -> i64 {
    let is_leap = date.year % 4 == 0 && (date.year % 100 != 0 || date.year % 400 == 0);
    match date.month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years are counted from March, so that the day that leap years add is the last.
fn days_since_1970(date: &Date) -> i64 {
    let year = if date.month > 2 {
        date.year
    } else {
        date.year - 1
    };
    let month = (date.month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + date.day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// Nothing and `Z` are UTC; else `+hh:mm`, `+hhmm` or `+hh`.
fn zone(text: &[u8]) -> Option<i64> {
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

/// What follows the point as microseconds, and what follows that.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
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
        any(text).map(|time| time.get() / SECOND)
    }

    #[test]
    fn every_form_of_a_moment_is_the_same_moment() {
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
            any("2026-10-10T20:55:36.1234567Z"),
            Some(Micros::new(1_791_665_736_123_456))
        );
        assert_eq!(
            any("1791665736.25"),
            Some(Micros::new(1_791_665_736_250_000))
        );
        assert_eq!(
            any("1791665736123.5"),
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
    fn what_is_no_moment_is_none() {
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
            assert_eq!(any(text), None, "{text}");
        }
    }

    #[test]
    fn the_moment_before_is_remembered_and_not_confused() {
        let times = CommonTimes::default();
        let first = times.read(b"10/Oct/2026:13:55:36 -0700");
        assert_eq!(first, times.read(b"10/Oct/2026:13:55:36 -0700"));
        assert_eq!(
            times
                .read(b"10/Oct/2026:13:55:37 -0700")
                .unwrap()
                .since(first.unwrap()),
            Micros::from_secs(1)
        );
        assert_eq!(times.read(b"10/Oct/2026:13:55:3"), None);
        assert_eq!(
            times.read(&[0; COMMON_LEN]),
            None,
            "what nothing is remembered as is no moment"
        );
    }
}
