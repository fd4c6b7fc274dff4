//! Overrides: limits that a descriptor carries, used instead of those of the configuration.
//!
//! One unit is a calendar window in UTC, except that a week and a year start with the first
//! request. A multiple of a unit is a token bucket: its capacity is the number of requests, and it
//! refills over that time.

use std::time::Duration;

use tollgate::{Demand, EncodedKey, FixedWindow, LimitError, Quota, Rate, TokenBucket};
use tollgate_envoy::{RateLimitOverride, Unit};
use tollgate_gate::{ActiveConfig, MULTIPLE, OVERRIDE_UNITS, OVERRIDES};

use super::descriptor::DescriptorAttributes;
use super::error::GrpcError;

/// The units in the order of [`OVERRIDE_UNITS`].
const UNITS: [Unit; 7] = [
    Unit::Second,
    Unit::Minute,
    Unit::Hour,
    Unit::Day,
    Unit::Week,
    Unit::Month,
    Unit::Year,
];
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
        // Both enumerations have the same numbers, but a request cannot name a week.
        let unit = Unit::try_from(sent.unit).ok();
        let unit = unit.filter(|unit| !matches!(unit, Unit::Unknown | Unit::Week));
        let Some(unit) = unit else {
            return Err(GrpcError::invalid(format!(
                "invalid unit {} in a descriptor's limit; expected SECOND, MINUTE, HOUR, DAY, \
                 MONTH or YEAR",
                sent.unit
            )));
        };

        let multiplier = sent.unit_multiplier.unwrap_or(1).max(1);
        let (unit, multiplier) = match (unit, multiplier) {
            (Unit::Day, WEEK_DAYS) => (Unit::Week, 1),
            other => other,
        };
        Ok(Self {
            requests: sent.requests_per_unit,
            unit,
            multiplier,
        })
    }

    /// The index of its limit in [`OVERRIDES`].
    fn index(self) -> usize {
        if self.multiplier > 1 {
            MULTIPLE
        } else {
            self.unit_index()
        }
    }

    fn unit_index(self) -> usize {
        let index = UNITS.iter().position(|unit| *unit == self.unit);
        index.unwrap_or_default()
    }

    /// The name of the limit that counts it.
    pub(super) fn name(self) -> &'static str {
        OVERRIDES[self.index()]
    }

    /// Its quota, of the kind that its limit has.
    fn quota(self) -> Result<Quota, LimitError> {
        let requests = u64::from(self.requests);
        let (unit_secs, calendar) = OVERRIDE_UNITS[self.unit_index()];
        Ok(match calendar {
            _ if self.multiplier > 1 => self.bucket()?.into(),
            Some(unit) => FixedWindow::aligned(requests, unit)?.into(),
            None => FixedWindow::new(requests, Duration::from_secs(unit_secs))?.into(),
        })
    }

    fn bucket(self) -> Result<TokenBucket, LimitError> {
        let (requests, secs) = (u64::from(self.requests), self.secs());

        // Reduce the fraction: a rate cannot have an arbitrarily long period.
        let divisor = greatest_common_divisor(requests, secs);
        TokenBucket::new(
            requests,
            Rate::new(requests / divisor, Duration::from_secs(secs / divisor)),
        )
    }

    /// The longest length of its units, in seconds. With a shorter one, more could pass than the
    /// limit allows.
    fn secs(self) -> u64 {
        OVERRIDE_UNITS[self.unit_index()].0 * u64::from(self.multiplier)
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
            parts.number(limit.secs());
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
