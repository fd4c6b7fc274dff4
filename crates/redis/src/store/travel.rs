//! Trips for leases: made by tasks of their own, so that what they bring is kept also when nobody
//! waits for it any more.

use std::sync::Weak;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tollgate::lease::{CallFailure, LeaseCall, LeaseOutcome, SWEEP_EVERY};
use tollgate::store::StoreFuture;

use super::attempt::Attempt;
use super::{Inner, RedisStore, pending};
use crate::failure::{Cause, Failure};
use crate::wire::Asked;

/// How many leases are given back at a time.
const LEAVING: usize = 256;

impl RedisStore {
    /// Makes a trip in the background. What comes of it shows in what is held.
    #[cold]
    pub(super) fn send(&self, trip: LeaseCall) {
        drop(self.travel(trip, self.deadline()));
    }

    /// Makes a trip.
    pub(super) fn travel(
        &self,
        trip: LeaseCall,
        deadline: Instant,
    ) -> JoinHandle<Result<LeaseOutcome, Failure>> {
        self.look_after();
        self.inner.runtime.spawn(make(self.clone(), trip, deadline))
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.inner.timeout
    }

    /// Gives back everything, some at a time. The first that could not be given back is told; the
    /// store takes those off by itself before long.
    pub(super) fn return_all(&self) -> StoreFuture<'_, ()> {
        pending(async move {
            let (trips, flights) = self.inner.leases.return_leases();
            let mut result = self.make_all(trips).await;
            // What is under way may bring more.
            for flight in flights {
                drop(timeout_at(self.deadline(), flight.completion()).await);
            }
            let (trips, _) = self.inner.leases.return_leases();
            result = result.and(self.make_all(trips).await);
            Ok(result?)
        })
    }

    async fn make_all(&self, mut trips: Vec<LeaseCall>) -> Result<(), Failure> {
        let mut result = Ok(());
        while !trips.is_empty() {
            let some = trips.split_off(trips.len().saturating_sub(LEAVING));
            let some: Vec<_> = some
                .into_iter()
                .map(|trip| self.travel(trip, self.deadline()))
                .collect();
            for trip in some {
                result = result.and(joined(trip).await.map(drop));
            }
        }
        result
    }

    /// Has somebody look for idle units as long as anything is held.
    pub(super) fn look_after(&self) {
        if !self.inner.is_swept.swap(true, AcqRel) {
            self.inner
                .runtime
                .spawn(sweep(std::sync::Arc::downgrade(&self.inner)));
        }
    }
}

#[cfg(feature = "manual-time")]
impl RedisStore {
    /// One take and what it was given, for tests that compare the script with the model.
    pub(crate) async fn take(
        &self,
        check: &tollgate::Demand<'_>,
        take: &tollgate::lease::LeaseRequest,
    ) -> Result<tollgate::lease::LeaseGrant, tollgate::StoreError> {
        let request = self.inner.keys.take(check, take);
        let answered = Attempt::start(self.inner.clone(), request, self.deadline())
            .run()
            .await?;
        let disagree = || Failure::Refused(Cause::new("the script and the arithmetic disagree"));
        Ok(answered.given(&Asked::new(check)).ok_or_else(disagree)?)
    }
}

/// The end of a trip.
pub(super) async fn joined(
    trip: JoinHandle<Result<LeaseOutcome, Failure>>,
) -> Result<LeaseOutcome, Failure> {
    trip.await.unwrap_or_else(|_| {
        Err(Failure::Unavailable(Cause::new(
            "the runtime is shutting down",
        )))
    })
}

async fn make(
    store: RedisStore,
    trip: LeaseCall,
    deadline: Instant,
) -> Result<LeaseOutcome, Failure> {
    let (request, asked) = {
        let check = trip.demand();
        (
            store.inner.keys.take(&check, trip.request()),
            Asked::new(&check),
        )
    };
    let attempt = match Attempt::start(store.inner.clone(), request, deadline).fail_fast() {
        Ok(attempt) => attempt,
        Err(failure) => {
            trip.fail(CallFailure::NotSent);
            return Err(failure);
        }
    };
    let answered = match attempt.run().await {
        Ok(answered) => answered,
        Err(failure) => {
            trip.fail(lost(&failure));
            return Err(failure);
        }
    };
    let said = answered
        .given(&asked)
        .and_then(|given| trip.complete(&given));
    said.ok_or_else(|| {
        Failure::Refused(Cause::new(
            "a counter was written by something else, or by another version",
        ))
    })
}

/// Whether the trip may have run.
fn lost(failure: &Failure) -> CallFailure {
    match failure {
        // A refusal came before anything was written, unless somebody else has written to the
        // counter.
        Failure::Timeout | Failure::Unavailable(_) | Failure::Refused(_) => CallFailure::Unknown,
        Failure::Overloaded | Failure::Moved(_) | Failure::Ask(_) | Failure::TryAgain => {
            CallFailure::NotSent
        }
    }
}

/// Gives back what lies idle and tells what is not told, until nothing is held or the store is
/// gone.
async fn sweep(inner: Weak<Inner>) {
    loop {
        sleep(Duration::from(SWEEP_EVERY)).await;
        let Some(inner) = inner.upgrade() else { return };
        let (trips, holds_something) = inner.leases.sweep();
        let store = RedisStore { inner };
        for trip in trips {
            store.send(trip);
        }
        if !holds_something {
            store.inner.is_swept.store(false, Release);
            // Whoever took something meanwhile may have seen that it was being looked after.
            if store.inner.leases.keys() == 0 || store.inner.is_swept.swap(true, AcqRel) {
                return;
            }
        }
    }
}
