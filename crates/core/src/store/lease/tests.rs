//! What an instance decides, leases and returns, step by step. The tests play the store.

mod late;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::algorithm::remote::{BucketState, CounterState};
use crate::algorithm::{Outcome, Rate, Verdict};
use crate::clock::{Clock as _, ManualClock};
use crate::consistency::Consistency;
use crate::demand::DemandBuf;
use crate::limit::Limit;
use crate::limiter::Limiter;
use crate::store::Source;
use crate::time::Micros;

/// An instance with a limit whose bucket holds 1,000 units and refills at 1,000 per second.
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

    fn demand(&self, cost: u64) -> DemandBuf {
        DemandBuf::new(self.limiter.rule("api").unwrap(), "ann", cost).unwrap()
    }

    fn spend(&self, cost: u64) -> LeaseStep {
        self.leases.spend(&self.demand(cost).as_demand())
    }

    fn decide(&self, cost: u64) -> (Outcome, Source) {
        let LeaseStep::Decided(decided, _) = self.spend(cost) else {
            panic!("the demand was not decided locally")
        };
        (decided.outcome, decided.source)
    }

    fn call(&self, cost: u64) -> LeaseCall {
        let LeaseStep::Call(call) = self.spend(cost) else {
            panic!("the demand did not start a call")
        };
        call
    }

    /// The reply of a store with `left` units before the call, which grants all that it can.
    fn grant(&self, call: &LeaseCall, left: u64) -> LeaseGrant {
        let at = self.clock.now();
        let backlog = Micros::new((1_000 - left) * 1_000);
        let seen = CounterState::Bucket(BucketState {
            at: at.after(backlog),
            ..BucketState::default()
        });

        let units = left
            .checked_sub(call.demand().cost)
            .map_or(0, |rest| rest.min(call.lease_request().wanted));

        LeaseGrant {
            state: seen,
            at,
            units,
            generation: 7,
            is_known: call.lease_request().generation == 7,
            length: Micros::from_secs(2),
            turn_after: Micros::ZERO,
        }
    }

    fn reply(&self, call: LeaseCall, left: u64) -> Outcome {
        let grant = self.grant(&call, left);
        call.complete(&grant).unwrap().outcome
    }

    /// Spends often enough that the instance leases a batch, and returns its size.
    fn lease(&self) -> u64 {
        for _ in 0..2 {
            let LeaseStep::Call(call) = self.spend(20) else {
                break;
            };
            self.reply(call, 900);
        }
        self.leases.units()
    }
}

#[test]
fn the_first_call_leases_nothing_and_later_ones_what_the_demand_rate_needs() {
    let scene = Scene::new(Consistency::Leased);

    let call = scene.call(20);
    assert_eq!(
        *call.lease_request(),
        LeaseRequest {
            is_lent: true,
            ..LeaseRequest::default()
        }
    );
    assert_eq!(scene.reply(call, 900).remaining, 880);

    let call = scene.call(20);
    assert_eq!(
        call.lease_request().wanted,
        45,
        "what half a brief lease takes at 20 units in 50 ms"
    );
    assert_eq!(
        scene.reply(call, 880).remaining,
        860,
        "leased units still count as remaining"
    );

    assert_eq!(scene.leases.units(), 45);

    let (outcome, source) = scene.decide(5);
    assert_eq!((outcome.remaining, source), (855, Source::Lease));
}

#[test]
fn more_is_left_when_the_store_has_refilled_a_unit() {
    let scene = Scene::new(Consistency::Leased);
    assert_eq!(scene.lease(), 45);
    let more_after = || scene.decide(1).0.more_after.get();
    assert_eq!(more_after(), 1_000);

    scene.clock.advance(Duration::from_micros(400));
    assert_eq!(more_after(), 600);
    // The next unit comes within a millisecond, but the reply does not say when.
    scene.clock.advance(Duration::from_millis(10));
    assert_eq!(more_after(), 1_000);

    scene.clock.advance(Duration::from_secs(1));
    let (outcome, _) = scene.decide(1);
    assert_eq!(
        (outcome.reset_after, outcome.more_after),
        (Micros::ZERO, Micros::ZERO)
    );
}

#[test]
fn a_request_waits_for_the_call_in_flight() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(1);
    assert!(matches!(scene.spend(1), LeaseStep::Wait(_)));
    scene.reply(call, 900);
    assert!(matches!(scene.spend(1), LeaseStep::Call(_)));
}

/// A burst on a key that was not used before: what waits for the first call comes with the second.
#[test]
fn requests_that_wait_are_served_by_the_next_call() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(1);
    (0..80).for_each(|_| assert!(matches!(scene.spend(1), LeaseStep::Wait(_))));
    scene.reply(call, 900);

    let call = scene.call(1);
    assert_eq!(call.lease_request().needed, 79);
    scene.reply(call, 899);
    (0..79).for_each(|_| assert_eq!(scene.decide(1).1, Source::Lease));
}

#[test]
fn a_lease_that_runs_low_is_renewed_while_it_is_spent() {
    let scene = Scene::new(Consistency::Leased);
    assert_eq!(scene.lease(), 45);

    let LeaseStep::Decided(_, None) = scene.spend(33) else {
        panic!("there are enough units")
    };
    let LeaseStep::Decided(_, Some(call)) = scene.spend(1) else {
        panic!("the lease runs low")
    };

    let request = *call.lease_request();
    assert_eq!(
        (
            request.generation,
            request.held,
            request.kept,
            request.returned
        ),
        (7, 45, 11, 0)
    );
    assert!(request.wanted > 0 && call.demand().cost == 0);

    // The lease is still spent while the call is in flight.
    assert_eq!(scene.decide(3).1, Source::Lease);

    let grant = LeaseGrant {
        units: 50,
        ..scene.grant(&call, 800)
    };
    call.complete(&grant).unwrap();
    assert_eq!(
        scene.leases.units(),
        61,
        "the kept and the granted units, spent or not"
    );

    assert_eq!(scene.decide(58).1, Source::Lease);
    assert!(!matches!(scene.spend(1), LeaseStep::Decided(..)));
}

#[test]
fn units_that_the_store_does_not_know_are_not_spent() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    let LeaseStep::Decided(_, Some(call)) = scene.spend(40) else {
        panic!("the lease runs low")
    };

    let grant = LeaseGrant {
        units: 0,
        is_known: false,
        ..scene.grant(&call, 500)
    };
    call.complete(&grant).unwrap();

    assert!(!matches!(scene.spend(1), LeaseStep::Decided(..)));
}

#[test]
fn a_lease_expires_locally_before_it_expires_at_the_store() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(20);
    scene.reply(call, 900);
    let call = scene.call(20);

    // The reply takes a while; the life of the lease starts before the call.
    scene.clock.advance(Duration::from_millis(300));
    scene.reply(call, 880);

    scene.clock.advance(Duration::from_millis(1_499));
    assert_eq!(scene.decide(1).1, Source::Lease);
    scene.clock.advance(Duration::from_millis(1));
    assert!(!matches!(scene.spend(1), LeaseStep::Decided(..)));
}

#[test]
fn a_dropped_call_counts_as_failed_and_its_generation_is_unknown() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    let LeaseStep::Decided(_, Some(call)) = scene.spend(40) else {
        panic!("the lease runs low")
    };

    drop(call);
    assert_eq!(
        scene.decide(5).1,
        Source::Lease,
        "the available units are spent"
    );

    let call = scene.call(1);
    assert_eq!(
        (
            call.lease_request().generation,
            call.lease_request().held,
            call.lease_request().returned
        ),
        (0, 0, 0),
        "and never settled"
    );
}

#[test]
fn a_call_that_was_not_sent_changes_nothing() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    scene.call(60).fail(CallFailure::NotExecuted);
    assert_eq!(scene.decide(45).1, Source::Lease);
}

#[test]
fn a_denial_is_cached_for_a_while() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(20);
    let denied = scene.reply(call, 10);
    assert_eq!(
        denied.verdict,
        Verdict::Deny {
            retry_after: Micros::from_millis(25)
        },
        "not before the store is called again"
    );

    let (again, source) = scene.decide(20);
    assert_eq!((again.verdict, source), (denied.verdict, Source::DenyCache));

    let (more, _) = scene.decide(50);
    assert_eq!(
        more.verdict,
        Verdict::Deny {
            retry_after: Micros::from_millis(40)
        },
        "30 units more, 30 ms more"
    );
    assert_eq!(scene.decide(1_001).0.verdict, Verdict::Never);
    assert!(
        matches!(scene.spend(19), LeaseStep::Call(_)),
        "a lower cost may be allowed"
    );

    scene.clock.advance(Duration::from_millis(25));
    assert!(!matches!(scene.spend(20), LeaseStep::Decided(..)));
}

#[test]
fn a_store_with_nothing_left_is_not_called_again_immediately() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(20);
    assert!(scene.reply(call, 20).verdict.is_allowed());
    assert_eq!(scene.decide(1).1, Source::DenyCache);
}

#[test]
fn idle_units_are_returned_and_the_entry_is_removed() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    assert_eq!(scene.decide(5).1, Source::Lease);
    assert!(scene.leases.sweep().0.is_empty(), "the lease is in use");

    scene.clock.advance(Duration::from_millis(359));
    assert!(scene.leases.sweep().0.is_empty(), "such a pause is usual");
    scene.clock.advance(Duration::from_millis(1));
    let (mut calls, _) = scene.leases.sweep();
    let call = calls.pop().unwrap();
    let request = *call.lease_request();
    assert_eq!(
        (request.held, request.kept, request.returned, request.wanted),
        (45, 0, 40, 0)
    );

    scene.reply(call, 900);
    assert_eq!((scene.leases.units(), scene.leases.keys()), (0, 1));

    scene.clock.advance(Duration::from_secs(3));
    scene.leases.sweep();
    assert!(!scene.leases.sweep().1, "the table is empty");
    assert_eq!(scene.leases.keys(), 0);
}

#[test]
fn a_refund_of_locally_spent_units_stays_local() {
    let scene = Scene::new(Consistency::Leased);
    scene.lease();
    let left = scene.decide(5).0.remaining;
    assert!(scene.leases.refund(&scene.demand(5).as_demand()));
    assert!(
        !scene.leases.refund(&scene.demand(1).as_demand()),
        "no more than was spent of this lease"
    );
    assert_eq!(scene.decide(5).0.remaining, left);
}

#[test]
fn eventual_limits_allow_a_quantum_before_they_report_it() {
    let scene = Scene::new(Consistency::Eventual);
    assert_eq!(quantum(1_000, 4), 25);
    (0..25).for_each(|_| assert_eq!(scene.decide(1).1, Source::Lease));

    let call = scene.call(1);
    assert_eq!(
        (call.lease_request().wanted, call.lease_request().is_lent),
        (25, false)
    );
    scene.reply(call, 900);
    assert_eq!(scene.leases.units(), 0, "everything is reported");

    scene.clock.advance(Duration::from_millis(50));
    assert_eq!(scene.decide(3).1, Source::Lease);
    scene.clock.advance(Duration::from_millis(50));
    let (calls, _) = scene.leases.sweep();
    assert_eq!(
        calls
            .iter()
            .map(|call| call.lease_request().wanted)
            .collect::<Vec<_>>(),
        [3],
        "reported within 50 ms"
    );
}

#[test]
fn units_that_cannot_be_reported_are_not_allowed_again() {
    let scene = Scene::new(Consistency::Eventual);
    (0..20).for_each(|_| assert_eq!(scene.decide(1).1, Source::Lease));
    let call = scene.call(20);
    // The store has room for the 20 units of this request and 5 of the unreported ones.
    assert!(scene.reply(call, 25).verdict.is_allowed());
    assert_eq!(scene.leases.units(), 15);
    assert_eq!(scene.decide(1).1, Source::DenyCache);
}

/// A counter that is asked for now and then: every 300 ms, where a long lease lives for 1.8 s.
#[test]
fn a_lukewarm_key_is_leased_too() {
    let scene = Scene::new(Consistency::Leased);
    let mut calls = 0;
    for _ in 0..60 {
        if let LeaseStep::Call(call) = scene.spend(1) {
            scene.reply(call, 900);
            calls += 1;
        }
        scene.clock.advance(Duration::from_millis(300));
    }
    assert!(calls <= 12, "{calls} calls for 60 requests");
}

#[test]
fn a_denial_lasts_until_the_turn_of_the_instance() {
    let scene = Scene::new(Consistency::Leased);
    let call = scene.call(20);
    let grant = LeaseGrant {
        turn_after: Micros::from_millis(640),
        ..scene.grant(&call, 10)
    };
    let denied = call.complete(&grant).unwrap().outcome;
    assert_eq!(
        denied.verdict,
        Verdict::Deny {
            retry_after: Micros::from_millis(640)
        }
    );

    scene.clock.advance(Duration::from_millis(639));
    assert_eq!(scene.decide(20).1, Source::DenyCache);
    scene.clock.advance(Duration::from_millis(1));
    assert!(matches!(scene.spend(20), LeaseStep::Call(_)));
}

/// A brief lease is written off soon, so the store need not learn that it is spent.
#[test]
fn a_brief_lease_that_is_spent_is_not_settled() {
    for (length, settles) in [(250, false), (2_000, true)] {
        let scene = Scene::new(Consistency::Leased);
        let call = scene.call(20);
        scene.reply(call, 900);
        let call = scene.call(20);
        let grant = LeaseGrant {
            length: Micros::from_millis(length),
            ..scene.grant(&call, 880)
        };
        call.complete(&grant).unwrap();
        let LeaseStep::Decided(_, Some(renewal)) = scene.spend(45) else {
            panic!("the lease covers the demand")
        };
        renewal.fail(CallFailure::NotExecuted);

        scene.clock.advance(Duration::from_secs(1));
        assert_eq!(
            scene.leases.sweep().0.len(),
            usize::from(settles),
            "{length}"
        );
    }
}

/// Entries that only remember demand make room for others.
#[test]
fn a_flood_of_keys_does_not_switch_leases_off() {
    let scene = Scene::new(Consistency::Leased);
    let rule = scene.limiter.rule("api").unwrap();
    for key in 0..100_000_u64 {
        let demand = DemandBuf::new(rule, key, 1).unwrap();
        let LeaseStep::Call(call) = scene.leases.spend(&demand.as_demand()) else {
            panic!("the table has no room for key {key}")
        };
        let grant = scene.grant(&call, 900);
        call.complete(&grant).unwrap();
    }
    assert!(scene.leases.keys() <= 65_536);
}
