//! Limits that a descriptor brings with itself, in place of those of the configuration.
//!
//! A unit is counted by the calendar in UTC, except that a week and a year begin with the first
//! request. Several units are counted by a bucket, which holds what passes in them and fills up
//! again over them.

use std::time::Duration;

use tollgate::{Calendar, EncodedKey, FixedWindow, LimitError, Quota, Rate, TokenBucket};
use tollgate_envoy::{RateLimitOverride, RateLimitUnit, Unit};

use super::descriptor::Described;
use super::error::Fault;
use crate::gate::{ActiveConfig, GateDemand, OVERRIDES};

const DAY_SECS: u64 = 86_400;
const WEEK_DAYS: u32 = 7;

/// A limit that came with a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Override {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    /// At least one.
    pub(super) multiplier: u32,
}

impl Override {
    pub(super) fn read(stated: &RateLimitOverride) -> Result<Self, Fault> {
        let unit = match RateLimitUnit::try_from(stated.unit) {
            Ok(RateLimitUnit::Second) => Unit::Second,
            Ok(RateLimitUnit::Minute) => Unit::Minute,
            Ok(RateLimitUnit::Hour) => Unit::Hour,
            Ok(RateLimitUnit::Day) => Unit::Day,
            Ok(RateLimitUnit::Month) => Unit::Month,
            Ok(RateLimitUnit::Year) => Unit::Year,
            Ok(RateLimitUnit::Unknown) | Err(_) => {
                return Err(Fault::wrong(format!(
                    "a descriptor's limit has the unit {}; it must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR",
                    stated.unit
                )));
            }
        };
        let multiplier = stated.unit_multiplier.unwrap_or(1).max(1);
        let requests = stated.requests_per_unit;
        if unit == Unit::Day && multiplier == WEEK_DAYS {
            return Ok(Self {
                requests,
                unit: Unit::Week,
                multiplier: 1,
            });
        }
        Ok(Self {
            requests,
            unit,
            multiplier,
        })
    }

    /// Its place among the limits that requests bring.
    const fn place(self) -> usize {
        match (self.multiplier, self.unit) {
            (2.., _) => 7,
            (_, Unit::Unknown | Unit::Second) => 0,
            (_, Unit::Minute) => 1,
            (_, Unit::Hour) => 2,
            (_, Unit::Day) => 3,
            (_, Unit::Week) => 4,
            (_, Unit::Month) => 5,
            (_, Unit::Year) => 6,
        }
    }

    /// The name of the limit that counts it.
    pub(super) const fn name(self) -> &'static str {
        OVERRIDES[self.place()]
    }

    /// Its numbers, in the shape of the limit that counts it.
    fn quota(self) -> Result<Quota, LimitError> {
        let requests = u64::from(self.requests);
        let aligned = |unit| FixedWindow::aligned(requests, unit).map(Quota::from);
        if self.multiplier > 1 {
            return self.bucket().map(Quota::from);
        }
        match self.unit {
            Unit::Unknown | Unit::Second => aligned(Calendar::Second),
            Unit::Minute => aligned(Calendar::Minute),
            Unit::Hour => aligned(Calendar::Hour),
            Unit::Day => aligned(Calendar::Day),
            Unit::Month => aligned(Calendar::Month),
            Unit::Week | Unit::Year => {
                FixedWindow::new(requests, Duration::from_secs(self.unit_secs())).map(Quota::from)
            }
        }
    }

    fn bucket(self) -> Result<TokenBucket, LimitError> {
        let (requests, secs) = (
            u64::from(self.requests),
            self.unit_secs() * u64::from(self.multiplier),
        );
        // The same rate over the shortest time: long ones cannot be stated.
        let divisor = greatest_divisor(requests, secs);
        TokenBucket::new(
            requests,
            Rate::new(requests / divisor, Duration::from_secs(secs / divisor)),
        )
    }

    /// The longest that the unit can be, so that no more passes than it allows.
    const fn unit_secs(self) -> u64 {
        match self.unit {
            Unit::Unknown | Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => DAY_SECS,
            Unit::Week => WEEK_DAYS as u64 * DAY_SECS,
            Unit::Month => 31 * DAY_SECS,
            Unit::Year => 366 * DAY_SECS,
        }
    }
}

/// The check that a descriptor's own limit comes to; none when it allows nothing, which nothing
/// needs to count.
pub(super) fn spend<'r>(
    running: &'r ActiveConfig,
    described: &Described<'_>,
    limit: Override,
    cost: Option<u64>,
) -> Result<Option<GateDemand<'r>>, Fault> {
    if limit.requests == 0 {
        return Ok(None);
    }
    let quota = limit
        .quota()
        .map_err(|error| Fault::wrong(format!("a descriptor's limit cannot be kept: {error}")))?;
    let key = key(running, described, limit).map_err(Fault::uncountable)?;
    let index = running.config.limits.len() + limit.place();
    Ok(Some(GateDemand {
        limit: limit.name(),
        index,
        key,
        cost: cost.unwrap_or(1),
        quota: Some(quota),
    }))
}

/// Whom it counts: the domain and every entry. Values of attributes that are known by their hash
/// alone are hashed here too.
fn key(
    running: &ActiveConfig,
    described: &Described<'_>,
    limit: Override,
) -> Result<EncodedKey, tollgate::KeyError> {
    let hasher = |name: &str| {
        let hashing = running.config.hashing.as_ref()?;
        let is_hashed = hashing
            .attributes
            .iter()
            .any(|attribute| attribute.name().eq_ignore_ascii_case(name));
        is_hashed.then_some(&hashing.hasher)
    };
    EncodedKey::from_writer(|parts| {
        if limit.multiplier > 1 {
            parts.number(limit.unit_secs() * u64::from(limit.multiplier));
        }
        parts.text(described.domain);
        for entry in described.entries {
            // No text may be empty, and nothing is as good a value as any.
            if entry.key.is_empty() {
                parts.number(0);
            } else {
                parts.text(&entry.key);
            }
            match hasher(&entry.key) {
                _ if entry.value.is_empty() => parts.number(0),
                Some(hasher) => parts.hashed(hasher.hash(&entry.value)),
                None => parts.bytes(&entry.value),
            }
        }
    })
}

const fn greatest_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
