//! Lease calls, which refill, renew and return the leases of this instance.
//!
//! They run in tasks of their own, so that the granted units are kept even if the request that
//! caused the call no longer waits.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate::store::lease::{CallFailure, LeaseCall, LeaseOutcome, LeaseTable, SWEEP_EVERY};

use super::router::{CallRouter, join};
use crate::error::CallError;
use crate::wire::DemandTerms;

/// The most leases that are returned in parallel.
const RETURNS_MAX: usize = 256;

/// The leases of this instance, and the calls for them.
pub(super) struct LeaseCaller {
    pub(super) router: Arc<CallRouter>,
    pub(super) leases: LeaseTable,
    /// True while a task sweeps the lease table.
    has_sweeper: AtomicBool,
}

impl LeaseCaller {
    pub(super) fn new(router: CallRouter, leases: LeaseTable) -> Self {
        Self {
            router: Arc::new(router),
            leases,
            has_sweeper: AtomicBool::new(false),
        }
    }

    /// Makes a lease call in the background. Its result is entered into the lease table.
    #[cold]
    pub(super) fn call_in_background(self: &Arc<Self>, call: LeaseCall) {
        drop(self.spawn_call(call, self.router.deadline()));
    }

    /// Makes a lease call in a task of its own.
    pub(super) fn spawn_call(
        self: &Arc<Self>,
        call: LeaseCall,
        deadline: Instant,
    ) -> JoinHandle<Result<LeaseOutcome, CallError>> {
        self.ensure_sweeper();
        let runtime = &self.router.connector.runtime;
        runtime.spawn(self.clone().make_call(call, deadline))
    }

    async fn make_call(
        self: Arc<Self>,
        lease_call: LeaseCall,
        deadline: Instant,
    ) -> Result<LeaseOutcome, CallError> {
        let (call, terms) = {
            let demand = lease_call.demand();
            let encoder = &self.router.encoder;
            let call = encoder.lease(&demand, lease_call.lease_request());
            (call, DemandTerms::new(&demand))
        };

        let result = match self.router.submit(call, deadline) {
            Ok(routed_call) => routed_call
                .run()
                .await
                .map_err(|error| (call_failure(&error), error)),
            Err(error) => Err((CallFailure::NotExecuted, error)),
        };
        let reply = match result {
            Ok(reply) => reply,
            Err((failure, error)) => {
                lease_call.fail(failure);
                return Err(error);
            }
        };

        let grant = reply.lease_grant(&terms)?;
        lease_call
            .complete(&grant)
            .ok_or_else(CallError::foreign_write)
    }

    /// Returns all leases, a limited number in parallel. Reports the first error; leases that could
    /// not be returned expire at the store.
    pub(super) async fn return_leases(self: &Arc<Self>) -> Result<(), CallError> {
        let (calls, in_flight) = self.leases.return_leases();
        let first_result = self.make_calls(calls).await;

        // Calls that were in flight may bring more units, which are returned afterwards.
        for call in in_flight {
            drop(timeout_at(self.router.deadline(), call.completion()).await);
        }
        let (calls, _) = self.leases.return_leases();
        first_result.and(self.make_calls(calls).await)
    }

    async fn make_calls(self: &Arc<Self>, mut calls: Vec<LeaseCall>) -> Result<(), CallError> {
        let mut result = Ok(());
        while !calls.is_empty() {
            let batch = calls.split_off(calls.len().saturating_sub(RETURNS_MAX));
            let deadline = self.router.deadline();
            let calls = batch.into_iter();
            let tasks: Vec<_> = calls.map(|call| self.spawn_call(call, deadline)).collect();

            for task in tasks {
                result = result.and(join(task).await.map(drop));
            }
        }
        result
    }

    /// Starts the task that sweeps the lease table, unless it is running.
    pub(super) fn ensure_sweeper(self: &Arc<Self>) {
        if !self.has_sweeper.swap(true, AcqRel) {
            let runtime = &self.router.connector.runtime;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

/// Whether a call that failed with this error may have run.
fn call_failure(error: &CallError) -> CallFailure {
    match error {
        // An error reply normally means that nothing was written. But if another program has
        // written to the counter, that is not certain.
        CallError::Timeout
        | CallError::Unavailable(_)
        | CallError::ServerUnusable(_)
        | CallError::Refused(_) => CallFailure::Unknown,

        CallError::Overloaded
        | CallError::ScriptMissing
        | CallError::Moved(_)
        | CallError::Ask(_)
        | CallError::TryAgain => CallFailure::NotExecuted,
    }
}

/// Returns unused units and reports spent ones at intervals, until the lease table is empty or the
/// store is dropped.
async fn sweep(caller: Weak<LeaseCaller>) {
    loop {
        sleep(Duration::from(SWEEP_EVERY)).await;
        let Some(caller) = caller.upgrade() else {
            return;
        };
        let (calls, has_leases) = caller.leases.sweep();
        for call in calls {
            caller.call_in_background(call);
        }

        if !has_leases {
            caller.has_sweeper.store(false, Release);
            // A request that added a lease in the meantime may have seen the flag and not started
            // another sweeper.
            if caller.leases.keys() == 0 || caller.has_sweeper.swap(true, AcqRel) {
                return;
            }
        }
    }
}
