//! Resolves an admission to the counter it was charged to, its cost, and what the counter allows.

use std::borrow::Cow;
use std::fmt;

use tollgate::{Consistency, Demand, EncodedKey, Micros, Quota};
use tollgate_audit::Bound;
use tollgate_rules::{Attribute, Attributes, MissingKeyPolicy, Selection, Value};

use super::bounds::{BoundSource, ConfigBounds, JudgeError};
use crate::generator::RequestParams;
use crate::plan::{LoadPlan, RequestKind};
use crate::response::LimitStatus;

/// What a counter allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitBounds {
    /// In any interval.
    pub(super) any_interval: Bound,
    /// A second bound for long intervals.
    pub(super) long_run: Option<Bound>,
    /// The limit of each window of a fixed window, and the minimum length of these windows.
    pub(super) per_window: Option<(u64, Micros)>,
}

/// The effect of one admission on the counter of one limit.
#[derive(Debug)]
pub(super) struct CounterUpdate {
    pub(super) counter_id: Vec<u8>,
    pub(super) cost: u64,
    pub(super) bounds: LimitBounds,
    /// Where the bounds are known from: the value of `judged_by` in reports.
    pub(super) origin: &'static str,
}

/// The limits that the configuration selects for a request. `None` without a configuration, or if it
/// does not accept the request.
pub(super) fn select_limits(plan: &LoadPlan, params: RequestParams) -> Option<Selection<'_>> {
    let (BoundSource::Config(config), RequestKind::Check { attributes, limits }) =
        (&plan.bounds, &plan.request)
    else {
        return None;
    };

    let values = attributes
        .iter()
        .map(|(attribute, template)| (attribute, template.fill(params, &plan.keys)));
    let values = FilledAttributes(values.collect());
    let selection = if limits.is_empty() {
        config
            .selector
            .select(&values, params.cost, MissingKeyPolicy::Error)
    } else {
        config.selector.select_named(limits, &values, params.cost)
    };
    selection.ok()
}

/// Resolves an admission by the limit with this index.
pub(super) fn resolve(
    plan: &LoadPlan,
    index: usize,
    status: &LimitStatus,
    params: RequestParams,
    selection: Option<&[Demand<'_, EncodedKey>]>,
) -> Result<CounterUpdate, JudgeError> {
    let limit_id = u8::try_from(index).unwrap_or(u8::MAX);
    let selected = match &plan.bounds {
        BoundSource::Responses => None,
        BoundSource::Config(config) => {
            let mut selected = selection.unwrap_or_default().iter();
            let selected = selected.find(|selected| selected.limit.name().as_str() == status.name);
            Some((config, selected.ok_or(JudgeError::NotConfigured)?))
        }
    };

    let (bounds, origin) = match (allowance(plan, &status.name), selected) {
        (Some(bound), _) => (LimitBounds::from_bound(bound), "allow"),
        (None, Some((config, selected))) => {
            let bounds = config.limit_bounds(selected, status, plan.replicas.len())?;
            (bounds, "configuration")
        }
        (None, None) => (LimitBounds::from_bound(loosest_bound(status)?), "responses"),
    };

    let (key, address) = (params.key.to_le_bytes(), params.address.to_le_bytes());
    let (counter_id, cost) = match selected {
        Some((_, selected)) => (
            [&[limit_id], selected.key.as_bytes()].concat(),
            selected.cost,
        ),
        None => (
            [&[limit_id][..], &key, &address].concat(),
            params.cost.unwrap_or(1),
        ),
    };
    Ok(CounterUpdate {
        counter_id,
        cost,
        bounds,
        origin,
    })
}

/// The bound that the user gave for a limit, by its name or for all limits.
fn allowance(plan: &LoadPlan, name: &str) -> Option<Bound> {
    let find = |wanted: Option<&str>| {
        let mut allowances = plan.allowances.iter();
        allowances.find(|allowance| allowance.limit.as_deref() == wanted)
    };
    find(Some(name))
        .or_else(|| find(None))
        .map(|allowance| allowance.bound)
}

impl ConfigBounds {
    /// The bounds of a limit. An eventual limit may exceed its quota by its documented allowance. A
    /// local limit is judged as if it were shared, to show what its replicas admit together.
    fn limit_bounds(
        &self,
        selected: &Demand<'_, EncodedKey>,
        status: &LimitStatus,
        replicas: usize,
    ) -> Result<LimitBounds, JudgeError> {
        let rule = selected.limit;
        let quota: Quota = *selected.quota();
        let configured = quota.limit();
        if configured != status.limit {
            return Err(JudgeError::QuotaMismatch {
                reported: status.limit,
                configured,
            });
        }

        let unreported = match rule.consistency() {
            Consistency::Eventual => self.unreported_units(configured, replicas),
            _ => 0,
        };
        let any_interval = Bound::for_quota(&quota)
            .ok_or(JudgeError::Concurrency)?
            .with_extra_units(unreported);
        let long_run = Bound::long_run_for_quota(&quota);

        // Only decisions made by the counter itself show when its window ends.
        let is_exact = matches!(rule.consistency(), Consistency::Strict | Consistency::Local);
        let per_window = match (any_interval, quota) {
            (Bound::PerWindow { window, .. }, Quota::FixedWindow(_)) if is_exact => {
                Some((configured, window))
            }
            _ => None,
        };

        Ok(LimitBounds {
            any_interval,
            long_run: long_run.map(|bound| bound.with_extra_units(unreported)),
            per_window,
        })
    }

    /// What replicas may admit from their leases without the store knowing.
    fn unreported_units(&self, limit: u64, replicas: usize) -> u64 {
        let expected = self.expected_replicas.get();
        let replicas = u64::try_from(replicas)
            .unwrap_or(u64::MAX)
            .max(u64::from(expected));

        tollgate::store::lease::quantum(limit, expected)
            .min(limit)
            .saturating_mul(replicas)
    }
}

/// The loosest bound of all algorithms with this quota: that of the fixed window, which admits
/// twice its limit across an edge. The window may be up to a second shorter than reported.
fn loosest_bound(status: &LimitStatus) -> Result<Bound, JudgeError> {
    match status.window_s {
        None => Err(JudgeError::WindowMissing),
        Some(0 | 1) => Err(JudgeError::WindowTooShort),
        Some(window_s) => Ok(Bound::Rate {
            burst: status.limit.saturating_mul(2),
            per: status.limit,
            period_micros: Micros::from_secs(window_s - 1).get(),
        }),
    }
}

impl LimitBounds {
    const fn from_bound(any_interval: Bound) -> Self {
        Self {
            any_interval,
            long_run: None,
            per_window: None,
        }
    }
}

/// For example `3 in each window of 1s, 6 in any 1s`.
impl fmt::Display for LimitBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((limit, window)) = self.per_window {
            write!(f, "{limit} in each window of {window}, ")?;
        }

        match self.any_interval {
            Bound::Rate {
                burst,
                per,
                period_micros,
            } => {
                let period = Micros::new(period_micros);
                write!(f, "a burst of {burst} plus {per} per {period}")
            }
            Bound::PerWindow { limit, window } => write!(f, "{limit} in any {window}"),
            Bound::AlignedWindow { limit, window, .. } => {
                write!(f, "{limit} in each window of {window}")
            }
        }
    }
}

/// The attributes of one request.
struct FilledAttributes<'p>(Vec<(&'p Attribute, String)>);

impl Attributes for FilledAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let pair = self.0.iter().find(|(known, _)| *known == attribute);
        // Like the service, treat an empty value as missing.
        pair.filter(|(_, value)| !value.is_empty())
            .map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}
