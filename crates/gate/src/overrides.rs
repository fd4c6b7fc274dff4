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
/// The units of time in the order of [`OVERRIDES`]: the longest length in seconds, and the windows
/// of the calendar. Without one, windows start with the first request.
pub const OVERRIDE_UNITS: [(u64, Option<Calendar>); 7] = [
    (1, Some(Calendar::Second)),
    (60, Some(Calendar::Minute)),
    (3_600, Some(Calendar::Hour)),
    (DAY_SECS, Some(Calendar::Day)),
    (7 * DAY_SECS, None),
    (31 * DAY_SECS, Some(Calendar::Month)),
    (366 * DAY_SECS, None),
];
/// The index of the limit for multiples of a unit in [`OVERRIDES`].
pub const MULTIPLE: usize = 7;
/// The index of the limit for `CL.THROTTLE` in [`OVERRIDES`].
pub const THROTTLE: usize = 8;

const DAY_SECS: u64 = 86_400;

/// The limits of [`OVERRIDES`]. Requests bring their own quotas; the ones given here only fix the
/// kind of window.
pub(super) fn override_rules(config: &Config) -> Vec<Rule> {
    let windows = OVERRIDES.into_iter().zip(OVERRIDE_UNITS);
    let windows = windows.map(|(name, (secs, calendar))| match calendar {
        Some(unit) => Limit::calendar_window(name, 1, unit),
        None => Limit::fixed_window(name, 1, Duration::from_secs(secs)),
    });
    // Only a token bucket works for any length of time.
    let bucket = |index: usize| Limit::token_bucket(OVERRIDES[index], 1, Rate::per_second(1));
    let throttle = bucket(THROTTLE).on_store_failure(config.on_store_failure);

    let first = u32::try_from(config.limits.len()).unwrap_or(u32::MAX);
    let limits = windows.chain([bucket(MULTIPLE), throttle]);
    let positioned = limits.zip(first..);
    positioned
        .map(|(limit, position)| {
            let rule = limit.validate().expect("the limits of overrides are valid");
            rule.with_replicas(config.expected_replicas)
                .with_position(position)
        })
        .collect()
}
