//! Which counter a request was charged to, by how much, and what that counter allows.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use tollgate::{Consistency, Micros, Quota};
use tollgate_audit::Bound;
use tollgate_rules::{Attribute, Attributes, MissingKeyPolicy, SelectedLimit, Selection, Value};

use super::standard::{Configured, Standard, Unjudged};
use crate::draw::Draw;
use crate::plan::{Asking, Plan};
use crate::told::LimitTold;

/// What a counter allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promised {
    /// In any interval.
    pub(super) any: Bound,
    /// Beside that, in the long run.
    pub(super) long: Option<Bound>,
    /// Beside that, in each window of its own: so much, and the windows are at least so long.
    pub(super) each: Option<(u64, Micros)>,
}

/// What one admission means to one limit.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) counter: Vec<u8>,
    pub(super) cost: u64,
    pub(super) promised: Promised,
    pub(super) by: JudgedBy,
}

/// Where it is known from what a counter allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JudgedBy {
    Hand,
    Answers,
    Configuration,
}

/// Finds out what admissions mean.
#[derive(Clone, Debug)]
pub(super) struct Charger {
    pub(super) plan: Rc<Plan>,
}

impl Charger {
    /// The limits that a request meets by the configuration, if there is one and it takes the
    /// request.
    pub(super) fn chosen(&self, draw: Draw) -> Option<Selection<'_>> {
        let (Standard::Configured(configured), Asking::Check { attributes, limits }) =
            (&self.plan.standard, &self.plan.asking)
        else {
            return None;
        };
        let filled = attributes
            .iter()
            .map(|(name, template)| (name, template.fill(draw, &self.plan.keys)));
        let filled = Filled(filled.collect());
        let selection = if limits.is_empty() {
            configured
                .selector
                .select(&filled, draw.cost, MissingKeyPolicy::Refuse)
        } else {
            configured.selector.select_named(limits, &filled, draw.cost)
        };
        selection.ok()
    }

    /// What an admission means to a limit, the `index`-th that was met.
    pub(super) fn charge(
        &self,
        index: usize,
        told: &LimitTold<'_>,
        draw: Draw,
        chosen: Option<&[SelectedLimit<'_>]>,
    ) -> Result<Charge, Unjudged> {
        let mut counter = vec![u8::try_from(index).unwrap_or(u8::MAX)];
        let by_hand = self.allowed(&told.name);
        match &self.plan.standard {
            Standard::Answers => {
                counter.extend_from_slice(&draw.key.to_le_bytes());
                counter.extend_from_slice(&draw.address.to_le_bytes());
                let by = if by_hand.is_some() {
                    JudgedBy::Hand
                } else {
                    JudgedBy::Answers
                };
                let promised = Promised::only(by_hand.map_or_else(|| loosest(told), Ok)?);
                Ok(Charge {
                    counter,
                    cost: draw.cost.unwrap_or(1),
                    promised,
                    by,
                })
            }
            Standard::Configured(configured) => {
                let chosen = chosen.unwrap_or_default();
                let mine = chosen
                    .iter()
                    .find(|chosen| chosen.rule.limit.name() == told.name);
                let mine = mine.ok_or(Unjudged::NotConfigured)?;
                counter.extend_from_slice(mine.key.as_bytes());
                let (promised, by) = match by_hand {
                    Some(bound) => (Promised::only(bound), JudgedBy::Hand),
                    None => (
                        configured.promised(mine, told, self.plan.replicas.len())?,
                        JudgedBy::Configuration,
                    ),
                };
                Ok(Charge {
                    counter,
                    cost: mine.cost,
                    promised,
                    by,
                })
            }
        }
    }

    /// What was said by hand.
    fn allowed(&self, name: &str) -> Option<Bound> {
        let said = |wanted: Option<&str>| {
            self.plan
                .allowances
                .iter()
                .find(|allowance| allowance.limit.as_deref() == wanted)
        };
        said(Some(name))
            .or_else(|| said(None))
            .map(|allowance| allowance.bound)
    }
}

impl Configured {
    /// What the limit promises. An eventual one promises to be above it by no more than its
    /// published allowance; one that is local is judged all the same, because what it does to the
    /// limit of the whole is what one wants to know.
    fn promised(
        &self,
        chosen: &SelectedLimit<'_>,
        told: &LimitTold<'_>,
        replicas: usize,
    ) -> Result<Promised, Unjudged> {
        let rule = chosen
            .rule
            .limit
            .rule()
            .map_err(|_| Unjudged::NotConfigured)?;
        let quota: Quota = *chosen.quota.unwrap_or(rule.quota());
        let configured = quota.limit();
        if configured != told.limit {
            return Err(Unjudged::OtherNumbers {
                told: told.limit,
                configured,
            });
        }
        let untold = match rule.consistency() {
            Consistency::Eventual => {
                let expected = self.expected_replicas.get();
                let replicas = u64::try_from(replicas)
                    .unwrap_or(u64::MAX)
                    .max(u64::from(expected));
                tollgate::lease::quantum(configured, expected)
                    .min(configured)
                    .saturating_mul(replicas)
            }
            _ => 0,
        };
        let any = Bound::for_quota(&quota)
            .ok_or(Unjudged::Concurrency)?
            .raised(untold);
        let long = Bound::in_the_long_run(&quota).map(|bound| bound.raised(untold));
        // Only who asks the counter itself tells when its window ends.
        let is_asked = matches!(rule.consistency(), Consistency::Strict | Consistency::Local);
        let each = match (any, quota) {
            (Bound::PerWindow { window, .. }, Quota::FixedWindow(_)) if is_asked => {
                Some((configured, window))
            }
            _ => None,
        };
        Ok(Promised { any, long, each })
    }
}

/// What any algorithm with these numbers promises. The one that promises least is the fixed window,
/// with twice its limit across an edge; and the window may be a second shorter than it is said to
/// be.
fn loosest(told: &LimitTold<'_>) -> Result<Bound, Unjudged> {
    match told.window_s {
        None => Err(Unjudged::NoWindow),
        Some(0 | 1) => Err(Unjudged::ShortWindow),
        Some(window_s) => Ok(Bound::Rate {
            burst: told.limit.saturating_mul(2),
            per: told.limit,
            period_micros: Micros::from_secs(window_s - 1).get(),
        }),
    }
}

impl JudgedBy {
    /// The word that a report has for it.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Hand => "allow",
            Self::Answers => "answers",
            Self::Configuration => "configuration",
        }
    }
}

impl Promised {
    const fn only(any: Bound) -> Self {
        Self {
            any,
            long: None,
            each: None,
        }
    }
}

/// As people say it.
impl fmt::Display for Promised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((limit, window)) = self.each {
            write!(f, "{limit} in each window of {window}, ")?;
        }
        match self.any {
            Bound::Rate {
                burst,
                per,
                period_micros,
            } => {
                write!(
                    f,
                    "{burst} at once and {per} every {}",
                    Micros::new(period_micros)
                )
            }
            Bound::PerWindow { limit, window } => write!(f, "{limit} in any {window}"),
        }
    }
}

/// The attributes of one request.
struct Filled<'p>(Vec<(&'p Attribute, String)>);

impl Attributes for Filled<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.0.iter().find(|(known, _)| *known == attribute);
        // As the service sees it, which takes an empty value as none.
        found
            .filter(|(_, value)| !value.is_empty())
            .map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}
