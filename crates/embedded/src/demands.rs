//! The demands of a check without waiting.

use tollgate::{Demand, EncodedKey};
use tollgate_gate::ActiveConfig;
use tollgate_rules::LimitDemands;

use crate::limits::{KnownLimit, LimitId};

/// The demands of one check, which pass together or not at all.
#[derive(Debug)]
pub struct DirectDemands<'a> {
    active: &'a ActiveConfig,
    limits: &'a [KnownLimit],
    /// Usually one, which needs no allocation.
    demands: LimitDemands<'a>,
}

impl<'a> DirectDemands<'a> {
    #[inline]
    pub(crate) fn new(active: &'a ActiveConfig, limits: &'a [KnownLimit]) -> Self {
        Self {
            active,
            limits,
            demands: LimitDemands::new(),
        }
    }

    /// Adds a limit that was looked up, with a key and a cost; without a cost, the limit's own.
    /// Returns none if an operation must decide.
    #[inline]
    pub fn add(&mut self, LimitId(index): LimitId, key: &str, cost: Option<u64>) -> Option<()> {
        let limit = self.limits.get(index as usize)?.direct.as_ref()?;
        self.active.add_demand(&mut self.demands, limit, key, cost)
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[Demand<'a, EncodedKey>] {
        &self.demands
    }
}
