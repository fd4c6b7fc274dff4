//! The numbers of a limit: its quota, from its own fields or from its tiers, and its lockout.
//!
//! `tiers` are named sets of numbers, which limits refer to with `tier`.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::algorithm::{
    LOCKOUT_AFTER_MAX, LOCKOUT_FACTOR_MAX, LOCKOUT_MAX_DEFAULT, WINDOW_MAX, WINDOW_MIN,
};
use tollgate::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, LimitError, Lockout, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};

use crate::attribute::Attribute;
use crate::config::clients::ATTRIBUTE;
use crate::config::field::{ConfigField, FieldMap, collect_all, list_or, nearest};
use crate::config::names::{ALIGNS, Algorithm, LOCKOUT, MODES, TIER, TIER_CHOICE};
use crate::config::scalar::quoted;
use crate::config::values::{CALENDAR, DURATION, INTEGER, RATE, ValueKind};
use crate::limit::Tiers;

/// The maximum number of tiers. Every limit with a `tier` has one quota per tier, so this bounds
/// their product.
const TIERS_MAX: usize = 100;
const NAME_MAX: usize = 128;

/// A tier. Its numbers are read again for every limit that uses them.
pub(super) struct Tier<'a> {
    name: &'a str,
    /// The line of its name.
    line: usize,
    numbers: FieldMap<'a>,
}

/// Reads the section `tiers`. The tiers are in file order.
pub(super) fn read_tiers<'a>(field: &ConfigField<'a>) -> Option<Vec<Tier<'a>>> {
    let mapping = FieldMap::with_free_keys(
        field,
        "expected a mapping, such as { free: { capacity: 100, refill_rate: 10/s } }",
    )?;
    field.at_most(TIERS_MAX, mapping.len(), "tiers")?;

    let tiers = mapping.entries().filter_map(|(entry, field)| {
        let name = entry.key.text.as_str();
        if name.is_empty() || name.len() > NAME_MAX {
            let found = name.len();
            mapping.error_at_key(
                entry,
                format_args!("a tier name must be 1 to {NAME_MAX} bytes long, found {found}"),
            );
        }

        let numbers = FieldMap::new(&field, TIER)?;
        check_numbers(&numbers);
        Some(Tier {
            name,
            line: entry.position.line,
            numbers,
        })
    });
    Some(tiers.collect())
}

/// Reports invalid numbers even if no limit uses the tier.
fn check_numbers(numbers: &FieldMap<'_>) {
    if numbers.len() == 0 {
        let field = &numbers.field;
        field.error("the tier is empty; expected capacity and refill_rate, or limit");
    }
    numbers.value("capacity", &INTEGER);
    numbers.value("limit", &INTEGER);
    numbers.value("refill_rate", &RATE);
}

/// The most tier names that an error lists.
const TIERS_SHOWN: usize = 20;

/// Reads the quota of a limit, and the quotas of its tiers. With tiers, its own quota is that of
/// the default tier.
pub(super) fn read_quotas(
    limit: &FieldMap<'_>,
    algorithm: Algorithm,
    tiers: &[Tier<'_>],
) -> Option<(Quota, Option<Tiers>)> {
    let Some(field) = limit.get("tier") else {
        return Some((read_quota(limit, None, algorithm)?, None));
    };

    // The numbers come from the tiers, so the limit must not have its own.
    for name in algorithm.fields() {
        if tier_field_name(name).is_some() {
            limit.reject(
                name,
                format_args!(
                    "`{name}` conflicts with `tier`, which takes it from `tiers`; remove one"
                ),
            );
        }
    }

    let choice = read_choice(&field, tiers);
    let quota = |tier: &Tier<'_>| {
        let quota = read_quota(limit, Some(tier), algorithm)?;
        Some((tier.name.into(), quota))
    };
    let quotas: BTreeMap<Box<str>, Quota> =
        collect_all(tiers.iter().map(quota))?.into_iter().collect();

    let (by, default) = choice?;
    let tiers = Tiers {
        by,
        default: default.into(),
        quotas,
    };
    Some((*tiers.quotas.get(default)?, Some(tiers)))
}

/// Reads the attribute that names the tier, and the default tier.
fn read_choice<'a>(field: &ConfigField<'a>, tiers: &[Tier<'_>]) -> Option<(Attribute, &'a str)> {
    let mapping = FieldMap::new(field, TIER_CHOICE)?;
    let by = mapping.require_value("by", &ATTRIBUTE);

    let default = mapping.require(
        "default",
        "expected the tier of requests that do not name one",
    )?;
    let name = default.string("tier", "expected the name of a tier")?;
    if tiers.iter().any(|tier| tier.name == name) {
        return Some((by?, name));
    }

    let shown = tiers.iter().take(TIERS_SHOWN);
    let names: Vec<&str> = shown.map(|tier| tier.name).collect();
    let fix = match nearest(name, &names).filter(|_| !default.is_private()) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None if names.is_empty() => "define the tiers under `tiers`".into(),
        None => format!("expected {}", list_or(&names)),
    };
    default.fail(format_args!("unknown tier {}; {fix}", default.quoted()))
}

/// A duration that is valid with every amount.
const VALID_DURATION: Duration = Duration::from_secs(1);
/// A rate that is valid with every capacity: it is the fastest.
const VALID_RATE: Rate = Rate::per_second(10_000_000);

/// Reads a quota. Amounts and rates come from the tier if there is one; everything else comes from
/// the limit.
pub(super) fn read_quota(
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
fn tier_field_name(name: &str) -> Option<&'static str> {
    match name {
        "limit" => Some("limit"),
        "capacity" => Some("capacity"),
        "refill_rate" | "leak_rate" => Some("refill_rate"),
        _ => None,
    }
}

/// Whether requests wait in a leaky bucket.
pub(super) fn read_mode(limit: &FieldMap<'_>) -> LeakyMode {
    limit.choice_or("mode", MODES, LeakyMode::Meter)
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

/// Reads the lockout of a limit. Every field is read before the first `?`, so that all errors are
/// reported.
pub(super) fn read_lockout(field: &ConfigField<'_>) -> Option<Lockout> {
    let mapping = FieldMap::new(field, LOCKOUT)?;
    let require_length = |name, expected| read_length(&mapping.require(name, expected)?);
    let after = mapping
        .require("after", "expected a number of denials, such as `after: 10`")
        .and_then(|field| field.integer_in(1..=LOCKOUT_AFTER_MAX.into()));
    let within = require_length("within", "expected a duration, such as `within: 10m`");
    let length = require_length("for", "expected a duration, such as `for: 15m`");
    let factor = mapping.integer_or("factor", 1..=LOCKOUT_FACTOR_MAX.into(), 1);
    let max = mapping.read("max", |field| read_max(field, length));

    let length = length?;
    let lockout = Lockout::new(after?, within?, length);
    let max = max.unwrap_or_else(|| length.max(LOCKOUT_MAX_DEFAULT.into()));
    let lockout = lockout.and_then(|lockout| lockout.with_growth(factor, max));
    lockout.map_err(|error| field.error(error)).ok()
}

/// Reads a duration of the range that windows have.
fn read_length(field: &ConfigField<'_>) -> Option<Duration> {
    field.duration_in(WINDOW_MIN.into()..=WINDOW_MAX.into())
}

/// Reads the longest lockout, which cannot be shorter than the first.
fn read_max(field: &ConfigField<'_>, length: Option<Duration>) -> Option<Duration> {
    let max = read_length(field)?;
    if length.is_none_or(|length| max >= length) {
        return Some(max);
    }
    field.invalid("max", "it is shorter than `for`; must be at least as long")
}
