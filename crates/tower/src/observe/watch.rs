//! What a layer has seen, as far as it shows mistakes and outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use http::Extensions;
use tollgate::Decision;

use super::Warning;
use crate::answer::Cause;
use crate::plan::Plan;

/// How many requests are looked at for mistakes. A layer that is put together wrongly shows it at
/// once.
const LOOKED_AT: u32 = 256;
/// How many layers may serve a single request each before that is a habit.
const SINGLE_USES: u32 = 32;

/// Layers that were dropped after a single request.
static USED_ONCE: AtomicU32 = AtomicU32::new(0);

/// What one layer has seen, shared by its clones.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Requests seen, as far as anybody counts.
    seen: AtomicU32,
    told_twice: AtomicBool,
    told_broken: AtomicBool,
    degraded: AtomicBool,
}

/// The layers that a request has passed.
#[derive(Clone)]
struct Passed(Vec<Arc<Plan>>);

impl Watch {
    /// A request has come.
    pub(crate) fn sees(&self) {
        if self.seen.load(Relaxed) < LOOKED_AT {
            self.seen.fetch_add(1, Relaxed);
        }
    }

    /// A request goes on to what is inside. Notices when another layer has charged it for the same
    /// limit.
    pub(crate) fn passes(&self, plan: &Arc<Plan>, extensions: &mut Extensions) {
        if self.seen.load(Relaxed) >= LOOKED_AT {
            return;
        }
        let mut passed = extensions.remove::<Passed>().unwrap_or(Passed(Vec::new()));
        let twice = passed
            .0
            .iter()
            .find_map(|outer| outer.shares_limit_with(plan));
        if let Some(limit) = twice
            && !self.told_twice.swap(true, Relaxed)
        {
            Warning::AppliedTwice.tell(limit);
        }
        passed.0.push(plan.clone());
        extensions.insert(passed);
    }

    /// A request is refused. Says once what a developer has to change, if that is why; clients are
    /// not told.
    pub(crate) fn refuses(&self, cause: &Cause) {
        if let Cause::Broken { what } = cause
            && !self.told_broken.swap(true, Relaxed)
        {
            tracing::error!("requests are answered with status 500: {what}");
        }
    }

    /// Says when decisions begin to be made without the store, and when that is over.
    pub(crate) fn decided(&self, decision: &Decision) {
        let is_degraded = decision.is_degraded();
        if self.degraded.load(Relaxed) == is_degraded
            || self.degraded.swap(is_degraded, Relaxed) == is_degraded
        {
            return;
        }
        if is_degraded {
            tracing::warn!(
                "the store of a rate limit layer is away; its limits answer by their failure policies"
            );
        } else {
            tracing::info!("the store of a rate limit layer answers again");
        }
    }
}

impl Plan {
    fn shares_limit_with(&self, other: &Self) -> Option<&str> {
        let mut limits = self.recipes.iter().map(|recipe| &*recipe.limit);
        let is_theirs = |limit: &&str| other.recipes.iter().any(|recipe| &*recipe.limit == *limit);
        limits
            .find(is_theirs)
            .filter(|_| self.limiter.is_clone_of(&other.limiter))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if *self.seen.get_mut() == 1 && USED_ONCE.fetch_add(1, Relaxed) + 1 == SINGLE_USES {
            Warning::MadePerRequest.tell("many layers that served one request each");
        }
    }
}
