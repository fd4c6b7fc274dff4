//! Simulations of many replicas on one store: the limit is never exceeded under any fault, and is
//! almost fully used without faults.

use std::time::Duration;

use testkit::fleet::{Audit, Faults, Load, Plan, run};
use testkit::volume;
use tollgate::{Consistency, FixedWindow, Quota, Rate, SlidingWindow, TokenBucket};

/// The seeds of the runs: 1000 in a thorough run.
fn seeds() -> impl Iterator<Item = u64> {
    let first = volume::seed();
    (0..volume::of(1_000)).map(move |run| first.wrapping_add(run))
}

/// Runs every seed; on failure it prints the end of the log of the first run that admitted too
/// much.
#[expect(clippy::panic, reason = "it fails the test with a readable log")]
fn never_above(consistency: Consistency) {
    let (mut admitted, mut local, mut decisions, mut calls) = (0, 0, 0, 0);
    for seed in seeds() {
        let plan = Plan::drawn(seed, consistency);
        let audit = Audit::of(&plan, &run(&plan, false));
        if audit.excess > 0 {
            let history = run(&plan, true).history;
            let tail = &history[history.len().saturating_sub(400)..];
            panic!("{}\n{plan:#?}\nseed {seed}: {audit:?}", tail.join("\n"));
        }
        admitted += audit.admitted;
        local += audit.local;
        decisions += audit.decisions;
        calls += audit.calls;
    }
    println!(
        "{consistency:?}: {admitted} admitted in {decisions} decisions, \
         {local} without a store call, {calls} store calls"
    );
}

#[test]
fn leased_limits_are_never_exceeded() {
    never_above(Consistency::Leased);
}

#[test]
fn eventual_limits_are_exceeded_at_most_by_unreported_units() {
    never_above(Consistency::Eventual);
}

/// The simulation detects violations: if clocks nearly stop, leases are spent after the store
/// has expired them.
#[test]
fn clocks_that_are_far_too_slow_are_detected() {
    let is_noticed = |seed: &u64| {
        let mut plan = Plan::drawn(*seed, Consistency::Leased);
        let faults = Faults {
            lost: 300,
            drift: 900_000,
            failovers: 0,
            resets: 0,
            ..plan.faults
        };
        (plan.faults, plan.load) = (faults, Load::Hoarding);
        Audit::of(&plan, &run(&plan, false)).excess > 0
    };
    let noticed = (0..300).filter(is_noticed).count();
    println!("detected in {noticed} of 300 runs");
    assert!(noticed > 0);
}

fn quotas() -> Vec<(&'static str, u64, Quota)> {
    let second = Duration::from_secs(1);
    let mut all = Vec::new();
    for limit in [10, 100, 1_000] {
        let bucket = TokenBucket::new(limit, Rate::per_second(limit)).expect("valid numbers");
        all.push(("bucket", limit, bucket.into()));
        all.push((
            "fixed",
            limit,
            FixedWindow::new(limit, second)
                .expect("valid numbers")
                .into(),
        ));
        all.push((
            "sliding",
            limit,
            SlidingWindow::new(limit, second)
                .expect("valid numbers")
                .into(),
        ));
    }
    all
}

/// What is admitted under a load of twice the limit and more, compared with one counter in memory
/// that gets the same requests.
#[test]
fn little_of_the_limit_is_lost() {
    println!("limit/s             replicas  load  utilisation          local  calls/decision");
    for (name, limit, quota) in quotas() {
        for (processes, tenths) in [(1, 20), (4, 20), (8, 5), (8, 10), (8, 20), (8, 100)] {
            let plan = Plan::calm(limit, quota, processes, tenths * limit, 10_000_000);
            let Audit {
                excess,
                what,
                admitted,
                ideal,
                decisions,
                local,
                calls,
                ..
            } = Audit::of(&plan, &run(&plan, false));
            let [used, local_share, calls_per_decision] =
                [(admitted, ideal), (local, decisions), (calls, decisions)].map(share);
            let load = f64::from(u32::try_from(tenths).expect("small")) / 10.0;
            println!(
                "{name:>8} {limit:>6} {processes:>12} {load:>5} \
                 {used:>12.3} {local_share:>14.3} {calls_per_decision:>15.4}"
            );
            assert!(excess <= 0, "{what}");
            let least = if limit >= 100 { 0.97 } else { 0.9 };
            assert!(
                tenths < 20 || used >= least,
                "{name} {limit}/s, {processes} replicas: {used}"
            );
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
fn share((part, whole): (u64, u64)) -> f64 {
    part as f64 / whole.max(1) as f64
}
