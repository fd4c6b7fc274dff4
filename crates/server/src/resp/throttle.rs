//! `CL.THROTTLE` and `RL.THROTTLE`: a token bucket whose numbers come with the call, as in
//! redis-cell. Its capacity is `max_burst + 1`, and it refills by `count` every `period` seconds.
//!
//! A key has one counter, whatever numbers it is called with: what it has used carries over.

use std::time::Duration;

use tollgate::{Demand, EncodedKey, LimitError, Rate, TokenBucket};
use tollgate_gate::{ActiveConfig, THROTTLE};

use super::error::RespError;
use super::integer::integer;

pub(super) const USAGE: &str = "CL.THROTTLE key max_burst count period_s [quantity]";

/// The largest capacity of a bucket.
const CAPACITY_MAX: u64 = 1 << 53;
/// The longest time in which a bucket refills: a hundred years.
const PERIOD_S_MAX: u64 = 100 * 366 * 86_400;
/// The longest period of a rate.
const RATE_PERIOD_S_MAX: u64 = 30 * 86_400;
/// The largest cost that a store takes.
const QUANTITY_MAX: u64 = 1 << 53;

/// What a call asks of the counter of its key.
pub(super) fn select<'r>(
    active: &'r ActiveConfig,
    arguments: &[&[u8]],
) -> Result<Demand<'r, EncodedKey>, RespError> {
    let (key, max_burst, count, period, quantity) = match arguments {
        [key, max_burst, count, period] => (key, max_burst, count, period, None),
        [key, max_burst, count, period, quantity] => {
            (key, max_burst, count, period, Some(quantity))
        }
        _ => return Err(RespError::usage("cl.throttle", USAGE)),
    };

    let max_burst = integer(max_burst, "max_burst", 0..=CAPACITY_MAX - 1)?;
    let count = integer(count, "count", 1..=CAPACITY_MAX)?;
    let period_s = integer(period, "period", 1..=PERIOD_S_MAX)?;
    let quantity = quantity.map_or(Ok(1), |text| integer(text, "quantity", 0..=QUANTITY_MAX))?;

    let quota = bucket(max_burst, count, period_s)
        .map_err(|error| RespError::new(format!("invalid numbers: {error}")))?;
    let rule = active.override_rule(THROTTLE);
    let policy = &active.config.inline_limits;
    policy
        .permit(rule.name(), quota.capacity())
        .map_err(|error| RespError::forbidden(error.to_string(), "inline-not-allowed"))?;
    let key = EncodedKey::from_writer(|parts| match std::str::from_utf8(key) {
        Ok(text) => parts.text(text),
        Err(_) => parts.bytes(key),
    });
    let key =
        key.map_err(|error| RespError::new(format!("invalid key: {error}")).because("bad-key"))?;

    Ok(Demand::new(rule, key)
        .with_cost(quantity)
        .with_quota(Some(quota.into())))
}

/// The bucket of a call. Over a period that is too long for a rate, the time of one unit is rounded
/// up to whole microseconds.
fn bucket(max_burst: u64, count: u64, period_s: u64) -> Result<TokenBucket, LimitError> {
    let rate = if period_s <= RATE_PERIOD_S_MAX {
        Rate::new(count, Duration::from_secs(period_s))
    } else {
        let unit_us = (period_s * 1_000_000).div_ceil(count);
        Rate::new(1, Duration::from_micros(unit_us))
    };
    TokenBucket::new(max_burst + 1, rate)
}
