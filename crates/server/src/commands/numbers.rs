//! Numbers, quotas and durations as text.

use tollgate::algorithm::WindowStart;
use tollgate::{LeakyMode, Micros, Quota};
pub(super) use tollgate_simulate::text::{grouped, share};

/// A number with its noun, such as `1 request` or `2 requests`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count))
}

/// A quota in one line, with its algorithm.
pub(super) fn quota(quota: &Quota) -> String {
    let limit = quota.limit();
    let text = match quota {
        Quota::FixedWindow(window) => match window.start() {
            WindowStart::FirstHit(length) => {
                format!("{limit} per {length} from the first request")
            }
            WindowStart::Clock(unit) => format!("{limit} per {} (UTC)", unit.as_str()),
        },
        Quota::SlidingWindow(_) | Quota::SlidingLog(_) => {
            format!("{limit} per {}", quota.window().unwrap_or_default())
        }
        Quota::TokenBucket(bucket) => format!("capacity {limit}, refill {}", rate(bucket.refill())),
        Quota::LeakyBucket(bucket) => {
            let leak = rate(bucket.leak());
            match bucket.mode() {
                LeakyMode::Queue => format!("queue of {limit}, leak {leak}"),
                LeakyMode::Meter => format!("capacity {limit}, leak {leak}"),
            }
        }
        Quota::Concurrency(concurrency) => {
            let timeout = concurrency.permit_timeout();
            format!("{limit} in flight, permit timeout {timeout}")
        }
    };

    format!("{text}, {}", quota.algorithm())
}

/// A rate per second, minute, hour or day if it is a whole number: 1 every 100 ms is 10 per second.
fn rate((units, micros): (u64, u64)) -> String {
    const UNITS: [(u64, &str); 4] = [
        (1_000_000, "second"),
        (60_000_000, "minute"),
        (3_600_000_000, "hour"),
        (86_400_000_000, "day"),
    ];

    let mut units_of_time = UNITS.iter();
    let whole = units_of_time.find(|(unit, _)| micros > 0 && unit.is_multiple_of(micros));
    whole
        .and_then(|(unit, name)| Some(format!("{} per {name}", units.checked_mul(unit / micros)?)))
        .unwrap_or_else(|| format!("{units} per {}", Micros::new(micros)))
}

/// A duration in its two largest units, rounded up: a client that waits this long has waited long
/// enough.
pub(super) fn length(millis: u64) -> String {
    const UNITS: [(u64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let Some(first) = UNITS.iter().position(|(unit, _)| millis >= *unit) else {
        return format!("{millis}ms");
    };

    let (finest, _) = UNITS[(first + 1).min(UNITS.len() - 1)];
    let mut left = millis.div_ceil(finest).saturating_mul(finest);

    let mut parts = Vec::new();
    // Start at the largest unit again: rounding up may have filled it.
    for (unit, name) in UNITS {
        if left >= unit && parts.len() < 2 {
            parts.push(format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::{Calendar, Limit, Rate};

    use super::*;

    #[test]
    fn times_are_rounded_up_to_two_units() {
        for (millis, expected) in [
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
            assert_eq!(length(millis), expected, "{millis}");
        }
        assert!(length(u64::MAX).contains('d'));
    }

    #[test]
    fn quotas_are_described_in_one_line() {
        let text = |limit: Limit| quota(limit.validate().unwrap().quota());
        let minute = Duration::from_secs(60);

        assert_eq!(
            text(Limit::sliding_window("a", 600, minute)),
            "600 per 1m, sliding_window"
        );
        assert_eq!(
            text(Limit::calendar_window("a", 7, Calendar::Month)),
            "7 per month (UTC), fixed_window"
        );
        assert_eq!(
            text(Limit::token_bucket("a", 5, Rate::per_minute(6))),
            "capacity 5, refill 6 per minute, token_bucket"
        );
        assert_eq!(
            text(Limit::queue("a", 50, Rate::per_second(20))),
            "queue of 50, leak 20 per second, leaky_bucket"
        );
        assert_eq!(
            text(Limit::leaky_bucket(
                "a",
                50,
                Rate::new(1, Duration::from_secs(7))
            )),
            "capacity 50, leak 1 per 7s, leaky_bucket"
        );
        assert_eq!(
            text(Limit::concurrency("a", 20, minute)),
            "20 in flight, permit timeout 1m, concurrency"
        );
    }
}
