//! The limits for quotas that come with a request.

use std::time::Duration;

use tollgate::{Calendar, Limit, Rate, Rule};
use tollgate_rules::Config;

/// Names of the limits for quotas that come with a request, as Envoy's descriptors may carry them:
/// one for each unit of time, and one for all multiples of a unit; and as `CL.THROTTLE` carries them.
pub const OVERRIDES: [&str; 9] = [
    "override:second",
    "override:minute",
    "override:hour",
    "override:day",
    "override:week",
    "override:month",
    "override:year",
    "override:multiple",
    "override:cl.throttle",
];
/// The index of the limit for `CL.THROTTLE` in [`OVERRIDES`].
pub const THROTTLE: usize = 8;

/// The limits of [`OVERRIDES`]. Requests bring their own quotas; the ones given here only fix the
/// kind of window.
pub(super) fn override_rules(config: &Config) -> Vec<Rule> {
    let days = |days: u64| Duration::from_secs(days * 86_400);
    let [
        second,
        minute,
        hour,
        day,
        week,
        month,
        year,
        multiple,
        throttle,
    ] = OVERRIDES;
    let limits = [
        Limit::calendar_window(second, 1, Calendar::Second),
        Limit::calendar_window(minute, 1, Calendar::Minute),
        Limit::calendar_window(hour, 1, Calendar::Hour),
        Limit::calendar_window(day, 1, Calendar::Day),
        Limit::fixed_window(week, 1, days(7)),
        Limit::calendar_window(month, 1, Calendar::Month),
        Limit::fixed_window(year, 1, days(366)),
        // Only a token bucket works for any length of time.
        Limit::token_bucket(multiple, 1, Rate::per_second(1)),
        Limit::token_bucket(throttle, 1, Rate::per_second(1))
            .on_store_failure(config.on_store_failure),
    ];

    let first = u32::try_from(config.limits.len()).unwrap_or(u32::MAX);
    let positioned = limits.into_iter().zip(first..);
    positioned
        .map(|(limit, position)| {
            let rule = limit.validate().expect("the limits of overrides are valid");
            rule.with_replicas(config.expected_replicas)
                .with_position(position)
        })
        .collect()
}
