//! The limits in force, as an operator would write them down, and what each has said so far.

use hyper::Response;
use serde::Serialize;
use tollgate::algorithm::WindowStart;
use tollgate::{Consistency, FailurePolicy, LeakyMode, Quota};
use tollgate_rules::{Attribute, Condition, Cost, LimitConfig, Pattern, Recipe, Tiers};

use super::{millis, shown};
use crate::http::Body;
use crate::metrics::OutcomeCounts;
use crate::serve::Service;

#[derive(Debug, Serialize)]
struct LimitsAnswer<'a> {
    limits: Vec<LimitShown<'a>>,
}

#[derive(Debug, Serialize)]
struct LimitShown<'a> {
    name: &'a str,
    #[serde(flatten)]
    numbers: Numbers,
    /// The parts of a key, each as the file writes it.
    key: Vec<String>,
    /// Every one of these must hold.
    #[serde(rename = "match")]
    conditions: Vec<ConditionShown<'a>>,
    consistency: &'static str,
    on_store_failure: &'static str,
    shadow: bool,
    optional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<CostShown<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tiers: Option<TiersShown<'a>>,
    /// Since this process began, or since the limit was first in force.
    said: OutcomeCounts,
}

/// What an algorithm allows. Members that an algorithm does not have are left out.
#[derive(Debug, Default, Serialize)]
struct Numbers {
    algorithm: &'static str,
    /// The most that passes at once: the limit, or a bucket's capacity.
    limit: u64,
    /// The window, or how long a bucket takes from empty to full.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    /// The unit of the calendar that the window is.
    #[serde(skip_serializing_if = "Option::is_none")]
    calendar: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refill: Option<RateShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leak: Option<RateShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit_timeout_ms: Option<u64>,
}

/// So many units every so many microseconds, in lowest terms.
#[derive(Debug, Serialize)]
struct RateShown {
    units: u64,
    every_us: u64,
}

#[derive(Debug, Serialize)]
struct ConditionShown<'a> {
    attribute: &'a str,
    any_of: Vec<&'a str>,
}

#[derive(Debug, Serialize)]
struct CostShown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    default: u64,
}

#[derive(Debug, Serialize)]
struct TiersShown<'a> {
    by: &'a str,
    default: &'a str,
    tiers: Vec<TierShown<'a>>,
}

#[derive(Debug, Serialize)]
struct TierShown<'a> {
    name: &'a str,
    #[serde(flatten)]
    numbers: Numbers,
}

/// The limits of the file, in its order.
pub(super) fn answer(service: &Service) -> Response<Body> {
    let running = service.gate.active();
    let both = running.config.limits.iter().zip(running.metrics());
    let limits = both
        .filter_map(|(rule, meter)| LimitShown::of(rule, meter.outcomes()))
        .collect();
    shown(&LimitsAnswer { limits })
}

/// The parts of a key, each as the file writes it.
pub(super) fn recipe(key: &Recipe) -> Vec<String> {
    let part = |part: &Vec<Attribute>| {
        part.iter()
            .map(Attribute::name)
            .collect::<Vec<_>>()
            .join(" | ")
    };
    key.parts.iter().map(part).collect()
}

impl<'a> LimitShown<'a> {
    /// A configuration holds only limits that are right, so that there always is something.
    fn of(rule: &'a LimitConfig, said: OutcomeCounts) -> Option<Self> {
        let checked = rule.limit.rule().ok()?;
        Some(Self {
            name: rule.limit.name(),
            numbers: Numbers::of(checked.quota()),
            key: recipe(&rule.key),
            conditions: rule
                .applies
                .conditions
                .iter()
                .map(ConditionShown::of)
                .collect(),
            consistency: Consistency::as_str(checked.consistency()),
            on_store_failure: FailurePolicy::as_str(checked.on_store_failure()),
            shadow: checked.is_shadow(),
            optional: rule.optional,
            cost: rule.cost.as_ref().map(CostShown::of),
            tiers: rule.tiers.as_ref().map(TiersShown::of),
            said,
        })
    }
}

impl Numbers {
    fn of(quota: &Quota) -> Self {
        let common = Self {
            algorithm: quota.algorithm(),
            limit: quota.limit(),
            window_ms: quota.window().map(millis),
            ..Self::default()
        };
        match quota {
            Quota::SlidingWindow(_) | Quota::SlidingLog(_) => common,
            Quota::FixedWindow(window) => match window.start() {
                WindowStart::FirstHit(_) => common,
                WindowStart::Clock(unit) => Self {
                    calendar: Some(unit.as_str()),
                    ..common
                },
            },
            Quota::TokenBucket(bucket) => Self {
                refill: Some(RateShown::of(bucket.refill())),
                ..common
            },
            Quota::LeakyBucket(bucket) => {
                let mode = match bucket.mode() {
                    LeakyMode::Meter => "meter",
                    LeakyMode::Queue => "queue",
                };
                Self {
                    leak: Some(RateShown::of(bucket.leak())),
                    mode: Some(mode),
                    ..common
                }
            }
            Quota::Concurrency(places) => Self {
                permit_timeout_ms: Some(millis(places.permit_timeout())),
                ..common
            },
        }
    }
}

impl RateShown {
    const fn of((units, every_us): (u64, u64)) -> Self {
        Self { units, every_us }
    }
}

impl<'a> ConditionShown<'a> {
    fn of(condition: &'a Condition) -> Self {
        let text = |pattern: &'a Pattern| match pattern {
            Pattern::Exact(text) => &**text,
            Pattern::Glob(glob) => glob.as_str(),
        };
        Self {
            attribute: condition.attribute.name(),
            any_of: condition.any_of.iter().map(text).collect(),
        }
    }
}

impl<'a> CostShown<'a> {
    fn of(cost: &'a Cost) -> Self {
        Self {
            by: cost.by.as_ref().map(Attribute::name),
            default: cost.default,
        }
    }
}

impl<'a> TiersShown<'a> {
    fn of(tiers: &'a Tiers) -> Self {
        Self {
            by: tiers.by.name(),
            default: &tiers.default,
            tiers: tiers.quotas.iter().map(TierShown::of).collect(),
        }
    }
}

impl<'a> TierShown<'a> {
    fn of((name, quota): (&'a impl AsRef<str>, &Quota)) -> Self {
        Self {
            name: name.as_ref(),
            numbers: Numbers::of(quota),
        }
    }
}
