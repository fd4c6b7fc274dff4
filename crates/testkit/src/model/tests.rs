//! Compares the model with numbers computed by hand from the table of formulas, as an independent
//! check.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::KeyLock;
use tollgate::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, Rate, SlidingLog, SlidingWindow, TokenBucket,
};

use super::*;
use crate::differential::{Kind, quota_strategy};

/// 2027-01-01 00:00:00 UTC: a whole number of seconds, minutes, hours and days.
const START: u64 = 1_798_761_600_000_000;
const SECOND: u64 = 1_000_000;
const MINUTE: Duration = Duration::from_mins(1);

/// A counter and the seconds since the start at which it is used.
struct TestCounter(Model);

impl TestCounter {
    fn new(quota: impl Into<Quota>) -> Self {
        Self(Model::new(quota.into()))
    }

    fn spend(&mut self, cost: u64, secs: u64) -> Outcome {
        self.spend_at(cost, secs * SECOND)
    }

    fn spend_at(&mut self, cost: u64, micros: u64) -> Outcome {
        self.0.spend(
            cost,
            Micros::new(START + micros),
            PermitId::new(u128::from(micros)),
        )
    }
}

fn allow(limit: u64, remaining: u64, reset_secs: u64) -> Outcome {
    Outcome {
        verdict: Verdict::ALLOW,
        limit,
        remaining,
        reset_after: Micros::from_secs(reset_secs),
        more_after: Micros::from_secs(reset_secs),
        lock: KeyLock::NONE,
    }
}

/// The same outcome, but more is left sooner than everything.
fn more(more_millis: u64, of: Outcome) -> Outcome {
    Outcome {
        more_after: Micros::from_millis(more_millis),
        ..of
    }
}

fn deny(retry_secs: u64, of: Outcome) -> Outcome {
    Outcome {
        verdict: Verdict::Deny {
            retry_after: Micros::from_secs(retry_secs),
        },
        more_after: Micros::ZERO,
        ..of
    }
}

#[test]
fn a_fixed_window_ends_a_length_after_its_first_hit() {
    let mut used = TestCounter::new(FixedWindow::new(10, MINUTE).unwrap());
    assert_eq!(used.spend(0, 0), allow(10, 10, 0));
    assert_eq!(used.spend(4, 10), allow(10, 6, 60));
    assert_eq!(used.spend(6, 30), allow(10, 0, 40));
    assert_eq!(used.spend(1, 69), deny(1, allow(10, 0, 1)));
    assert_eq!(used.spend(1, 70), allow(10, 9, 60));
}

#[test]
fn an_aligned_window_ends_with_its_unit() {
    let mut used = TestCounter::new(FixedWindow::aligned(2, Calendar::Month).unwrap());
    assert_eq!(used.spend(2, 86_400), allow(2, 0, 30 * 86_400));
    assert_eq!(
        used.spend(1, 30 * 86_400),
        deny(86_400, allow(2, 0, 86_400))
    );
    assert_eq!(used.spend(1, 31 * 86_400), allow(2, 1, 28 * 86_400));
}

/// 80 of 100 a minute in the previous window; a quarter of the current one has passed, so 60 of
/// them still count.
#[test]
fn a_sliding_window_weighs_what_is_left_of_the_previous_one() {
    let mut used = TestCounter::new(SlidingWindow::new(100, MINUTE).unwrap());
    assert_eq!(used.spend(80, 30), more(30_750, allow(100, 20, 90)));
    assert_eq!(used.spend(0, 75), more(750, allow(100, 40, 45)));
    assert_eq!(used.spend(10, 75), more(750, allow(100, 30, 105)));
    // n = 10, p = 80, f = 1/4, c = 50: W * (1 - (L-c-n)/p - f) = 60 * (1 - 40/80 - 1/4) = 15 s.
    assert_eq!(used.spend(50, 75), deny(15, allow(100, 30, 105)));
    // c = 95 does not fit with n: W * (1-f) + W * (1 - (L-c)/n) = 45 + 60 * (1 - 5/10) = 75 s.
    assert_eq!(used.spend(95, 75), deny(75, allow(100, 30, 105)));
    assert_eq!(used.spend(50, 90), more(750, allow(100, 0, 90)));
}

/// A third of a unit still counts as a whole unit used.
#[test]
fn a_sliding_window_rounds_what_is_left_down() {
    let mut used = TestCounter::new(SlidingWindow::new(10, Duration::from_secs(3)).unwrap());
    used.spend(1, 0);
    assert_eq!(used.spend(0, 5), allow(10, 9, 1));
}

#[test]
fn a_log_forgets_each_hit_a_window_later() {
    let mut used = TestCounter::new(SlidingLog::new(10, MINUTE).unwrap());
    assert_eq!(used.spend(3, 0), allow(10, 7, 60));
    assert_eq!(used.spend(4, 20), more(40_000, allow(10, 3, 60)));
    assert_eq!(used.spend(3, 30), more(30_000, allow(10, 0, 60)));
    // Two are missing: the three units of the first hit are free at 60 s. Five are missing: the
    // second hit must expire as well.
    assert_eq!(used.spend(2, 40), deny(20, allow(10, 0, 50)));
    assert_eq!(used.spend(5, 40), deny(40, allow(10, 0, 50)));
    assert_eq!(used.spend(3, 60), more(20_000, allow(10, 0, 60)));
}

#[test]
fn a_token_bucket_refills_in_exact_fractions() {
    let mut used =
        TestCounter::new(TokenBucket::new(10, Rate::new(1, Duration::from_secs(3))).unwrap());
    assert_eq!(used.spend(10, 0), more(3_000, allow(10, 0, 30)));
    // After 5 s there are 5/3 tokens: one whole, and the second comes at 6 s.
    assert_eq!(used.spend(2, 5), deny(1, allow(10, 1, 25)));
    assert_eq!(used.spend(2, 6), more(3_000, allow(10, 0, 30)));
    assert_eq!(used.spend(10, 36), more(3_000, allow(10, 0, 30)));
}

/// 7 per 13 us does not divide evenly: times are rounded up to whole microseconds.
#[test]
fn a_token_bucket_rounds_times_up() {
    let mut used =
        TestCounter::new(TokenBucket::new(3, Rate::new(7, Duration::from_micros(13))).unwrap());
    // 3 * 13/7 = 5.57 us until full, 13/7 = 1.86 us until one.
    assert_eq!(used.spend_at(3, 0).reset_after, Micros::new(6));
    assert_eq!(
        used.spend_at(1, 0).verdict,
        Verdict::Deny {
            retry_after: Micros::new(2)
        }
    );
    // After 2 us there are 14/13, and 1/13 after one is taken: the next one is 12/7 = 1.71 us away.
    assert_eq!(used.spend_at(1, 2).remaining, 0);
    assert_eq!(
        used.spend_at(1, 2).verdict,
        Verdict::Deny {
            retry_after: Micros::new(2)
        }
    );
}

#[test]
fn a_leaky_meter_is_a_token_bucket_and_a_queue_reports_its_wait() {
    let rate = Rate::per_second(2);
    let mut meter = TestCounter::new(LeakyBucket::new(LeakyMode::Meter, 4, rate).unwrap());
    let mut queue = TestCounter::new(LeakyBucket::new(LeakyMode::Queue, 4, rate).unwrap());
    for (cost, wait_millis, remaining, reset_millis) in
        [(1, 0, 3, 500), (2, 500, 1, 1_500), (1, 1_500, 0, 2_000)]
    {
        let reset_after = Micros::from_millis(reset_millis);
        let passed = Outcome {
            verdict: Verdict::ALLOW,
            limit: 4,
            remaining,
            reset_after,
            more_after: Micros::from_millis(500),
            lock: KeyLock::NONE,
        };
        assert_eq!(meter.spend(cost, 0), passed);
        let verdict = Verdict::Allow {
            wait: Micros::from_millis(wait_millis),
        };
        assert_eq!(queue.spend(cost, 0), Outcome { verdict, ..passed });
    }
    let full = Verdict::Deny {
        retry_after: Micros::from_millis(500),
    };
    assert_eq!(
        (meter.spend(1, 0).verdict, queue.spend(1, 0).verdict),
        (full, full)
    );
}

#[test]
fn a_permit_is_free_when_it_times_out() {
    let mut used = TestCounter::new(Concurrency::new(3, MINUTE).unwrap());
    assert_eq!(used.spend(2, 10), more(0, allow(3, 1, 60)));
    assert_eq!(used.spend(1, 20), more(0, allow(3, 0, 60)));
    assert_eq!(used.spend(1, 30), deny(40, allow(3, 0, 50)));
    assert_eq!(used.spend(3, 30), deny(50, allow(3, 0, 50)));
    let (first, now) = (PermitId::new(10_000_000), Micros::new(START + 40 * SECOND));
    assert!(used.0.renew(first, now));
    assert_eq!(used.spend(1, 40), deny(40, allow(3, 0, 60)));
    assert!(used.0.release(first, now));
    assert!(!used.0.release(first, now));
    assert_eq!(used.spend(2, 40), more(0, allow(3, 0, 60)));
}

#[test]
fn more_than_the_limit_is_never_allowed_and_zero_always_is() {
    for kind in Kind::ALL {
        let quota = quota_of(kind);
        let model = Model::new(quota);
        let now = Micros::new(START);
        assert_eq!(
            model.ask(quota.limit() + 1, now, Intent::Spend).verdict,
            Verdict::Never
        );
        assert_eq!(
            model.ask(u64::MAX, now, Intent::Spend).verdict,
            Verdict::Never
        );
        assert_eq!(
            model.ask(0, now, Intent::Peek),
            allow(quota.limit(), quota.limit(), 0)
        );
    }
}

#[test]
fn a_peek_changes_nothing() {
    let now = Micros::new(START);
    for kind in Kind::ALL {
        let mut model = Model::new(quota_of(kind));
        model.spend(4, now, PermitId::NONE);
        let look = model.ask(6, now, Intent::Peek);
        assert!(look.verdict.is_allowed(), "{kind:?}");
        assert_eq!(
            (look.remaining, model.ask(6, now, Intent::Spend).remaining),
            (6, 0),
            "{kind:?}"
        );
        assert_eq!(
            look.reset_after,
            model.ask(0, now, Intent::Spend).reset_after,
            "{kind:?}"
        );
    }
}

#[test]
fn a_refund_returns_at_most_what_was_spent() {
    let now = Micros::new(START);
    for kind in Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::Concurrency)
    {
        let mut model = Model::new(quota_of(kind));
        model.refund(5, now);
        model.spend(4, now, PermitId::NONE);
        model.refund(1, now);
        assert_eq!(model.ask(0, now, Intent::Peek).remaining, 7, "{kind:?}");
        model.refund(u64::MAX, now);
        assert_eq!(model.ask(0, now, Intent::Peek).remaining, 10, "{kind:?}");
    }
}

/// The clock is set back by an hour: nothing is refilled, and no client has to wait until the hour
/// has passed again.
#[test]
fn a_clock_set_back_neither_refills_nor_locks_out() {
    let (now, back) = (Micros::new(START), Micros::new(START - 3_600 * SECOND));
    for kind in Kind::ALL {
        let mut model = Model::new(quota_of(kind));
        model.spend(10, now, PermitId::new(1));
        let outcome = model.ask(10, back, Intent::Peek);
        assert_eq!(outcome.remaining, 0, "{kind:?}");
        let Verdict::Deny { retry_after } = outcome.verdict else {
            panic!("{kind:?}: {outcome:?}")
        };
        assert!(
            retry_after <= Micros::from_secs(2 * 60),
            "{kind:?}: {retry_after:?}"
        );
    }
}

/// 10 a minute, in every algorithm.
fn quota_of(kind: Kind) -> Quota {
    match kind {
        Kind::FixedFirstHit => FixedWindow::new(10, MINUTE).unwrap().into(),
        Kind::FixedCalendar => FixedWindow::aligned(10, Calendar::Minute).unwrap().into(),
        Kind::SlidingWindow => SlidingWindow::new(10, MINUTE).unwrap().into(),
        Kind::SlidingLog => SlidingLog::new(10, MINUTE).unwrap().into(),
        Kind::TokenBucket => TokenBucket::new(10, Rate::per_minute(10)).unwrap().into(),
        Kind::LeakyMeter => LeakyBucket::new(LeakyMode::Meter, 10, Rate::per_minute(10))
            .unwrap()
            .into(),
        Kind::LeakyQueue => LeakyBucket::new(LeakyMode::Queue, 10, Rate::per_minute(10))
            .unwrap()
            .into(),
        Kind::Concurrency => Concurrency::new(10, MINUTE).unwrap().into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Both ways to define the expected outcome agree, and an outcome that is off by one anywhere
    /// is rejected.
    #[test]
    fn the_model_confirms_its_own_outcome_and_no_other(
        quota in prop::sample::select(Kind::ALL.to_vec()).prop_flat_map(quota_strategy),
        spends in prop::collection::vec((0..=3_000_000u64, 0..=1_000u64), 1..8),
    ) {
        let (mut model, mut now) = (Model::new(quota), Micros::new(START));
        for (step, thousandths) in spends {
            now = now.after(Micros::new(step));
            let cost = quota.limit().saturating_mul(thousandths).div_ceil(1_000).min(quota.limit());
            for intent in [Intent::Peek, Intent::Spend] {
                let answer = model.ask(cost, now, intent);
                prop_assert_eq!(model.confirm(&answer, cost, now, intent), Ok(()));
                for wrong in off_by_one(answer) {
                    prop_assert!(model.confirm(&wrong, cost, now, intent).is_err(), "{:?}", wrong);
                }
            }
            model.spend(cost, now, PermitId::new(u128::from(now.get())));
        }
    }
}

fn off_by_one(answer: Outcome) -> Vec<Outcome> {
    let later = |length: Micros| length.after(Micros::new(1));
    let other_verdict = match answer.verdict {
        Verdict::Allow { wait } => Verdict::Allow { wait: later(wait) },
        Verdict::Deny { retry_after } => Verdict::Deny {
            retry_after: later(retry_after),
        },
        Verdict::Never => Verdict::ALLOW,
    };
    vec![
        Outcome {
            verdict: other_verdict,
            ..answer
        },
        Outcome {
            verdict: Verdict::Never,
            ..answer
        },
        Outcome {
            limit: answer.limit + 1,
            ..answer
        },
        Outcome {
            remaining: answer.remaining + 1,
            ..answer
        },
        Outcome {
            reset_after: later(answer.reset_after),
            ..answer
        },
        Outcome {
            more_after: later(answer.more_after),
            ..answer
        },
        Outcome {
            lock: KeyLock::new(Micros::new(1), false),
            ..answer
        },
    ]
}
