//! The demands of a request after the actions: what is still asked, and what is decided without it.

use smallvec::SmallVec;
use tollgate::store::Intent;
use tollgate::{Decision, Demand, EncodedKey, LimitOutcome, Micros};
use tollgate_rules::Selection;

use super::action::BlockStatus;
use super::table::{ActionTable, BypassEffect};

/// The demands of a request with the rules and quotas that actions gave them, and what happens to
/// each. Outcomes stay in the order of the request, because fronts find them by their index.
#[derive(Debug)]
pub(crate) struct AppliedRequest<'r> {
    rows: SmallVec<[AppliedDemand<'r>; 4]>,
    intent: Intent,
}

#[derive(Debug)]
struct AppliedDemand<'r> {
    demand: Demand<'r, EncodedKey>,
    bypass: Option<BypassEffect>,
}

impl<'r> AppliedRequest<'r> {
    /// Applies a table to the demands of a request.
    pub(crate) fn new(
        table: &'r ActionTable,
        demands: &[Demand<'r, EncodedKey>],
        intent: Intent,
        now: Micros,
    ) -> Self {
        let rows = demands.iter().map(|demand| {
            let effect = table.effect(demand, now);
            let mut demand = demand.clone();
            demand.limit = effect.rule.unwrap_or(demand.limit);
            demand.quota = effect.quota.or(demand.quota);
            AppliedDemand {
                demand,
                bypass: effect.bypass,
            }
        });
        Self {
            rows: rows.collect(),
            intent,
        }
    }

    /// What the request does besides asking.
    pub(crate) const fn intent(&self) -> Intent {
        self.intent
    }

    /// The demands that the limiter is asked about.
    ///
    /// A blocked request asks nothing, so that nothing is charged. A request that is charged in any
    /// case is, and an inspection shows the counters of blocked and exempt keys, too.
    pub(crate) fn asked(&self) -> Selection<'r> {
        let asked = self.rows.iter().filter(|row| self.is_asked(row));
        asked.map(|row| row.demand.clone()).collect()
    }

    /// Of values that belong to the demands, those of the demands that are asked.
    pub(crate) fn asked_of<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let rows = self.rows.iter().zip(values);
        let asked = rows.filter(|(row, _)| self.is_asked(row));
        asked.map(|(_, value)| *value).collect()
    }

    /// The demands that a check has charged, to be refunded.
    pub(crate) fn charged(&self) -> Selection<'r> {
        let charged = |row: &&AppliedDemand<'r>| row.bypass != Some(BypassEffect::Exempt);
        let charged = self.rows.iter().filter(charged);
        charged.map(|row| row.demand.clone()).collect()
    }

    /// The decision about all demands, from that about the demands that were asked.
    pub(crate) fn decision(&self, asked: Option<&Decision>) -> Decision {
        let mut outcomes = asked.map(Decision::limits).unwrap_or_default().iter();
        let limits = self.rows.iter().map(|row| {
            let outcome = self.is_asked(row).then(|| outcomes.next()).flatten();
            match (row.bypass, outcome) {
                (Some(BypassEffect::Block(_, retry)), _) => {
                    LimitOutcome::blocked(&row.demand, retry)
                }
                (Some(BypassEffect::Exempt), _) => LimitOutcome::exempt(&row.demand),
                (None, Some(outcome)) => *outcome,
                (None, None) => LimitOutcome::unasked(&row.demand),
            }
        });

        Decision::from_limits(limits, asked.and_then(Decision::permit_id))
    }

    /// The status of a block; none if no key is blocked.
    pub(crate) fn block_status(&self) -> Option<BlockStatus> {
        self.rows.iter().find_map(|row| match row.bypass {
            Some(BypassEffect::Block(status, _)) => Some(status),
            _ => None,
        })
    }

    fn is_asked(&self, row: &AppliedDemand<'_>) -> bool {
        match self.intent {
            Intent::Inspect => true,
            Intent::Count => row.bypass != Some(BypassEffect::Exempt),
            _ => row.bypass.is_none() && self.block_status().is_none(),
        }
    }
}
