//! Parses the values of the options: rates, durations, keys, costs and bounds.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use tollgate::Micros;
use tollgate_audit::Bound;
use tollgate_load::{Allowance, CostRange};

/// More than one core can send.
const RATE_MAX: f64 = 1_000_000.0;
const DURATION_MAX: Duration = Duration::from_secs(30 * 86_400);
/// The maximum cost and limit of a Tollgate limit.
const UNITS_MAX: u64 = 1 << 53;

/// The value of `--keys`. The key file is not read yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum KeysArg {
    One,
    Uniform(NonZeroU32),
    Zipf(NonZeroU32, f64),
    File(PathBuf),
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate = text.replace('_', "").parse::<f64>().ok();
    let valid = rate.filter(|rate| *rate > 0.0 && *rate <= RATE_MAX);
    valid.ok_or_else(|| {
        "expected requests per second, above 0 and at most 1000000, such as 500 or 0.5".to_owned()
    })
}

/// Parses a percentage as a share from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse().ok());
    let valid = percent.filter(|percent| (0.0..=100.0).contains(percent));
    let share = valid.map(|percent: f64| percent / 100.0);
    share.ok_or_else(|| "expected a percentage from 0% to 100%, such as 0.5%".to_owned())
}

/// Parses a duration, which may be zero.
pub(super) fn length(text: &str) -> Result<Duration, String> {
    let length = tollgate_rules::config::parse_duration(text)?;
    if length > DURATION_MAX {
        Err("must be at most 30d".to_owned())
    } else {
        Ok(length)
    }
}

/// Parses a duration, which must not be zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    length(text).and_then(|length| {
        if length.is_zero() {
            Err("must be more than 0, such as 10s".to_owned())
        } else {
            Ok(length)
        }
    })
}

pub(super) fn keys(text: &str) -> Result<KeysArg, String> {
    const EXPECTED: &str =
        "expected one, uniform:N, zipf:N, zipf:N:S or file:PATH, such as zipf:10000:1.1";
    let count = |text: &str| {
        let count = text.replace('_', "").parse().ok();
        count.ok_or_else(|| {
            "the number of keys must be an integer between 1 and 4294967295".to_owned()
        })
    };

    match text.split_once(':') {
        None if text == "one" => Ok(KeysArg::One),
        Some(("uniform", number)) => count(number).map(KeysArg::Uniform),
        Some(("zipf", numbers)) => {
            let (number, exponent) = numbers.split_once(':').unwrap_or((numbers, "1"));
            let exponent = exponent
                .parse()
                .map_err(|_| "the zipf exponent must be a number, such as 1.1".to_owned())?;
            Ok(KeysArg::Zipf(count(number)?, exponent))
        }
        Some(("file", path)) if !path.is_empty() => Ok(KeysArg::File(path.into())),
        _ => Err(EXPECTED.to_owned()),
    }
}

pub(super) fn costs(text: &str) -> Result<CostRange, String> {
    const EXPECTED: &str = "expected an integer up to 9007199254740992 (2^53), such as 3, \
                            or a range, such as 1-5";
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        text.parse::<u64>()
            .ok()
            .filter(|cost| *cost <= UNITS_MAX)
            .ok_or(EXPECTED)
    };

    CostRange::new(number(min)?, number(max)?)
        .ok_or_else(|| "the first cost of a range must not be greater than the second".to_owned())
}

/// Parses `[NAME=]120/1m` or `[NAME=]100+10/s`.
pub(super) fn allowance(text: &str) -> Result<Allowance, String> {
    const EXPECTED: &str = "expected [NAME=]120/1m for 120 in any minute, \
                            or [NAME=]100+10/s for a burst of 100 plus 10 per second";
    let (name, numbers) = match text.split_once('=') {
        Some((name, numbers)) => (Some(name.to_owned()), numbers),
        None => (None, text),
    };
    let (amount, period) = numbers.split_once('/').ok_or(EXPECTED)?;

    // `10/s` is short for `10/1s`.
    let period = tollgate_rules::config::parse_duration(period)
        .or_else(|_| tollgate_rules::config::parse_duration(&format!("1{period}")));
    let period = period
        .ok()
        .and_then(Micros::from_duration_ceil)
        .filter(|period| period.get() > 0)
        .ok_or(EXPECTED)?;

    let units = |text: &str| {
        text.parse::<u64>()
            .ok()
            .filter(|units| (1..=UNITS_MAX).contains(units))
            .ok_or(EXPECTED)
    };
    let bound = match amount.split_once('+') {
        None => Bound::PerWindow {
            limit: units(amount)?,
            window: period,
        },
        Some((burst, per)) => Bound::Rate {
            burst: units(burst)?,
            per: units(per)?,
            period_micros: period.get(),
        },
    };
    Ok(Allowance { limit: name, bound })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages() {
        assert_eq!(
            ["0%", "0.5%", "100%"].map(share),
            [Ok(0.0), Ok(0.005), Ok(1.0)]
        );
        for wrong in ["", "%", "1", "-1%", "101%", "NaN%", "1 %"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_are_positive() {
        assert_eq!(rate("1_000"), Ok(1_000.0));
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "1e9", "fast", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_named_by_their_distribution() {
        let count = |count| NonZeroU32::new(count).unwrap();
        assert_eq!(keys("one"), Ok(KeysArg::One));
        assert_eq!(keys("uniform:1_000"), Ok(KeysArg::Uniform(count(1_000))));
        assert_eq!(keys("zipf:9"), Ok(KeysArg::Zipf(count(9), 1.0)));
        assert_eq!(keys("zipf:9:1.5"), Ok(KeysArg::Zipf(count(9), 1.5)));
        assert_eq!(keys("file:a:b"), Ok(KeysArg::File("a:b".into())));
        for wrong in [
            "",
            "two",
            "one:1",
            "uniform",
            "uniform:0",
            "uniform:-1",
            "zipf:",
            "zipf:9:x",
            "file:",
        ] {
            assert!(keys(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn costs_are_a_number_or_a_range() {
        assert_eq!(costs("3"), Ok(CostRange::new(3, 3).unwrap()));
        assert_eq!(costs("1-5"), Ok(CostRange::new(1, 5).unwrap()));
        for wrong in ["", "-", "5-1", "x", "1-", "99999999999999999"] {
            assert!(costs(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn allowances_are_windows_or_buckets() {
        let minute = Bound::PerWindow {
            limit: 120,
            window: Micros::from_secs(60),
        };
        assert_eq!(
            allowance("120/1m"),
            Ok(Allowance {
                limit: None,
                bound: minute
            })
        );
        let bucket = Bound::Rate {
            burst: 100,
            per: 10,
            period_micros: 1_000_000,
        };
        assert_eq!(
            allowance("api=100+10/s"),
            Ok(Allowance {
                limit: Some("api".to_owned()),
                bound: bucket
            })
        );
        for wrong in ["", "120", "0/1m", "120/0s", "120/x", "+1/s", "1+/s", "api="] {
            assert!(allowance(wrong).is_err(), "{wrong}");
        }
    }
}
