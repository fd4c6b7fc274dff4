//! Costs that the application knows only after it has done the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::Extensions;
use smallvec::SmallVec;
use tollgate::LimitName;

/// The value of a cell to which no cost has been reported.
const NOT_REPORTED: u64 = u64::MAX;

/// Lets the application report what a request really cost.
///
/// It is an extension of every request that passes a limit with
/// [`settle_by_actual_cost`](crate::RateLimitLayer::settle_by_actual_cost). The layer charges the
/// cost reported last, all of it, when the response body ends or is dropped. A stream that reports
/// what it has used so far is charged for that when its client disconnects.
///
/// ```
/// use tollgate_tower::ActualCost;
///
/// async fn generate(cost: ActualCost) -> String {
///     let (text, tokens) = ("...".to_owned(), 1_234);
///     // An error means that no layer settles the limit "tokens" for this request.
///     cost.report("tokens", tokens).ok();
///     text
/// }
/// # let _ = generate;
/// ```
#[derive(Clone, Debug, Default)]
pub struct ActualCost {
    /// One cell per limit that a layer settles for this request.
    cells: SmallVec<[Arc<CostCell>; 1]>,
}

/// The cost reported for one limit.
#[derive(Debug)]
pub(crate) struct CostCell {
    limit: LimitName,
    cost: AtomicU64,
}

/// A cost was reported for a limit that no layer settles for this request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {limit:?} is not settled by actual cost for this request; {expected}")]
pub struct ActualCostError {
    limit: String,
    /// Which limits are settled.
    expected: String,
}

impl ActualCost {
    /// Reports what the request cost under a limit. A later report replaces an earlier one.
    pub fn report(&self, limit: &str, cost: u64) -> Result<(), ActualCostError> {
        let mut is_known = false;
        for cell in self.cells.iter().filter(|cell| &*cell.limit == limit) {
            cell.cost.store(cost.min(NOT_REPORTED - 1), Relaxed);
            is_known = true;
        }

        if is_known {
            Ok(())
        } else {
            Err(self.unknown_limit(limit))
        }
    }

    #[cold]
    fn unknown_limit(&self, limit: &str) -> ActualCostError {
        let names: Vec<&str> = self.cells.iter().map(|cell| &*cell.limit).collect();
        let expected = if names.is_empty() {
            "no limit is".to_owned()
        } else {
            format!("expected one of: {}", names.join(", "))
        };

        ActualCostError {
            limit: limit.chars().take(80).collect(),
            expected,
        }
    }

    /// Adds a cell for a limit to the request's `ActualCost`, which is created if necessary.
    pub(crate) fn add_cell(extensions: &mut Extensions, limit: &LimitName) -> Arc<CostCell> {
        let cell = Arc::new(CostCell {
            limit: *limit,
            cost: AtomicU64::new(NOT_REPORTED),
        });

        let mut actual_cost = extensions.get::<Self>().cloned().unwrap_or_default();
        actual_cost.cells.push(cell.clone());
        extensions.insert(actual_cost);
        cell
    }
}

impl CostCell {
    /// The cost reported last; `None` if none was reported.
    pub(crate) fn reported(&self) -> Option<u64> {
        Some(self.cost.load(Relaxed)).filter(|cost| *cost != NOT_REPORTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_report_counts_and_unknown_limits_are_errors() {
        let name = |name| LimitName::new(name).expect("a valid name");
        let mut extensions = Extensions::new();
        let (tokens, rows) = (
            ActualCost::add_cell(&mut extensions, &name("tokens")),
            ActualCost::add_cell(&mut extensions, &name("rows")),
        );
        let cost = extensions
            .get::<ActualCost>()
            .cloned()
            .expect("an extension");
        assert_eq!((tokens.reported(), rows.reported()), (None, None));
        cost.report("tokens", 3).expect("a known limit");
        cost.report("tokens", 5).expect("a known limit");
        cost.report("rows", u64::MAX).expect("a known limit");
        assert_eq!(
            (tokens.reported(), rows.reported()),
            (Some(5), Some(u64::MAX - 1))
        );
        let error = cost.report("token", 1).expect_err("an unknown limit");
        assert_eq!(
            error.to_string(),
            "the limit \"token\" is not settled by actual cost for this request; \
             expected one of: tokens, rows"
        );
    }
}
