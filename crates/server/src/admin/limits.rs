//! `GET /admin/limits`: the limits of the active configuration, each with its decision counts.

use hyper::Response;
use serde::Serialize;
use tollgate::algorithm::WindowStart;
use tollgate::{Consistency, FailurePolicy, LeakyMode, Quota};
use tollgate_gate::metrics::OutcomeCounts;
use tollgate_rules::{Attribute, Condition, LimitConfig, Pattern};

use super::encode::{json_ok, millis};
use crate::http::Body;
use crate::service::Service;

/// The body of the response.
#[derive(Debug, Serialize)]
struct LimitsResponse<'a> {
    limits: Vec<LimitView<'a>>,
}

/// One limit. Field names are JSON member names.
#[derive(Debug, Serialize)]
struct LimitView<'a> {
    name: &'a str,
    #[serde(flatten)]
    quota: QuotaView,
    /// The parts of the key, each written as in the configuration file.
    key: Vec<String>,
    /// The conditions of `match`; the limit applies when all of them hold.
    #[serde(rename = "match")]
    conditions: Vec<ConditionView<'a>>,
    consistency: &'static str,
    on_store_failure: &'static str,
    shadow: bool,
    optional: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<CostView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tiers: Option<TiersView<'a>>,
    /// Decisions by outcome, since the process started or the limit was first configured.
    #[serde(rename = "outcomes")]
    decisions: OutcomeCounts,
}

/// What a limit allows. Members that its algorithm does not have are absent.
#[derive(Debug, Default, Serialize)]
struct QuotaView {
    algorithm: &'static str,
    /// The limit of a window, the capacity of a bucket, or the permits of a concurrency limit.
    limit: u64,
    /// The window, or how long a bucket takes from empty to full.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    /// The calendar unit of a window aligned to the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    calendar: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refill: Option<RateView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leak: Option<RateView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permit_timeout_ms: Option<u64>,
}

/// A rate of `units` per `every_us` microseconds, in lowest terms.
#[derive(Debug, Serialize)]
struct RateView {
    units: u64,
    every_us: u64,
}

/// A condition of `match`: the attribute must match one of the patterns.
#[derive(Debug, Serialize)]
struct ConditionView<'a> {
    attribute: &'a str,
    any_of: Vec<&'a str>,
}

/// The cost of a request.
#[derive(Debug, Serialize)]
struct CostView<'a> {
    /// The attribute that holds the cost, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    default: u64,
}

/// The tiers of a limit.
#[derive(Debug, Serialize)]
struct TiersView<'a> {
    /// The attribute that names the tier.
    by: &'a str,
    default: &'a str,
    tiers: Vec<TierView<'a>>,
}

/// One tier and its quota.
#[derive(Debug, Serialize)]
struct TierView<'a> {
    name: &'a str,
    #[serde(flatten)]
    quota: QuotaView,
}

/// Lists the limits in the order of the configuration file.
pub(super) fn respond(service: &Service) -> Response<Body> {
    let active = service.gate.active();
    let limits_and_metrics = active.config.limits.iter().zip(active.metrics());
    let limits = limits_and_metrics
        .map(|(limit, metrics)| LimitView::new(limit, metrics.counts().outcomes()))
        .collect();
    json_ok(&LimitsResponse { limits })
}

impl<'a> LimitView<'a> {
    fn new(limit: &'a LimitConfig, decisions: OutcomeCounts) -> Self {
        let rule = &limit.rule;
        let conditions = limit.conditions.iter();
        let cost = limit.cost.as_ref();
        let tiers = limit.tiers.as_ref();

        Self {
            name: rule.name(),
            quota: QuotaView::new(rule.quota()),
            key: limit.key.part_names(),
            conditions: conditions.map(ConditionView::new).collect(),
            consistency: Consistency::as_str(rule.consistency()),
            on_store_failure: FailurePolicy::as_str(rule.on_store_failure()),
            shadow: rule.is_shadow(),
            optional: limit.optional,
            cost: cost.map(|cost| CostView {
                by: cost.attribute.as_ref().map(Attribute::name),
                default: cost.default,
            }),
            tiers: tiers.map(|tiers| TiersView {
                by: tiers.by.name(),
                default: &tiers.default,
                tiers: tiers.quotas.iter().map(TierView::new).collect(),
            }),
            decisions,
        }
    }
}

impl QuotaView {
    fn new(quota: &Quota) -> Self {
        let mut view = Self {
            algorithm: quota.algorithm(),
            limit: quota.limit(),
            window_ms: quota.window().map(millis),
            ..Self::default()
        };
        let rate = |(units, every_us)| Some(RateView { units, every_us });

        match quota {
            Quota::SlidingWindow(_) | Quota::SlidingLog(_) => {}
            Quota::FixedWindow(window) => {
                if let WindowStart::Clock(unit) = window.start() {
                    view.calendar = Some(unit.as_str());
                }
            }
            Quota::TokenBucket(bucket) => view.refill = rate(bucket.refill()),
            Quota::LeakyBucket(bucket) => {
                view.leak = rate(bucket.leak());
                view.mode = Some(match bucket.mode() {
                    LeakyMode::Meter => "meter",
                    LeakyMode::Queue => "queue",
                });
            }
            Quota::Concurrency(concurrency) => {
                view.permit_timeout_ms = Some(millis(concurrency.permit_timeout()));
            }
        }
        view
    }
}

impl<'a> ConditionView<'a> {
    fn new(condition: &'a Condition) -> Self {
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

impl<'a> TierView<'a> {
    fn new((name, quota): (&'a impl AsRef<str>, &Quota)) -> Self {
        Self {
            name: name.as_ref(),
            quota: QuotaView::new(quota),
        }
    }
}
