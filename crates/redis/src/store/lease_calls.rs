//! Lease calls, which refill, renew and return the leases of this instance.
//!
//! They run in tasks of their own, so that the granted units are kept even if the request that
//! caused the call no longer waits.

use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate::lease::{CallFailure, LeaseCall, LeaseOutcome, SWEEP_EVERY};
use tollgate::store::StoreFuture;

use super::routed_call::{RoutedCall, join};
use super::{Inner, RedisStore, pending, written_by_others};
use crate::error::CallError;
use crate::wire::DemandTerms;

/// The most leases that are returned in parallel.
const RETURNS_MAX: usize = 256;

impl RedisStore {
    /// Makes a lease call in the background. Its result is entered into the lease table.
    #[cold]
    pub(super) fn call_in_background(&self, call: LeaseCall) {
        drop(self.spawn_lease_call(call, self.deadline()));
    }

    /// Makes a lease call in a task of its own.
    pub(super) fn spawn_lease_call(
        &self,
        call: LeaseCall,
        deadline: Instant,
    ) -> JoinHandle<Result<LeaseOutcome, CallError>> {
        self.ensure_sweeper();
        let runtime = &self.inner.runtime;
        runtime.spawn(make_lease_call(self.clone(), call, deadline))
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.inner.timeout
    }

    /// Returns all leases, a limited number in parallel. Reports the first error; leases that could
    /// not be returned expire at the store.
    pub(super) fn return_all(&self) -> StoreFuture<'_, ()> {
        pending(async move {
            let (calls, in_flight) = self.inner.leases.return_leases();
            let first_result = self.make_lease_calls(calls).await;

            // Calls that were in flight may bring more units, which are returned afterwards.
            for call in in_flight {
                drop(timeout_at(self.deadline(), call.completion()).await);
            }
            let (calls, _) = self.inner.leases.return_leases();
            let second_result = self.make_lease_calls(calls).await;

            Ok(first_result.and(second_result)?)
        })
    }

    async fn make_lease_calls(&self, mut calls: Vec<LeaseCall>) -> Result<(), CallError> {
        let mut result = Ok(());
        while !calls.is_empty() {
            let batch = calls.split_off(calls.len().saturating_sub(RETURNS_MAX));
            let tasks: Vec<_> = batch
                .into_iter()
                .map(|call| self.spawn_lease_call(call, self.deadline()))
                .collect();

            for task in tasks {
                result = result.and(join(task).await.map(drop));
            }
        }
        result
    }

    /// Starts the task that sweeps the lease table, unless it is running.
    pub(super) fn ensure_sweeper(&self) {
        if !self.inner.has_sweeper.swap(true, AcqRel) {
            let inner = Arc::downgrade(&self.inner);
            self.inner.runtime.spawn(sweep(inner));
        }
    }
}

#[cfg(feature = "manual-time")]
impl RedisStore {
    /// Makes one lease call, for tests that compare the script with the model.
    pub(crate) async fn call_lease(
        &self,
        demand: &tollgate::Demand<'_>,
        request: &tollgate::lease::LeaseRequest,
    ) -> Result<tollgate::lease::LeaseGrant, tollgate::StoreError> {
        let call = self.inner.encoder.lease(demand, request);
        let routed_call = RoutedCall::start(self.inner.clone(), call, self.deadline());
        let reply = routed_call.run().await?;

        Ok(reply
            .lease_grant(&DemandTerms::new(demand))
            .ok_or_else(written_by_others)?)
    }
}

async fn make_lease_call(
    store: RedisStore,
    lease_call: LeaseCall,
    deadline: Instant,
) -> Result<LeaseOutcome, CallError> {
    let (call, terms) = {
        let demand = lease_call.demand();
        let encoder = &store.inner.encoder;
        let call = encoder.lease(&demand, lease_call.lease_request());
        (call, DemandTerms::new(&demand))
    };

    let routed_call = match RoutedCall::start(store.inner.clone(), call, deadline).accepted() {
        Ok(routed_call) => routed_call,
        Err(error) => {
            lease_call.fail(CallFailure::NotExecuted);
            return Err(error);
        }
    };
    let reply = match routed_call.run().await {
        Ok(reply) => reply,
        Err(error) => {
            lease_call.fail(call_failure(&error));
            return Err(error);
        }
    };

    reply
        .lease_grant(&terms)
        .and_then(|grant| lease_call.complete(&grant))
        .ok_or_else(written_by_others)
}

/// Whether a call that failed with this error may have run.
fn call_failure(error: &CallError) -> CallFailure {
    match error {
        // An error reply normally means that nothing was written. But if another program has
        // written to the counter, that is not certain.
        CallError::Timeout | CallError::Unavailable(_) | CallError::Refused(_) => {
            CallFailure::Unknown
        }

        CallError::Overloaded | CallError::Moved(_) | CallError::Ask(_) | CallError::TryAgain => {
            CallFailure::NotExecuted
        }
    }
}

/// Returns unused units and reports spent ones at intervals, until the lease table is empty or the
/// store is dropped.
async fn sweep(inner: Weak<Inner>) {
    loop {
        sleep(Duration::from(SWEEP_EVERY)).await;
        let Some(inner) = inner.upgrade() else { return };
        let (calls, has_leases) = inner.leases.sweep();
        let store = RedisStore { inner };
        for call in calls {
            store.call_in_background(call);
        }

        if !has_leases {
            store.inner.has_sweeper.store(false, Release);
            // A request that added a lease in the meantime may have seen the flag and not started
            // another sweeper.
            if store.inner.leases.keys() == 0 || store.inner.has_sweeper.swap(true, AcqRel) {
                return;
            }
        }
    }
}
