//! Reads the quota of a limit from its own fields or from a tier.

use std::time::Duration;

use tollgate::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, LimitError, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};

use super::NUMBER_MAX;
use crate::config::field::{ConfigField, Expectation};
use crate::config::field_map::FieldMap;
use crate::config::names::{ALIGNS, Algorithm, Align, MODES};
use crate::config::scalar::quoted;
use crate::config::tiers::{RATE, Tier};
use crate::config::values::{self, WindowLength};

const WINDOW: Expectation<'static> = Expectation::new("duration", values::DURATION);
const CLOCK: Expectation<'static> = Expectation::new(
    "window",
    "with `align: clock` it must be 1s, 1m, 1h, 1d or 1month",
);

/// A duration that is valid with every amount.
const VALID_DURATION: Duration = Duration::from_secs(1);
/// A rate that is valid with every capacity: it is the fastest.
const VALID_RATE: Rate = Rate::per_second(10_000_000);

/// Reads a quota. Amounts and rates come from the tier if there is one; everything else comes from
/// the limit.
pub(super) struct QuotaReader<'t, 'a> {
    pub(super) limit: &'t FieldMap<'a>,
    pub(super) tier: Option<&'t Tier<'a>>,
    pub(super) algorithm: Algorithm,
}

impl<'a> QuotaReader<'_, 'a> {
    pub(super) fn read(&self) -> Option<Quota> {
        match self.algorithm {
            Algorithm::FixedWindow => self.fixed_window(),
            Algorithm::SlidingWindow => self.window(SlidingWindow::new),
            Algorithm::SlidingLog => self.window(SlidingLog::new),
            Algorithm::TokenBucket => self.bucket("refill_rate", TokenBucket::new),
            Algorithm::LeakyBucket => {
                let mode = read_mode(self.limit);
                self.bucket("leak_rate", |capacity, rate| {
                    LeakyBucket::new(mode, capacity, rate)
                })
            }
            Algorithm::Concurrency => {
                let (limit, timeout) = (self.amount("limit"), self.duration("permit_timeout"));
                self.build(limit, timeout, VALID_DURATION, Concurrency::new)
            }
        }
    }

    fn fixed_window(&self) -> Option<Quota> {
        let align = match self.limit.get("align") {
            Some(field) => field.choice(ALIGNS)?,
            None => Align::default(),
        };
        if align == Align::FirstHit {
            return self.window(FixedWindow::new);
        }

        let (limit, unit) = (
            self.amount("limit"),
            self.require("window")
                .and_then(|field| read_calendar(&field)),
        );
        self.build(limit, unit, Calendar::Day, FixedWindow::aligned)
    }

    fn window<Q: Into<Quota>>(
        &self,
        new: impl Fn(u64, Duration) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let (limit, window) = (self.amount("limit"), self.duration("window"));
        self.build(limit, window, VALID_DURATION, new)
    }

    fn bucket<Q: Into<Quota>>(
        &self,
        rate: &'static str,
        new: impl Fn(u64, Rate) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let capacity = self.amount("capacity");
        let rate = self
            .require(rate)
            .and_then(|field| field.read_with(values::rate, RATE));
        self.build(capacity, rate, VALID_RATE, new)
    }

    /// Builds a quota from an amount and a second number. Each is first checked together with a
    /// valid other one, so that both are reported if both are invalid.
    fn build<T: Copy, Q: Into<Quota>>(
        &self,
        amount: Option<u64>,
        other: Option<T>,
        valid_other: T,
        new: impl Fn(u64, T) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let amount = amount.filter(|amount| self.check(new(*amount, valid_other)).is_some());
        let other = other.filter(|other| self.check(new(1, *other)).is_some());
        self.check(new(amount?, other?))
    }

    fn amount(&self, name: &'static str) -> Option<u64> {
        self.require(name)?.integer()
    }

    fn duration(&self, name: &'static str) -> Option<Duration> {
        self.require(name)?.duration()
    }

    /// A required number. Reports an error if it is missing.
    fn require(&self, name: &'static str) -> Option<ConfigField<'a>> {
        let field = self.field(name);

        match (&field, self.tier_field(name)) {
            (None, Some((tier, in_tier))) => self.missing_in_tier(tier, in_tier),
            (None, None) => {
                let (algorithm, example) = (self.algorithm.name(), example(name));
                self.limit.missing(
                    name,
                    format_args!("{algorithm} requires it, for example `{example}`"),
                );
            }
            _ => {}
        }

        field
    }

    fn field(&self, name: &'static str) -> Option<ConfigField<'a>> {
        match self.tier_field(name) {
            Some((tier, in_tier)) => tier.numbers.get(in_tier),
            None => self.limit.get(name),
        }
    }

    /// The tier that a field comes from, and the field's name there. `None` if the field comes from
    /// the limit.
    fn tier_field(&self, name: &'static str) -> Option<(&Tier<'a>, &'static str)> {
        let in_tier = tier_field_name(name)?;
        self.tier.map(|tier| (tier, in_tier))
    }

    fn missing_in_tier(&self, tier: &Tier<'_>, name: &'static str) {
        let (algorithm, example) = (self.algorithm.name(), example(name));
        let (tier, line) = (quoted(tier.name), tier.position.line);
        if let Some(field) = self.limit.get("tier") {
            field.error(format_args!(
                "missing field `{name}` in the tier {tier} on line {line}; {algorithm} requires \
                 it, for example `{example}`"
            ));
        }
    }

    /// The quota, or an error at the field that is invalid.
    fn check<Q: Into<Quota>>(&self, quota: Result<Q, LimitError>) -> Option<Quota> {
        let error = match quota {
            Ok(quota) => return Some(quota.into()),
            Err(error) => error,
        };

        let field = self.field(self.invalid_field(&error))?;
        match error {
            LimitError::Window { .. } => {
                field.invalid("duration", "must be between 1ms and 3653d");
            }
            LimitError::Rate { .. } => {
                field.invalid("rate", "must be between 1/30d and 10000000/s");
            }
            LimitError::SlowRefill { .. } => self.report_slow_refill(&field),
            LimitError::InFlight { .. } => {
                field.invalid("number", "must be between 1 and 65536");
            }
            _ => field.invalid(
                "number",
                format_args!("must be between 1 and {NUMBER_MAX} (2^53)"),
            ),
        }
        None
    }

    /// Reports a capacity and a rate that are valid alone, but not together.
    fn report_slow_refill(&self, capacity: &ConfigField<'_>) {
        let rate = self
            .field(self.rate_field())
            .map_or_else(String::new, |rate| rate.quoted());
        capacity.error(format_args!(
            "a capacity of {} at a rate of {rate} takes more than 100 years to refill; lower the \
             capacity or raise the rate",
            capacity.quoted()
        ));
    }

    /// The field that an error of the quota's constructor is about.
    fn invalid_field(&self, error: &LimitError) -> &'static str {
        let has = |name: &'static str| self.algorithm.fields().contains(&name);
        match error {
            LimitError::Window { .. } if has("permit_timeout") => "permit_timeout",
            LimitError::Window { .. } => "window",
            LimitError::Rate { .. } => self.rate_field(),
            _ if has("capacity") => "capacity",
            _ => "limit",
        }
    }

    fn rate_field(&self) -> &'static str {
        if self.algorithm == Algorithm::LeakyBucket {
            "leak_rate"
        } else {
            "refill_rate"
        }
    }
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

/// Whether the limit is a leaky bucket in which requests wait.
pub(super) fn is_queue(limit: &FieldMap<'_>) -> bool {
    read_mode(limit) == LeakyMode::Queue
}

fn read_mode(limit: &FieldMap<'_>) -> LeakyMode {
    limit
        .read("mode", |field| field.choice(MODES))
        .unwrap_or(LeakyMode::Meter)
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

/// Reads the calendar unit of a window with `align: clock`.
fn read_calendar(field: &ConfigField<'_>) -> Option<Calendar> {
    let unit = match field.read_with(values::window, WINDOW)? {
        WindowLength::Month => Some(Calendar::Month),
        WindowLength::Fixed(length) => match length.as_secs() {
            _ if length.subsec_nanos() > 0 => None,
            1 => Some(Calendar::Second),
            60 => Some(Calendar::Minute),
            3_600 => Some(Calendar::Hour),
            86_400 => Some(Calendar::Day),
            _ => None,
        },
    };

    if unit.is_none() {
        field.unexpected(CLOCK);
    }
    unit
}
