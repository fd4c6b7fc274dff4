//! Minimal traces on which the embedded store once differed from the model.

use std::time::Duration;

use testkit::differential::{Act, Ask, Cost, Counter, Length, Move, Step, Trace, run_trace};
use tollgate::algorithm::CLOCK_SLACK;
use tollgate::store::Intent;
use tollgate::{
    Concurrency, DemandBuf, FixedWindow, Limit, ManualClock, MemoryStore, Micros, PermitId, Quota,
    Rate, ReservationExpiry, SlidingLog, SlidingWindow, Store, TokenBucket,
};

const SECOND: u64 = 1_000_000;

fn ask(cost: u64) -> Vec<Ask> {
    vec![Ask {
        counter: 0,
        quota: 0,
        cost: Cost::Units(cost),
        shadow: false,
    }]
}

fn now(act: Act) -> Step {
    Step {
        time: Move::Stay,
        act,
    }
}

fn after(micros: u64, act: Act) -> Step {
    Step {
        time: Move::Forward(Length::Micros(micros)),
        act,
    }
}

fn back(micros: u64, act: Act) -> Step {
    Step {
        time: Move::Back(Length::Micros(micros)),
        act,
    }
}

/// A counter that may owe any number of units.
fn counter(quotas: Vec<Quota>) -> Counter {
    Counter {
        quotas,
        debt_max: u64::MAX,
        on_reservation_expiry: ReservationExpiry::Release,
        lockout: None,
    }
}

/// Replays steps on one counter.
fn agree(quotas: impl IntoIterator<Item = Quota>, steps: Vec<Step>) {
    agree_on(vec![counter(quotas.into_iter().collect())], steps);
}

/// Replays steps from a full second that is not a multiple of ten seconds.
#[expect(clippy::panic, reason = "it fails the test with a readable trace")]
fn agree_on(counters: Vec<Counter>, steps: Vec<Step>) {
    let trace = Trace {
        start: Micros::from_secs(1_798_761_605),
        counters,
        steps,
    };
    let clock = ManualClock::default();
    let store = MemoryStore::builder()
        .keys_max(64)
        .clock(clock.clone())
        .build();
    run_trace(&store, &clock, &trace).unwrap_or_else(|difference| panic!("{difference}"));
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A peek, or a request that another limit denies, was charged when it was the first to notice that
/// the clock was set back.
#[test]
fn a_peek_after_a_clock_step_takes_nothing() {
    let steps = vec![
        now(Act::Spend(ask(1))),
        back(3_600 * SECOND, Act::Peek(ask(1))),
        now(Act::Peek(ask(1))),
    ];
    agree(
        [FixedWindow::new(5, seconds(10)).unwrap().into()],
        steps.clone(),
    );
    agree([SlidingWindow::new(5, seconds(10)).unwrap().into()], steps);
}

/// A peek that would have been allowed noticed that the clock was set back, but did not store the
/// correction.
#[test]
fn a_peek_stores_the_correction_of_a_clock_step() {
    let steps = vec![
        now(Act::Spend(ask(1))),
        back(3_600 * SECOND, Act::Peek(ask(1))),
        after(3_600 * SECOND, Act::Peek(ask(1))),
    ];
    agree(
        [FixedWindow::new(5, seconds(10)).unwrap().into()],
        steps.clone(),
    );
    agree([SlidingWindow::new(5, seconds(10)).unwrap().into()], steps);
}

#[test]
fn a_request_denied_after_a_clock_step_takes_nothing() {
    let both = || {
        [0, 1]
            .map(|counter| Ask {
                counter,
                quota: 0,
                cost: Cost::Units(1),
                shadow: false,
            })
            .to_vec()
    };
    let quotas = |limit| -> [Quota; 2] {
        [
            FixedWindow::new(limit, seconds(10)).unwrap().into(),
            SlidingWindow::new(limit, seconds(10)).unwrap().into(),
        ]
    };
    for (narrow, wide) in quotas(1).into_iter().zip(quotas(5)) {
        let counters = [narrow, wide].map(|quota| counter(vec![quota])).to_vec();
        let steps = vec![
            now(Act::Spend(both())),
            back(3_600 * SECOND, Act::Spend(both())),
        ];
        agree_on(counters, steps);
    }
}

/// An overdrawn bucket denied a cost of zero.
#[test]
fn a_cost_of_zero_is_allowed_on_an_overdrawn_bucket() {
    let bucket = |capacity| {
        TokenBucket::new(capacity, Rate::per_second(1))
            .unwrap()
            .into()
    };
    agree(
        [bucket(5)],
        vec![
            now(Act::Spend(ask(5))),
            back(SECOND / 2, Act::Spend(ask(0))),
        ],
    );
}

/// Within the slack a sliding window reported times relative to its start instead of now: waiting
/// that long was too short.
#[test]
fn a_sliding_window_reports_times_relative_to_now() {
    let quota: Quota = SlidingWindow::new(1, Duration::from_millis(1))
        .unwrap()
        .into();
    agree(
        [quota],
        vec![now(Act::Spend(ask(1))), back(1, Act::Spend(ask(0)))],
    );
    agree(
        [quota],
        vec![now(Act::Spend(ask(1))), back(1, Act::Spend(ask(1)))],
    );
}

/// A hit is stamped no earlier than the previous one, so the log is empty only one window after
/// that stamp.
#[test]
fn a_log_is_reset_when_its_last_stamp_expires() {
    let quota: Quota = SlidingLog::new(4, Duration::from_millis(100))
        .unwrap()
        .into();
    agree(
        [quota],
        vec![now(Act::Spend(ask(3))), back(100, Act::Spend(ask(1)))],
    );
}

/// Of two hits ahead of the clock, one within the slack and one beyond it, the second is restamped
/// to before the first.
#[test]
fn restamped_hits_keep_the_log_in_order() {
    let quota: Quota = SlidingLog::new(4, seconds(10)).unwrap().into();
    let hits = vec![
        now(Act::Spend(ask(1))),
        after(SECOND, Act::Spend(ask(2))),
        back(SECOND * 3 / 2, Act::Spend(ask(3))),
    ];
    agree(
        [quota],
        [hits.clone(), vec![after(10 * SECOND, Act::Peek(ask(3)))]].concat(),
    );
    agree(
        [quota],
        [hits, vec![now(Act::Refund(ask(1))), now(Act::Peek(ask(4)))]].concat(),
    );
}

/// The same for permits: they are ordered by when they time out.
#[test]
fn permits_pulled_in_stay_in_order() {
    let quota: Quota = Concurrency::new(3, seconds(10)).unwrap().into();
    let steps = vec![
        now(Act::Spend(ask(1))),
        after(SECOND, Act::Spend(ask(2))),
        back(SECOND * 3 / 2, Act::Spend(ask(1))),
    ];
    agree([quota], steps);
}

/// A permit that is already held may time out after the new one.
#[test]
fn all_permits_are_free_when_the_last_one_times_out() {
    let quota = |limit, millis| -> Quota {
        Concurrency::new(limit, Duration::from_millis(millis))
            .unwrap()
            .into()
    };
    let changed = vec![Ask {
        counter: 0,
        quota: 1,
        cost: Cost::Units(1),
        shadow: false,
    }];
    agree(
        [quota(1, 1_000), quota(2, 100)],
        vec![now(Act::Spend(ask(1))), now(Act::Peek(changed))],
    );
    agree(
        [quota(2, 1_000)],
        vec![now(Act::Spend(ask(1))), back(1_000, Act::Spend(ask(1)))],
    );
}

/// A peek did not correct the end of a window in which everything was refunded.
#[test]
fn a_refunded_window_is_corrected_too() {
    let quota: Quota = FixedWindow::new(2, seconds(1)).unwrap().into();
    let steps = vec![
        now(Act::Spend(ask(1))),
        now(Act::Refund(ask(1))),
        back(SECOND + 1, Act::Spend(ask(0))),
        back(1, Act::Spend(ask(1))),
    ];
    agree([quota], steps);
}

/// Threads read the clock before they take the lock. A sweep by a thread that read it later must
/// not reset the budget for one that read it slightly earlier.
#[test]
fn a_sweep_keeps_counters_that_a_slower_thread_needs() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder()
        .keys_max(64)
        .clock(clock.clone())
        .build();
    let rule = Limit::fixed_window("api", 1, seconds(60))
        .validate()
        .unwrap();
    let spend = || {
        let check = DemandBuf::new(&rule, "ann", 1).unwrap();
        let spent =
            pollster::block_on(store.spend(&[check.as_demand()], Intent::Spend, PermitId::NONE))
                .unwrap();
        spent.outcomes()[0].0.verdict.is_allowed()
    };
    let start = Micros::from_secs(1_798_761_600);
    clock.set(start);
    assert!(spend());
    clock.set(start.after(Micros::from_secs(60)).after(Micros::new(1)));
    store.sweep();
    clock.set(start.after(Micros::from_secs(60)).since(Micros::new(1)));
    assert!(
        !spend(),
        "the window has not ended yet, and the slack is {CLOCK_SLACK}"
    );
}
