//! Overrides: limits that a descriptor carries, used instead of those of the configuration.
//!
//! One unit is a calendar window in UTC, except that a week and a year start with the first
//! request. A multiple of a unit is a token bucket: its capacity is the number of requests, and it
//! refills over that time.

use std::time::Duration;

use tollgate::{Calendar, Demand, EncodedKey, FixedWindow, LimitError, Quota, Rate, TokenBucket};
use tollgate_envoy::{RateLimitOverride, RateLimitUnit, Unit};
use tollgate_gate::{ActiveConfig, OVERRIDES};

use super::descriptor::DescriptorAttributes;
use super::error::GrpcError;

const DAY_SECS: u64 = 86_400;
const WEEK_DAYS: u32 = 7;

/// A limit that a descriptor carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Override {
    pub(super) requests: u32,
    pub(super) unit: Unit,
    /// How many units the window has; at least 1.
    pub(super) multiplier: u32,
}

impl Override {
    pub(super) fn decode(sent: &RateLimitOverride) -> Result<Self, GrpcError> {
        let unit = match RateLimitUnit::try_from(sent.unit) {
            Ok(RateLimitUnit::Second) => Unit::Second,
            Ok(RateLimitUnit::Minute) => Unit::Minute,
            Ok(RateLimitUnit::Hour) => Unit::Hour,
            Ok(RateLimitUnit::Day) => Unit::Day,
            Ok(RateLimitUnit::Month) => Unit::Month,
            Ok(RateLimitUnit::Year) => Unit::Year,
            Ok(RateLimitUnit::Unknown) | Err(_) => {
                return Err(GrpcError::invalid(format!(
                    "invalid unit {} in a descriptor's limit; expected SECOND, MINUTE, HOUR, DAY, \
                     MONTH or YEAR",
                    sent.unit
                )));
            }
        };

        let multiplier = sent.unit_multiplier.unwrap_or(1).max(1);
        let requests = sent.requests_per_unit;
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

    /// The index of its limit in [`OVERRIDES`].
    const fn index(self) -> usize {
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
        OVERRIDES[self.index()]
    }

    /// Its quota, of the kind that its limit has.
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

        // Reduce the fraction: a rate cannot have an arbitrarily long period.
        let divisor = greatest_common_divisor(requests, secs);
        TokenBucket::new(
            requests,
            Rate::new(requests / divisor, Duration::from_secs(secs / divisor)),
        )
    }

    /// The longest length of the unit, in seconds. With a shorter one, more could pass than the
    /// limit allows.
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

/// The demand on an override. None when it allows 0 requests, which needs no counter.
pub(super) fn demand<'r>(
    active: &'r ActiveConfig,
    attributes: &DescriptorAttributes<'_>,
    limit: Override,
    cost: Option<u64>,
) -> Result<Option<Demand<'r, EncodedKey>>, GrpcError> {
    if limit.requests == 0 {
        return Ok(None);
    }

    let quota = limit
        .quota()
        .map_err(|error| GrpcError::invalid(format!("invalid limit in a descriptor: {error}")))?;
    let key = key(active, attributes, limit);
    let key = key.map_err(|error| GrpcError::denied("bad-key", error))?;
    let demand = Demand::new(active.override_rule(limit.index()), key);
    Ok(Some(
        demand.with_cost(cost.unwrap_or(1)).with_quota(Some(quota)),
    ))
}

/// The key of an override: the domain and every entry. Values of attributes that the configuration
/// hashes are hashed here too.
fn key(
    active: &ActiveConfig,
    attributes: &DescriptorAttributes<'_>,
    limit: Override,
) -> Result<EncodedKey, tollgate::KeyError> {
    let hasher = |name: &str| {
        let hashing = active.config.hashing.as_ref()?;
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
        parts.text(attributes.domain);
        for entry in attributes.entries {
            // A text part must not be empty; the number 0 represents an empty one.
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

const fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
