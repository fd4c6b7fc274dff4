//! What a process says, takes and gives back, step by step, with a store played by hand.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::algorithm::remote::CounterState;
use crate::algorithm::{Outcome, Rate, Verdict};
use crate::clock::{Clock as _, ManualClock};
use crate::consistency::Consistency;
use crate::decision::Source;
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::store::DemandBuf;
use crate::time::Micros;

/// A process, and a full bucket of 1,000 elsewhere that refills at 1,000 a second.
struct Scene {
    clock: ManualClock,
    leases: LeaseTable,
    limiter: Limiter,
}

impl Scene {
    fn new(consistency: Consistency) -> Self {
        let clock = ManualClock::new(Micros::from_secs(1_800_000_000));
        let limit =
            Limit::token_bucket("api", 1_000, Rate::per_second(1_000)).consistency(consistency);
        let limiter = Limiter::builder()
            .limit(limit)
            .expected_replicas(4)
            .build()
            .unwrap();
        Self {
            leases: LeaseTable::new(Arc::new(clock.clone())),
            clock,
            limiter,
        }
    }

    fn check(&self, cost: u64) -> DemandBuf {
        self.limiter
            .rule("api")
            .unwrap()
            .demand("ann", cost)
            .unwrap()
    }

    fn spend(&self, cost: u64) -> LeaseStep {
        self.leases.spend(&self.check(cost).as_demand())
    }

    fn said(&self, cost: u64) -> (Outcome, Source) {
        let LeaseStep::Decided(said, _) = self.spend(cost) else {
            panic!("it is not known here")
        };
        (said.outcome, said.source)
    }

    fn go(&self, cost: u64) -> LeaseCall {
        let LeaseStep::Call(trip) = self.spend(cost) else {
            panic!("it is known here")
        };
        trip
    }

    /// A store in which so many units are left before the trip's cost gives all that it can.
    fn given(&self, trip: &LeaseCall, left: u64) -> LeaseGrant {
        let at = self.clock.now();
        let backlog = Micros::new((1_000 - left) * 1_000);
        let seen = CounterState::Bucket {
            at: at.after(backlog),
            part: 0,
        };
        let units = left
            .checked_sub(trip.demand().cost)
            .map_or(0, |rest| rest.min(trip.request().most));
        LeaseGrant {
            seen,
            at,
            units,
            generation: 7,
            is_kept: trip.request().generation == 7,
        }
    }

    fn answer(&self, trip: LeaseCall, left: u64) -> Outcome {
        let given = self.given(&trip, left);
        trip.complete(&given).unwrap().outcome
    }

    /// Makes the key hot: asked for 40 times, then again.
    fn lease(&self) -> u64 {
        for _ in 0..2 {
            let LeaseStep::Call(trip) = self.spend(20) else {
                break;
            };
            self.answer(trip, 900);
        }
        self.leases.units()
    }
}

#[test]
fn the_first_request_takes_nothing_in_advance_and_later_ones_what_the_pace_needs() {
    let scene = Scene::new(Consistency::Leased);
    let trip = scene.go(20);
    assert_eq!(
        *trip.request(),
        LeaseRequest {
            is_lent: true,
            ..LeaseRequest::default()
        }
    );
    assert_eq!(scene.answer(trip, 900).remaining, 880);
    let trip = scene.go(20);
    assert_eq!(trip.request().most, 20, "as many as were asked for so far");
    assert_eq!(
        scene.answer(trip, 880).remaining,
        860,
        "what was taken is still there for the asking"
    );
    assert_eq!(scene.leases.units(), 20);
    let (outcome, source) = scene.said(5);
    assert_eq!((outcome.remaining, source), (855, Source::Lease));
}

#[test]
fn whoever_needs_what_is_on_its_way_waits_for_it() {
    let scene = Scene::new(Consistency::Leased);
    let trip = scene.go(1);
    assert!(matches!(scene.spend(1), LeaseStep::Wait(_)));
    scene.answer(trip, 900);
    assert!(matches!(scene.spend(1), LeaseStep::Call(_)));
}

#[test]
fn a_lease_that_runs_low_is_renewed_while_it_is_spent() {
    let scene = Scene::new(Consistency::Leased);
    assert_eq!(scene.lease(), 20);
    let LeaseStep::Decided(_, None) = scene.spend(14) else {
        panic!("there is enough")
    };
    let LeaseStep::Decided(_, Some(trip)) = scene.spend(1) else {
        panic!("it runs low")
    };
    let take = *trip.request();
    assert_eq!(
        (take.generation, take.held, take.keep, take.back),
        (7, 20, 5, 0)
    );
    assert!(take.most > 0 && trip.demand().cost == 0);
    // On the way it is spent on.
    assert_eq!(scene.said(3).1, Source::Lease);
    let given = LeaseGrant {
        units: 50,
        ..scene.given(&trip, 800)
    };
    trip.complete(&given).unwrap();
    assert_eq!(
        scene.leases.units(),
        55,
        "what was kept and what was given, spent or not"
    );
    assert_eq!(scene.said(52).1, Source::Lease);
    assert!(!matches!(scene.spend(1), LeaseStep::Decided(..)));
}

#[test]
fn what_the_store_has_forgotten_is_not_spent() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    let LeaseStep::Decided(_, Some(trip)) = scene.spend(16) else {
        panic!("it runs low")
    };
    let given = LeaseGrant {
        units: 0,
        is_kept: false,
        ..scene.given(&trip, 500)
    };
    trip.complete(&given).unwrap();
    assert!(!matches!(scene.spend(1), LeaseStep::Decided(..)));
}

#[test]
fn a_lease_ends_here_before_it_ends_at_the_store() {
    let scene = Scene::new(Consistency::Leased);
    let trip = scene.go(20);
    scene.answer(trip, 900);
    let trip = scene.go(20);
    // The answer takes its time; the lease is counted from before.
    scene.clock.advance(Duration::from_millis(300));
    scene.answer(trip, 880);
    scene.clock.advance(Duration::from_millis(599));
    assert_eq!(scene.said(1).1, Source::Lease);
    scene.clock.advance(Duration::from_millis(1));
    assert!(!matches!(scene.spend(1), LeaseStep::Decided(..)));
}

#[test]
fn a_trip_that_nobody_ends_is_lost_and_takes_its_name_with_it() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    let LeaseStep::Decided(_, Some(trip)) = scene.spend(16) else {
        panic!("it runs low")
    };
    drop(trip);
    assert_eq!(scene.said(4).1, Source::Lease, "what is here is spent");
    let trip = scene.go(1);
    assert_eq!(
        (
            trip.request().generation,
            trip.request().held,
            trip.request().back
        ),
        (0, 0, 0),
        "and never settled"
    );
}

#[test]
fn what_was_not_sent_is_as_before() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    scene.go(30).fail(CallFailure::NotSent);
    assert_eq!(scene.said(20).1, Source::Lease);
}

#[test]
fn a_denial_is_believed_for_a_while() {
    let scene = Scene::new(Consistency::Leased);
    let trip = scene.go(20);
    let denied = scene.answer(trip, 10);
    assert_eq!(
        denied.verdict,
        Verdict::Deny {
            retry_after: Micros::from_millis(25)
        },
        "not before it is asked again"
    );
    let (again, source) = scene.said(20);
    assert_eq!((again.verdict, source), (denied.verdict, Source::DenyCache));
    let (more, _) = scene.said(50);
    assert_eq!(
        more.verdict,
        Verdict::Deny {
            retry_after: Micros::from_millis(40)
        },
        "30 units more, 30 ms more"
    );
    assert_eq!(scene.said(1_001).0.verdict, Verdict::Never);
    assert!(
        matches!(scene.spend(19), LeaseStep::Call(_)),
        "what costs less may pass"
    );
    scene.clock.advance(Duration::from_millis(25));
    assert!(!matches!(scene.spend(20), LeaseStep::Decided(..)));
}

#[test]
fn a_store_that_gave_its_last_unit_is_not_asked_again_at_once() {
    let scene = Scene::new(Consistency::Leased);
    let trip = scene.go(20);
    assert!(scene.answer(trip, 20).verdict.is_allowed());
    assert_eq!(scene.said(1).1, Source::DenyCache);
}

#[test]
fn what_lies_idle_goes_back_and_is_then_forgotten() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    assert_eq!(scene.said(5).1, Source::Lease);
    assert!(scene.leases.sweep().0.is_empty(), "it is in use");
    scene.clock.advance(Duration::from_millis(100));
    let (mut trips, _) = scene.leases.sweep();
    let trip = trips.pop().unwrap();
    let take = *trip.request();
    assert_eq!((take.held, take.keep, take.back, take.most), (20, 0, 15, 0));
    scene.answer(trip, 900);
    assert_eq!((scene.leases.units(), scene.leases.keys()), (0, 1));
    scene.clock.advance(Duration::from_secs(2));
    scene.leases.sweep();
    assert!(!scene.leases.sweep().1, "nothing is left to look after");
    assert_eq!(scene.leases.keys(), 0);
}

#[test]
fn a_refund_of_what_was_spent_here_stays_here() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    let left = scene.said(5).0.remaining;
    assert!(scene.leases.refund(&scene.check(5).as_demand()));
    assert!(
        !scene.leases.refund(&scene.check(1).as_demand()),
        "no more than was spent of this lease"
    );
    assert_eq!(scene.said(5).0.remaining, left);
}

#[test]
fn eventual_limits_admit_a_quantum_before_they_tell() {
    let scene = Scene::new(Consistency::Eventual);
    assert_eq!(quantum(1_000, 4), 25);
    (0..25).for_each(|_| assert_eq!(scene.said(1).1, Source::Lease));
    let trip = scene.go(1);
    assert_eq!((trip.request().most, trip.request().is_lent), (25, false));
    scene.answer(trip, 900);
    assert_eq!(scene.leases.units(), 0, "everything is told");
    scene.clock.advance(Duration::from_millis(50));
    assert_eq!(scene.said(3).1, Source::Lease);
    scene.clock.advance(Duration::from_millis(50));
    let (trips, _) = scene.leases.sweep();
    assert_eq!(
        trips
            .iter()
            .map(|trip| trip.request().most)
            .collect::<Vec<_>>(),
        [3],
        "and told before long"
    );
}

#[test]
fn what_cannot_be_told_is_not_admitted_again() {
    let scene = Scene::new(Consistency::Eventual);
    (0..20).for_each(|_| assert_eq!(scene.said(1).1, Source::Lease));
    let trip = scene.go(20);
    // The store has room for the 20 of this request and 5 of those that were not told.
    assert!(scene.answer(trip, 25).verdict.is_allowed());
    assert_eq!(scene.leases.units(), 15);
    assert_eq!(scene.said(1).1, Source::DenyCache);
}
