//! Costs that are known only when the work is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::Extensions;
use smallvec::SmallVec;

/// No cost was told yet.
const UNTOLD: u64 = u64::MAX;

/// Where the application says what a request really cost. It is an extension of every request that
/// passes a limit with [`settle_by_bill`](crate::RateLimitLayer::settle_by_bill); what was told
/// last when the response's body ends is what counts.
///
/// ```
/// use tollgate_tower::Bill;
///
/// async fn answer(bill: Bill) -> String {
///     let (text, tokens) = ("...".to_owned(), 1_234);
///     bill.settle("tokens", tokens).ok(); // an error would say that this limit is not settled here
///     text
/// }
/// # let _ = answer;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Bill {
    tabs: SmallVec<[Arc<Tab>; 1]>,
}

/// What one limit is to be charged.
#[derive(Debug)]
pub(crate) struct Tab {
    limit: Arc<str>,
    told: AtomicU64,
}

/// A cost for a limit that nobody waits to hear of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {limit:?} is not settled for this request; {known}")]
pub struct NotOnTheBill {
    limit: String,
    known: String,
}

impl Bill {
    /// Says what the request cost a limit. Said again, the last word counts.
    pub fn settle(&self, limit: &str, cost: u64) -> Result<(), NotOnTheBill> {
        let mut told = false;
        for tab in self.tabs.iter().filter(|tab| &*tab.limit == limit) {
            tab.told.store(cost.min(UNTOLD - 1), Relaxed);
            told = true;
        }
        if told {
            Ok(())
        } else {
            Err(self.no_such(limit))
        }
    }

    #[cold]
    fn no_such(&self, limit: &str) -> NotOnTheBill {
        let names: Vec<&str> = self.tabs.iter().map(|tab| &*tab.limit).collect();
        let known = if names.is_empty() {
            "none is".to_owned()
        } else {
            format!("{} is", names.join(", "))
        };
        NotOnTheBill {
            limit: limit.chars().take(80).collect(),
            known,
        }
    }

    /// Opens a tab on the request's bill.
    pub(crate) fn open(extensions: &mut Extensions, limit: &Arc<str>) -> Arc<Tab> {
        let tab = Arc::new(Tab {
            limit: limit.clone(),
            told: AtomicU64::new(UNTOLD),
        });
        let mut bill = extensions.get::<Self>().cloned().unwrap_or_default();
        bill.tabs.push(tab.clone());
        extensions.insert(bill);
        tab
    }
}

impl Tab {
    /// What was told last.
    pub(crate) fn told(&self) -> Option<u64> {
        Some(self.told.load(Relaxed)).filter(|told| *told != UNTOLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts_and_other_limits_are_told_apart() {
        let mut extensions = Extensions::new();
        let (tokens, rows) = (
            Bill::open(&mut extensions, &"tokens".into()),
            Bill::open(&mut extensions, &"rows".into()),
        );
        let bill = extensions.get::<Bill>().cloned().expect("a bill");
        assert_eq!((tokens.told(), rows.told()), (None, None));
        bill.settle("tokens", 3).expect("a tab");
        bill.settle("tokens", 5).expect("a tab");
        bill.settle("rows", u64::MAX).expect("a tab");
        assert_eq!((tokens.told(), rows.told()), (Some(5), Some(u64::MAX - 1)));
        let wrong = bill.settle("token", 1).expect_err("no tab");
        assert_eq!(
            wrong.to_string(),
            "the limit \"token\" is not settled for this request; tokens, rows is"
        );
    }
}
