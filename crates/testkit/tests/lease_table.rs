//! Regressions of the lease table that simulations have found.

use std::sync::Arc;
use std::time::Duration;

use testkit::lending::Lender;
use tollgate::store::lease::{LeaseStep, LeaseTable};
use tollgate::{
    Consistency, DemandBuf, FixedWindow, Limit, ManualClock, Micros, Source, TokenBucket,
};

/// A lease of a window ends before the window does, even if the clock runs 5 % too slow.
#[test]
fn a_slow_clock_does_not_carry_a_lease_into_the_next_window() {
    let window = FixedWindow::new(100, Duration::from_secs(1)).unwrap();
    let rule = Limit::new("limit", window)
        .consistency(Consistency::Leased)
        .validate()
        .unwrap();
    let (own, mut store) = (ManualClock::default(), Lender::new(window.into()).unwrap());
    let leases = LeaseTable::new(Arc::new(own.clone()));
    let start: u64 = 1_798_761_600_000_000;
    let mut ask = |cost, at| {
        let LeaseStep::Call(trip) =
            leases.spend(&DemandBuf::new(&rule, "ann", cost).unwrap().as_demand())
        else {
            panic!("nothing is leased yet")
        };
        let given = store.take(cost, trip.lease_request(), Micros::new(start + at));
        trip.complete(&given).unwrap();
        given.units
    };
    assert_eq!(ask(20, 0), 0);
    own.advance(Duration::from_micros(95_000));
    assert!(ask(1, 100_000) > 0);
    own.advance(Duration::from_micros(900_000 / 100 * 95));
    let step = leases.spend(&DemandBuf::new(&rule, "ann", 1).unwrap().as_demand());
    assert!(
        !matches!(&step, LeaseStep::Decided(outcome, _) if outcome.source == Source::Lease),
        "the window has ended, but the step is {step:?}"
    );
}

/// A call may have its own quota. Units admitted by others and not yet reported count then as well.
#[test]
fn another_quota_does_not_hide_unreported_units() {
    let leases = LeaseTable::new(Arc::new(ManualClock::default()));
    let check = |capacity: u64| -> DemandBuf {
        let bucket = TokenBucket::new(capacity, tollgate::Rate::per_second(1)).unwrap();
        let limit = Limit::new("limit", bucket).consistency(Consistency::Eventual);
        DemandBuf::new(&limit.validate().unwrap(), "ann", 1).unwrap()
    };
    let checks = [check(100), check(200)];
    let passes = |index: usize| {
        let step = leases.spend(&checks[index % 2].as_demand());
        matches!(step, LeaseStep::Decided(outcome, _) if outcome.outcome.verdict.is_allowed())
    };
    let admitted = (0..1_000).filter(|index| passes(*index)).count();
    assert!(
        admitted <= 20,
        "{admitted} were admitted without a report to the store"
    );
}
