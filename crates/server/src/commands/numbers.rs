//! Limits and times in words.

use tollgate::algorithm::WindowStart;
use tollgate::{Calendar, LeakyMode, Micros, Quota};

/// What a limit allows, in a few words.
pub(super) fn quota(quota: &Quota) -> String {
    let limit = quota.limit();
    let numbers = match quota {
        Quota::FixedWindow(window) => match window.start() {
            WindowStart::FirstHit(length) => {
                format!("{limit} per {length} from the first request on")
            }
            WindowStart::Clock(unit) => format!("{limit} per {} (UTC)", calendar(unit)),
        },
        Quota::SlidingWindow(window) => format!("{limit} per {}", window.window()),
        Quota::SlidingLog(window) => format!("{limit} per {}", window.window()),
        Quota::TokenBucket(bucket) => format!("{limit} at once, {} back", rate(bucket.refill())),
        Quota::LeakyBucket(bucket) if bucket.mode() == LeakyMode::Queue => {
            format!("{limit} waiting, {} let through", rate(bucket.leak()))
        }
        Quota::LeakyBucket(bucket) => {
            format!("{limit} in the bucket, {} leak out", rate(bucket.leak()))
        }
        Quota::Concurrency(places) => {
            format!("{limit} in flight, leases of {}", places.permit_timeout())
        }
    };
    format!("{numbers}, {}", quota.algorithm())
}

const fn calendar(unit: Calendar) -> &'static str {
    match unit {
        Calendar::Second => "second",
        Calendar::Minute => "minute",
        Calendar::Hour => "hour",
        Calendar::Day => "day",
        Calendar::Month => "month",
    }
}

/// A rate in lowest terms as people say it: 1 every 100 ms is 10 per second.
fn rate((amount, micros): (u64, u64)) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1_000_000, "second"),
        (60_000_000, "minute"),
        (3_600_000_000, "hour"),
        (86_400_000_000, "day"),
    ];
    let whole = UNITS
        .iter()
        .find(|(unit, _)| micros > 0 && unit.is_multiple_of(micros));
    let said = whole.and_then(|(unit, name)| {
        Some(format!("{} per {name}", amount.checked_mul(unit / micros)?))
    });
    said.unwrap_or_else(|| format!("{amount} per {}", Micros::new(micros)))
}

/// A length of time in its two largest units, rounded up: whoever waits so long has waited long
/// enough.
pub(super) fn length(millis: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let first = UNITS
        .iter()
        .position(|(unit, _)| millis >= *unit)
        .unwrap_or(UNITS.len() - 1);
    let finest = UNITS[(first + 1).min(UNITS.len() - 1)].0;
    let mut left = millis.div_ceil(finest).saturating_mul(finest);
    let mut said = Vec::new();
    // Rounding up may have filled a larger unit.
    for (unit, name) in UNITS {
        if left >= unit && said.len() < 2 {
            said.push(format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{Limit, Rate};

    use super::*;

    #[test]
    fn times_are_rounded_up_to_two_units() {
        for (millis, said) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_001, "2s"),
            (59_001, "1m"),
            (61_000, "1m 1s"),
            (3_600_000, "1h"),
            (3_599_999, "1h"),
            (3_660_001, "1h 2m"),
            (86_400_000 + 3_600_000, "1d 1h"),
        ] {
            assert_eq!(length(millis), said, "{millis}");
        }
        assert!(length(u64::MAX).contains('d'));
    }

    #[test]
    fn limits_are_said_as_people_say_them() {
        let said = |limit: Limit| quota(limit.rule().unwrap().quota());
        let minute = Duration::from_secs(60);
        assert_eq!(
            said(Limit::sliding_window("a", 600, minute)),
            "600 per 1m, sliding_window"
        );
        assert_eq!(
            said(Limit::calendar_window("a", 7, Calendar::Month)),
            "7 per month (UTC), fixed_window"
        );
        assert_eq!(
            said(Limit::token_bucket("a", 5, Rate::per_minute(6))),
            "5 at once, 6 per minute back, token_bucket"
        );
        assert_eq!(
            said(Limit::queue("a", 50, Rate::per_second(20))),
            "50 waiting, 20 per second let through, leaky_bucket"
        );
        assert_eq!(
            said(Limit::leaky_bucket(
                "a",
                50,
                Rate::new(1, Duration::from_secs(7))
            )),
            "50 in the bucket, 1 per 7s leak out, leaky_bucket"
        );
        assert_eq!(
            said(Limit::concurrency("a", 20, minute)),
            "20 in flight, leases of 1m, concurrency"
        );
    }
}
