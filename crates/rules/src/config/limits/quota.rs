//! Reads the quota of a limit from its own fields or from a tier.

use std::time::Duration;

use tollgate::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, LimitError, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};

use super::tiers::Tier;
use crate::config::field::ConfigField;
use crate::config::field_map::FieldMap;
use crate::config::names::{ALIGNS, Algorithm, MODES};
use crate::config::scalar::quoted;
use crate::config::values::{CALENDAR, DURATION, INTEGER, RATE, ValueKind};

/// A duration that is valid with every amount.
const VALID_DURATION: Duration = Duration::from_secs(1);
/// A rate that is valid with every capacity: it is the fastest.
const VALID_RATE: Rate = Rate::per_second(10_000_000);

/// Reads a quota. Amounts and rates come from the tier if there is one; everything else comes from
/// the limit.
pub(super) fn read(
    limit: &FieldMap<'_>,
    tier: Option<&Tier<'_>>,
    algorithm: Algorithm,
) -> Option<Quota> {
    let reader = QuotaReader {
        limit,
        tier,
        algorithm,
    };
    let window = ["limit", "window"];
    match algorithm {
        Algorithm::FixedWindow if reader.is_aligned()? => {
            reader.build(window, &CALENDAR, Calendar::Day, FixedWindow::aligned)
        }
        Algorithm::FixedWindow => reader.timed(window, FixedWindow::new),
        Algorithm::SlidingWindow => reader.timed(window, SlidingWindow::new),
        Algorithm::SlidingLog => reader.timed(window, SlidingLog::new),
        Algorithm::Concurrency => reader.timed(["limit", "permit_timeout"], Concurrency::new),
        Algorithm::TokenBucket => reader.bucket("refill_rate", TokenBucket::new),
        Algorithm::LeakyBucket => {
            let mode = read_mode(limit);
            reader.bucket("leak_rate", |capacity, rate| {
                LeakyBucket::new(mode, capacity, rate)
            })
        }
    }
}

/// What a quota is read from.
struct QuotaReader<'t, 'a> {
    limit: &'t FieldMap<'a>,
    tier: Option<&'t Tier<'a>>,
    algorithm: Algorithm,
}

impl<'a> QuotaReader<'_, 'a> {
    fn is_aligned(&self) -> Option<bool> {
        let align = self.limit.get("align");
        align.map_or(Some(false), |field| field.choice(ALIGNS))
    }

    fn timed<Q: Into<Quota>>(
        &self,
        names: [&str; 2],
        new: impl Fn(u64, Duration) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        self.build(names, &DURATION, VALID_DURATION, new)
    }

    fn bucket<Q: Into<Quota>>(
        &self,
        rate: &str,
        new: impl Fn(u64, Rate) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        self.build(["capacity", rate], &RATE, VALID_RATE, new)
    }

    /// Builds a quota from an amount and a second number. Each is first checked together with a
    /// valid other one, so that both are reported if both are invalid.
    fn build<T: Copy, Q: Into<Quota>>(
        &self,
        names: [&str; 2],
        kind: &ValueKind<T>,
        valid: T,
        new: impl Fn(u64, T) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let [amount_field, other_field] = names.map(|name| self.require(name));
        let amount = read_number(amount_field.as_ref(), &INTEGER, |amount| new(amount, valid));
        let other = read_number(other_field.as_ref(), kind, |other| new(1, other));

        // Numbers that are valid alone may still be too far apart.
        let (amount_field, other_field) = (amount_field?, other_field?);
        let quota = new(amount?, other?).map_err(|_| {
            let (capacity, rate) = (amount_field.quoted(), other_field.quoted());
            amount_field.error(format_args!(
                "a capacity of {capacity} at a rate of {rate} takes more than 100 years to \
                 refill; lower the capacity or raise the rate"
            ));
        });
        quota.ok().map(Into::into)
    }

    /// A required number, of the tier or of the limit. Reports an error if it is missing.
    fn require(&self, name: &str) -> Option<ConfigField<'a>> {
        let tiered = self.tier.zip(tier_field_name(name));
        let name = tiered.map_or(name, |(_, name)| name);
        let (algorithm, example) = (self.algorithm.name(), example(name));
        let reason = format!("{algorithm} requires it, for example `{example}`");
        let Some((tier, _)) = tiered else {
            return self.limit.require(name, &reason);
        };

        let field = tier.numbers.get(name);
        if field.is_none()
            && let Some(choice) = self.limit.get("tier")
        {
            let (tier, line) = (quoted(tier.name), tier.line);
            choice.error(format_args!(
                "missing field `{name}` in the tier {tier} on line {line}; {reason}"
            ));
        }
        field
    }
}

/// Reads a number that a quota can be built from.
fn read_number<T: Copy, Q>(
    field: Option<&ConfigField<'_>>,
    kind: &ValueKind<T>,
    build: impl Fn(T) -> Result<Q, LimitError>,
) -> Option<T> {
    let field = field?;
    let number = field.value(kind)?;

    let range = match build(number) {
        Ok(_) => return Some(number),
        Err(LimitError::Window { .. }) => "1ms and 3653d",
        Err(LimitError::Rate { .. }) => "1/30d and 10000000/s",
        Err(LimitError::InFlight { .. }) => "1 and 65536",
        Err(_) => "1 and 9007199254740992 (2^53)",
    };
    field.invalid(kind.noun, format_args!("must be between {range}"))
}

/// The name that a field of a limit has in a tier. `None` if tiers do not have it. A tier has one
/// rate for both kinds of buckets.
pub(super) fn tier_field_name(name: &str) -> Option<&'static str> {
    match name {
        "limit" => Some("limit"),
        "capacity" => Some("capacity"),
        "refill_rate" | "leak_rate" => Some("refill_rate"),
        _ => None,
    }
}

/// Whether requests wait in a leaky bucket.
pub(super) fn read_mode(limit: &FieldMap<'_>) -> LeakyMode {
    limit.choice("mode", MODES).unwrap_or(LeakyMode::Meter)
}

/// An example of a field, for errors.
fn example(name: &str) -> &'static str {
    match name {
        "window" => "window: 1m",
        "permit_timeout" => "permit_timeout: 30s",
        "refill_rate" => "refill_rate: 10/s",
        "leak_rate" => "leak_rate: 10/s",
        "capacity" => "capacity: 100",
        _ => "limit: 100",
    }
}
