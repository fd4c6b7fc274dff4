//! One limit of a limiter: every operation on it.

use std::sync::Arc;

use super::check::Check;
use super::engine::Engine;
use super::error::Error;
use super::permit::Acquisition;
use super::refund::Refund;
use super::request::{Demands, ExtendDemands, OneDemand};
use super::reservation::Reserve;
use crate::algorithm::PermitId;
use crate::key::ToKey;
use crate::limit::Rule;
use crate::store::{Intent, StoreFuture};

/// One limit on a limiter's store, looked up once. See [`Limiter::limit`](crate::Limiter::limit) and
/// [`Limiter::with_rule`](crate::Limiter::with_rule).
#[derive(Clone, Copy, Debug)]
pub struct LimitHandle<'a> {
    engine: &'a Arc<Engine>,
    /// The rule, or the name for which there is none: then every operation returns an error.
    rule: Result<&'a Rule, &'a str>,
}

impl<'a> LimitHandle<'a> {
    #[inline]
    pub(super) const fn new(engine: &'a Arc<Engine>, rule: Result<&'a Rule, &'a str>) -> Self {
        Self { engine, rule }
    }

    /// Checks whether a request of `key` may pass this limit, and charges it if so.
    #[inline]
    pub fn check<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self.engine, OneDemand::new(self.rule, key), Intent::Spend)
    }

    /// Like [`check`](Self::check), without charging anything.
    pub fn peek<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self.engine, OneDemand::new(self.rule, key), Intent::Peek)
    }

    /// Charges a request of `key` whether it fits or not. See
    /// [`Limiter::count`](crate::Limiter::count).
    pub fn count<K: ToKey>(&self, key: K) -> Check<'a, OneDemand<'a, K>> {
        Check::new(self.engine, OneDemand::new(self.rule, key), Intent::Count)
    }

    /// Charges an estimate. See [`Limiter::reserve`](crate::Limiter::reserve).
    pub fn reserve<K: ToKey>(&self, key: K) -> Reserve<'a> {
        Reserve::new(self.engine, OneDemand::new(self.rule, key))
    }

    /// Returns the units that a check of this limit has spent.
    pub fn refund<K: ToKey>(&self, key: K) -> Refund<'a, OneDemand<'a, K>> {
        Refund::new(self.engine, OneDemand::new(self.rule, key))
    }

    /// Clears the counter of a key: the key's budget is full again.
    pub async fn reset(&self, key: impl ToKey) -> Result<(), Error> {
        let engine = self.engine;
        let demand = OneDemand::new(self.rule, key);
        let call = demand.with(&engine.rules, |demands| {
            if let Some(local) = engine.local_fallback.get() {
                local.reset(&demands[0].key);
            }
            let store = engine.store_for(demands[0].limit);
            Ok(store.reset(&demands[0].key))
        })?;
        let result = call.await;
        result.map_err(|error| engine.record_request_error(error, &demand))
    }

    /// Acquires a permit of a concurrency limit, which is released when dropped.
    pub async fn acquire(&self, key: impl ToKey) -> Result<Acquisition, Error> {
        self.check(key).acquire().await
    }

    /// Releases a permit. See [`Limiter::release`](crate::Limiter::release).
    pub async fn release(&self, key: impl ToKey, permit_id: PermitId) -> Result<bool, Error> {
        let engine = self.engine;
        let mut demand = OneDemand::new(self.rule, key);
        // The permit's cost is not known here, which stores represent as cost 0.
        demand.set_cost(0);

        let call = demand.with(&engine.rules, |demands| {
            let local = engine.local_fallback.get();
            let is_released = local.is_some_and(|local| local.release(&demands[0], permit_id));
            Ok(if is_released {
                StoreFuture::ready(Ok(true))
            } else {
                let store = engine.store_for(demands[0].limit);
                store.release(&demands[0], permit_id)
            })
        })?;
        let result = call.await;
        result.map_err(|error| engine.record_request_error(error, &demand))
    }
}
