//! Resolves an admission to the counter it was charged to, its cost, and what the counter allows.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

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
    pub(super) origin: BoundOrigin,
}

/// Where the bounds of a limit are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BoundOrigin {
    AllowOption,
    Responses,
    Config,
}

/// Resolves admissions to counter updates.
#[derive(Clone, Debug)]
pub(super) struct AdmissionResolver {
    pub(super) plan: Rc<LoadPlan>,
}

impl AdmissionResolver {
    /// The limits that the configuration selects for a request. `None` without a configuration, or
    /// if it does not accept the request.
    pub(super) fn select_limits(&self, params: RequestParams) -> Option<Selection<'_>> {
        let (BoundSource::Config(config), RequestKind::Check { attributes, limits }) =
            (&self.plan.bounds, &self.plan.request)
        else {
            return None;
        };

        let values = attributes
            .iter()
            .map(|(attribute, template)| (attribute, template.fill(params, &self.plan.keys)));
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
        &self,
        index: usize,
        status: &LimitStatus<'_>,
        params: RequestParams,
        selection: Option<&[Demand<'_, EncodedKey>]>,
    ) -> Result<CounterUpdate, JudgeError> {
        let limit_id = u8::try_from(index).unwrap_or(u8::MAX);
        let allowance = self.allowance(&status.name);

        match &self.plan.bounds {
            BoundSource::Responses => {
                let (bound, origin) = match allowance {
                    Some(bound) => (bound, BoundOrigin::AllowOption),
                    None => (loosest_bound(status)?, BoundOrigin::Responses),
                };

                let (key, address) = (params.key.to_le_bytes(), params.address.to_le_bytes());
                Ok(CounterUpdate {
                    counter_id: [&[limit_id][..], &key, &address].concat(),
                    cost: params.cost.unwrap_or(1),
                    bounds: LimitBounds::from_bound(bound),
                    origin,
                })
            }
            BoundSource::Config(config) => {
                let selected = selection
                    .unwrap_or_default()
                    .iter()
                    .find(|selected| selected.limit.name().as_str() == status.name)
                    .ok_or(JudgeError::NotConfigured)?;

                let replicas = self.plan.replicas.len();
                let (bounds, origin) = if let Some(bound) = allowance {
                    (LimitBounds::from_bound(bound), BoundOrigin::AllowOption)
                } else {
                    let bounds = config.limit_bounds(selected, status, replicas)?;
                    (bounds, BoundOrigin::Config)
                };

                Ok(CounterUpdate {
                    counter_id: [&[limit_id], selected.key.as_bytes()].concat(),
                    cost: selected.cost,
                    bounds,
                    origin,
                })
            }
        }
    }

    /// The bound that the user gave for a limit, by its name or for all limits.
    fn allowance(&self, name: &str) -> Option<Bound> {
        let find = |wanted: Option<&str>| {
            self.plan
                .allowances
                .iter()
                .find(|allowance| allowance.limit.as_deref() == wanted)
        };
        find(Some(name))
            .or_else(|| find(None))
            .map(|allowance| allowance.bound)
    }
}

impl ConfigBounds {
    /// The bounds of a limit. An eventual limit may exceed its quota by its documented allowance. A
    /// local limit is judged as if it were shared, to show what its replicas admit together.
    fn limit_bounds(
        &self,
        selected: &Demand<'_, EncodedKey>,
        status: &LimitStatus<'_>,
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
        let long_run =
            Bound::long_run_for_quota(&quota).map(|bound| bound.with_extra_units(unreported));

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
            long_run,
            per_window,
        })
    }

    /// What replicas may admit from their leases without the store knowing.
    fn unreported_units(&self, limit: u64, replicas: usize) -> u64 {
        let expected = self.expected_replicas.get();
        let replicas = u64::try_from(replicas)
            .unwrap_or(u64::MAX)
            .max(u64::from(expected));

        tollgate::lease::quantum(limit, expected)
            .min(limit)
            .saturating_mul(replicas)
    }
}

/// The loosest bound of all algorithms with this quota: that of the fixed window, which admits
/// twice its limit across an edge. The window may be up to a second shorter than reported.
fn loosest_bound(status: &LimitStatus<'_>) -> Result<Bound, JudgeError> {
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

impl BoundOrigin {
    /// The value of `judged_by` in reports.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::AllowOption => "allow",
            Self::Responses => "responses",
            Self::Config => "configuration",
        }
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
