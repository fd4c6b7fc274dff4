//! The numbers of a limit, from its own fields or from a tier, as a quota of its algorithm.

use std::time::Duration;

use tollgate::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, LimitError, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};

use super::culprit;
use crate::config::field::Field;
use crate::config::table::Table;
use crate::config::tiers::{RATE, Tier};
use crate::config::values::{self, Length};
use crate::config::words::{ALIGNS, Algorithm, Align, MODES};

const WINDOW: &str = "write a length of time, such as 1s, 15m or 1d";
const CLOCK: &str = "with `align: clock` the window is 1s, 1m, 1h, 1d or 1month";

/// A length that goes with every amount.
const FINE_LENGTH: Duration = Duration::from_secs(1);
/// The rate that fills the largest bucket in time.
const FINE_RATE: Rate = Rate::per_second(10_000_000);

/// Where numbers come from: amounts and rates from the tier, if there is one, and everything else
/// from the limit.
pub(super) struct Source<'t, 'a> {
    pub(super) limit: &'t Table<'a>,
    pub(super) tier: Option<&'t Tier<'a>>,
    pub(super) algorithm: Algorithm,
}

impl<'a> Source<'_, 'a> {
    pub(super) fn quota(&self) -> Option<Quota> {
        match self.algorithm {
            Algorithm::FixedWindow => self.fixed_window(),
            Algorithm::SlidingWindow => self.windowed(SlidingWindow::new),
            Algorithm::SlidingLog => self.windowed(SlidingLog::new),
            Algorithm::TokenBucket => self.bucket("refill_rate", TokenBucket::new),
            Algorithm::LeakyBucket => {
                let mode = mode(self.limit);
                self.bucket("leak_rate", |capacity, rate| {
                    LeakyBucket::new(mode, capacity, rate)
                })
            }
            Algorithm::Concurrency => {
                let (limit, lease) = (self.amount("limit"), self.length("permit_timeout"));
                self.made(limit, lease, FINE_LENGTH, Concurrency::new)
            }
        }
    }

    fn fixed_window(&self) -> Option<Quota> {
        let align = match self.limit.get("align") {
            Some(field) => field.choice(ALIGNS)?,
            None => Align::default(),
        };
        if align == Align::FirstHit {
            return self.windowed(FixedWindow::new);
        }
        let (limit, unit) = (
            self.amount("limit"),
            self.need("window").and_then(|field| unit(&field)),
        );
        self.made(limit, unit, Calendar::Day, FixedWindow::aligned)
    }

    fn windowed<Q: Into<Quota>>(
        &self,
        make: impl Fn(u64, Duration) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let (limit, window) = (self.amount("limit"), self.length("window"));
        self.made(limit, window, FINE_LENGTH, make)
    }

    fn bucket<Q: Into<Quota>>(
        &self,
        rate: &'static str,
        make: impl Fn(u64, Rate) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let capacity = self.amount("capacity");
        let rate = self
            .need(rate)
            .and_then(|field| field.value(values::rate, RATE));
        self.made(capacity, rate, FINE_RATE, make)
    }

    /// A quota of two numbers. Each is tried with a `fine` other one first, so that both are told
    /// if both are wrong.
    fn made<T: Copy, Q: Into<Quota>>(
        &self,
        amount: Option<u64>,
        other: Option<T>,
        fine: T,
        make: impl Fn(u64, T) -> Result<Q, LimitError>,
    ) -> Option<Quota> {
        let amount = amount.filter(|amount| self.checked(make(*amount, fine)).is_some());
        let other = other.filter(|other| self.checked(make(1, *other)).is_some());
        self.checked(make(amount?, other?))
    }

    fn amount(&self, name: &'static str) -> Option<u64> {
        self.need(name)?.whole()
    }

    fn length(&self, name: &'static str) -> Option<Duration> {
        self.need(name)?.duration()
    }

    /// A number that must be there.
    fn need(&self, name: &'static str) -> Option<Field<'a>> {
        let field = self.field(name);
        match (&field, self.tier_field(name)) {
            (None, Some((tier, in_tier))) => self.missing_in(tier, in_tier),
            (None, None) => {
                self.limit.missing(
                    name,
                    format_args!("{} needs it; {}", self.algorithm.name(), right(name)),
                );
            }
            _ => {}
        }
        field
    }

    fn field(&self, name: &'static str) -> Option<Field<'a>> {
        match self.tier_field(name) {
            Some((tier, in_tier)) => tier.numbers.get(in_tier),
            None => self.limit.get(name),
        }
    }

    /// The tier and the name in it of what comes from tiers. A tier has one rate, whichever way it
    /// is used.
    fn tier_field(&self, name: &'static str) -> Option<(&Tier<'a>, &'static str)> {
        let in_tier = in_tier(name)?;
        self.tier.map(|tier| (tier, in_tier))
    }

    fn missing_in(&self, tier: &Tier<'_>, name: &'static str) {
        let (needs, line) = (self.algorithm.name(), tier.at.line);
        if let Some(field) = self.limit.get("tier") {
            let tier = crate::config::text::shown(tier.name);
            field.fault(format_args!(
                "the tier {tier} on line {line} has no {name}, which {needs} needs; {}",
                right(name)
            ));
        }
    }

    /// A quota, or a fault at the number that is wrong.
    fn checked<Q: Into<Quota>>(&self, quota: Result<Q, LimitError>) -> Option<Quota> {
        let error = match quota {
            Ok(quota) => return Some(quota.into()),
            Err(error) => error,
        };
        let field = self.field(culprit(&error, self.algorithm))?;
        let message = error.to_string();
        // These messages are «what was found; what would be right». What was found stands in the
        // file, unless it is two numbers that do not go together: those are worth repeating, if
        // they may be.
        match message.rsplit_once("; ") {
            Some((_, right))
                if self.has_private() || !matches!(error, LimitError::SlowRefill { .. }) =>
            {
                field.wrong(right);
            }
            _ => field.fault(message),
        }
        None
    }

    fn has_private(&self) -> bool {
        self.algorithm
            .fields()
            .iter()
            .filter_map(|name| self.field(name))
            .any(|field| field.is_private())
    }
}

/// What a tier calls a number, if tiers have it.
pub(super) fn in_tier(name: &str) -> Option<&'static str> {
    match name {
        "limit" => Some("limit"),
        "capacity" => Some("capacity"),
        "refill_rate" | "leak_rate" => Some("refill_rate"),
        _ => None,
    }
}

/// True when the limit is a leaky bucket that makes requests wait.
pub(super) fn is_queue(limit: &Table<'_>) -> bool {
    mode(limit) == LeakyMode::Queue
}

fn mode(limit: &Table<'_>) -> LeakyMode {
    limit
        .read("mode", |field| field.choice(MODES))
        .unwrap_or(LeakyMode::Meter)
}

fn right(name: &str) -> &'static str {
    match name {
        "window" => "add one, such as `window: 1m`",
        "permit_timeout" => "add one, such as `permit_timeout: 30s`",
        "refill_rate" => "add one, such as `refill_rate: 10/s`",
        "leak_rate" => "add one, such as `leak_rate: 10/s`",
        "capacity" => "add one, such as `capacity: 100`",
        _ => "add one, such as `limit: 100`",
    }
}

/// The calendar's unit that a window names.
fn unit(field: &Field<'_>) -> Option<Calendar> {
    let unit = match field.value(values::window, WINDOW)? {
        Length::Month => Some(Calendar::Month),
        Length::Fixed(length) => match length.as_secs() {
            _ if length.subsec_nanos() > 0 => None,
            1 => Some(Calendar::Second),
            60 => Some(Calendar::Minute),
            3_600 => Some(Calendar::Hour),
            86_400 => Some(Calendar::Day),
            _ => None,
        },
    };
    if unit.is_none() {
        field.wrong(CLOCK);
    }
    unit
}
