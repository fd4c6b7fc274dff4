//! What a process may spend, found by simulating many of them.

use std::sync::Arc;
use std::time::Duration;

use testkit::lending::Lender;
use tollgate::lease::{LeaseStep, LeaseTable};
use tollgate::store::DemandBuf;
use tollgate::{Consistency, FixedWindow, Limit, ManualClock, Micros, Source, TokenBucket};

/// A lease of a window ends before the window does, also where the clock runs a twentieth too slow.
#[test]
fn a_slow_clock_does_not_carry_a_lease_into_the_next_window() {
    let window = FixedWindow::new(100, Duration::from_secs(1)).unwrap();
    let rule = Limit::new("limit", window)
        .consistency(Consistency::Leased)
        .rule()
        .unwrap();
    let (own, mut store) = (ManualClock::default(), Lender::new(window.into()).unwrap());
    let leases = LeaseTable::new(Arc::new(own.clone()));
    let start: u64 = 1_798_761_600_000_000;
    let mut ask = |cost, at| {
        let LeaseStep::Call(trip) = leases.spend(&rule.demand("ann", cost).unwrap().as_demand())
        else {
            panic!("nothing is held yet")
        };
        let given = store.take(cost, trip.request(), Micros::new(start + at));
        trip.complete(&given).unwrap();
        given.units
    };
    assert_eq!(ask(20, 0), 0);
    own.advance(Duration::from_micros(95_000));
    assert_eq!(ask(1, 100_000), 10, "as many as are asked for in 50 ms");
    own.advance(Duration::from_micros(900_000 / 100 * 95));
    let turn = leases.spend(&rule.demand("ann", 1).unwrap().as_demand());
    assert!(
        !matches!(&turn, LeaseStep::Decided(said, _) if said.source == Source::Lease),
        "the window has ended, and it says {turn:?}"
    );
}

/// A call may bring numbers of its own. What was admitted by others and not told counts also then.
#[test]
fn other_numbers_do_not_hide_what_the_store_was_not_told() {
    let leases = LeaseTable::new(Arc::new(ManualClock::default()));
    let check = |capacity: u64| -> DemandBuf {
        let bucket = TokenBucket::new(capacity, tollgate::Rate::per_second(1)).unwrap();
        Limit::new("limit", bucket)
            .consistency(Consistency::Eventual)
            .rule()
            .unwrap()
            .demand("ann", 1)
            .unwrap()
    };
    let checks = [check(100), check(200)];
    let passes = |index: usize| {
        let turn = leases.spend(&checks[index % 2].as_demand());
        matches!(turn, LeaseStep::Decided(said, _) if said.outcome.verdict.is_allowed())
    };
    let admitted = (0..1_000).filter(|index| passes(*index)).count();
    assert!(
        admitted <= 20,
        "{admitted} were let through without a word to the store"
    );
}
