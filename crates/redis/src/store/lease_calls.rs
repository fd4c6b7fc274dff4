//! Lease calls, which refill, renew and return the leases of this instance.
//!
//! They run in tasks of their own, so that the granted units are kept even if the request that
//! caused the call no longer waits, or the reply comes after its deadline.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tollgate::store::lease::{CallFailure, LeaseCall, LeaseOutcome, LeaseTable, SWEEP_EVERY};

use super::router::CallRouter;
use crate::error::{CallError, ServerError};
use crate::link::{CallDeadline, CallResult, LateReply};
use crate::log;
use crate::wire::DemandTerms;

/// The most leases that are returned in parallel.
const RETURNS_MAX: usize = 256;

/// The outcome for the request that made a lease call.
type LeaseResult = Result<LeaseOutcome, CallError>;

/// The leases of this instance, and the calls for them.
pub(crate) struct LeaseCaller {
    pub(crate) router: Arc<CallRouter>,
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
        drop(self.start_call(call, self.router.deadline()));
    }

    /// Makes a lease call in a task of its own. The future returns the outcome, or an error at the
    /// deadline at the latest. The reply is used even if it comes later: then the store has charged
    /// the request although its failure policy decided, as for a strict limit.
    pub(super) fn start_call(
        self: &Arc<Self>,
        call: LeaseCall,
        deadline: Instant,
    ) -> impl Future<Output = LeaseResult> + Send + use<> {
        self.ensure_sweeper();
        let (result_sender, result) = oneshot::channel();
        let task = self.clone().make_call(call, deadline, result_sender);
        self.router.connector.runtime.spawn(task);

        async {
            result.await.unwrap_or_else(|_| {
                let error = ServerError::new("the runtime is shutting down");
                Err(CallError::Unavailable(error))
            })
        }
    }

    async fn make_call(
        self: Arc<Self>,
        lease_call: LeaseCall,
        deadline: Instant,
        result_sender: oneshot::Sender<LeaseResult>,
    ) {
        let (call, terms) = {
            let demand = lease_call.demand();
            let encoder = &self.router.encoder;
            let call = encoder.lease(&demand, lease_call.lease_request());
            (call, DemandTerms::new(&demand))
        };

        let lease_end = Instant::now() + Duration::from(lease_call.reply_timeout());
        let (overdue, mut overdue_error) = mpsc::channel(1);
        let late_reply = LateReply {
            use_until: lease_end.max(deadline),
            overdue,
        };
        let deadline = CallDeadline {
            decide_by: deadline,
            late_reply: Some(late_reply),
        };
        let routed_call = self.router.submit(call, deadline);
        let mut reply = pin!(async { routed_call?.run().await });

        // The request may no longer wait for the result.
        tokio::select! {
            biased;
            reply = &mut reply => {
                let result = finish_call(lease_call, reply, &terms);
                if let Err(unread) = result_sender.send(result) {
                    log_unread(&unread, &terms);
                }
            }
            Some(error) = overdue_error.recv() => {
                lease_call.mark_overdue();
                drop(result_sender.send(Err(error)));
                log_unread(&finish_call(lease_call, reply.await, &terms), &terms);
            }
        }
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
            let results: Vec<_> = calls.map(|call| self.start_call(call, deadline)).collect();

            for call_result in results {
                result = result.and(call_result.await.map(drop));
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

/// Enters the result of a lease call into the lease table.
fn finish_call(lease_call: LeaseCall, reply: CallResult, terms: &DemandTerms) -> LeaseResult {
    match reply {
        Ok(reply) => {
            let grant = reply.lease_grant(terms)?;
            let outcome = lease_call.complete(&grant);
            outcome.ok_or_else(|| CallError::foreign_write(1))
        }
        Err(error) => {
            lease_call.fail(call_failure(&error));
            Err(error)
        }
    }
}

/// Logs a malformed counter that no request will report.
fn log_unread(result: &LeaseResult, terms: &DemandTerms) {
    if let Err(CallError::Malformed(_)) = result {
        log::malformed_counter(terms.limit);
    }
}

/// Whether a call that failed with this error may have run.
fn call_failure(error: &CallError) -> CallFailure {
    match error {
        // An error reply normally means that nothing was written. But if another program has
        // written to the counter, that is not certain.
        CallError::Timeout
        | CallError::Overdue
        | CallError::Unavailable(_)
        | CallError::ServerUnusable(_)
        | CallError::Malformed(_)
        | CallError::ScriptFailed(_)
        | CallError::Refused(_) => CallFailure::Unknown,

        CallError::Expired
        | CallError::NotSent(_)
        | CallError::Overloaded
        | CallError::Bound(_)
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
