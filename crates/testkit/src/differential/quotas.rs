//! Quotas to test: everyday numbers, extremes, and numbers that do not divide evenly.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use tollgate::algorithm::{AMOUNT_MAX, IN_FLIGHT_MAX, WINDOW_MAX, WINDOW_MIN, WindowStart};
use tollgate::{
    Calendar, Concurrency, FixedWindow, LeakyBucket, LeakyMode, LimitError, Quota, Rate,
    SlidingLog, SlidingWindow, TokenBucket,
};

const DAY: Duration = Duration::from_hours(24);
/// A bucket must fill within 100 years; this number of microseconds is well below that.
const FILL_MAX_MICROS: u128 = 99 * 365 * 86_400 * 1_000_000;

/// An algorithm, as distinguished by the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fixed window that begins with the first hit.
    FixedFirstHit,
    /// Fixed window of the calendar.
    FixedCalendar,
    /// Sliding window counter.
    SlidingWindow,
    /// Sliding window log.
    SlidingLog,
    /// Token bucket.
    TokenBucket,
    /// Leaky bucket that denies.
    LeakyMeter,
    /// Leaky bucket that queues.
    LeakyQueue,
    /// Concurrency limit.
    Concurrency,
}

impl Kind {
    /// Every algorithm.
    pub const ALL: [Self; 8] = [
        Self::FixedFirstHit,
        Self::FixedCalendar,
        Self::SlidingWindow,
        Self::SlidingLog,
        Self::TokenBucket,
        Self::LeakyMeter,
        Self::LeakyQueue,
        Self::Concurrency,
    ];
}

/// Any quota of this kind.
pub fn quota_strategy(kind: Kind) -> BoxedStrategy<Quota> {
    match kind {
        Kind::FixedFirstHit => (amounts(), windows())
            .prop_map(|(n, w)| built(FixedWindow::new(n, w)))
            .boxed(),
        Kind::FixedCalendar => (amounts(), units())
            .prop_map(|(n, u)| built(FixedWindow::aligned(n, u)))
            .boxed(),
        Kind::SlidingWindow => (amounts(), windows())
            .prop_map(|(n, w)| built(SlidingWindow::new(n, w)))
            .boxed(),
        Kind::SlidingLog => (amounts(), windows())
            .prop_map(|(n, w)| built(SlidingLog::new(n, w)))
            .boxed(),
        Kind::Concurrency => (in_flight(), windows())
            .prop_map(|(n, w)| built(Concurrency::new(n, w)))
            .boxed(),
        Kind::TokenBucket | Kind::LeakyMeter | Kind::LeakyQueue => (amounts(), rates())
            .prop_map(move |(capacity, (amount, period))| {
                bucket(kind, fillable(capacity, amount, period), amount, period)
            })
            .boxed(),
    }
}

/// Another quota for the same counter. Only the period of a bucket's rate changes: a store keeps
/// the time at which the bucket is full to a fraction of a microsecond, in parts defined by the
/// rate's amount, so a change of the amount may move that time by less than a microsecond.
pub fn changed_quota_strategy(quota: Quota) -> BoxedStrategy<Quota> {
    match quota {
        Quota::FixedWindow(quota) => amounts()
            .prop_map(move |limit| {
                built(match quota.start() {
                    WindowStart::FirstHit(length) => FixedWindow::new(limit, length.into()),
                    WindowStart::Clock(unit) => FixedWindow::aligned(limit, unit),
                })
            })
            .boxed(),
        Quota::SlidingWindow(quota) => amounts()
            .prop_map(move |limit| built(SlidingWindow::new(limit, quota.window().into())))
            .boxed(),
        Quota::SlidingLog(quota) => amounts()
            .prop_map(move |limit| built(SlidingLog::new(limit, quota.window().into())))
            .boxed(),
        Quota::Concurrency(_) => quota_strategy(Kind::Concurrency),
        Quota::TokenBucket(quota) => changed_bucket(Kind::TokenBucket, quota.refill()),
        Quota::LeakyBucket(quota) if quota.mode() == LeakyMode::Meter => {
            changed_bucket(Kind::LeakyMeter, quota.leak())
        }
        Quota::LeakyBucket(quota) => changed_bucket(Kind::LeakyQueue, quota.leak()),
    }
}

fn changed_bucket(kind: Kind, (per, period): (u64, u64)) -> BoxedStrategy<Quota> {
    // One more than a multiple of `per` is coprime to it, so the amount does not change in lowest
    // terms.
    let other = per * (period / per / 2).max(1) + 1;
    (amounts(), select(vec![period, other]))
        .prop_map(move |(capacity, period)| {
            let period = Duration::from_micros(period);
            bucket(kind, fillable(capacity, per, period), per, period)
        })
        .boxed()
}

fn bucket(kind: Kind, capacity: u64, amount: u64, period: Duration) -> Quota {
    let rate = Rate::new(amount, period);
    match kind {
        Kind::LeakyMeter => built(LeakyBucket::new(LeakyMode::Meter, capacity, rate)),
        Kind::LeakyQueue => built(LeakyBucket::new(LeakyMode::Queue, capacity, rate)),
        _ => built(TokenBucket::new(capacity, rate)),
    }
}

/// The capacity, or the largest one that still fills in time at this rate.
fn fillable(capacity: u64, amount: u64, period: Duration) -> u64 {
    let most = FILL_MAX_MICROS * u128::from(amount) / period.as_micros();
    capacity.min(u64::try_from(most).unwrap_or(u64::MAX)).max(1)
}

fn built(quota: Result<impl Into<Quota>, LimitError>) -> Quota {
    quota.expect("the strategies generate valid numbers").into()
}

fn amounts() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(1),
        6 => 2..=20u64,
        3 => select(vec![60, 100, 600, 1_000, 5_000, 100_000]),
        2 => select(vec![AMOUNT_MAX, AMOUNT_MAX - 1, 999_983, 4_294_967_296, 4_294_967_295]),
        1 => 1..=AMOUNT_MAX,
    ]
}

fn in_flight() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), 2..=20u64, Just(IN_FLIGHT_MAX), 1..=IN_FLIGHT_MAX]
}

fn units() -> impl Strategy<Value = Calendar> {
    select(vec![
        Calendar::Second,
        Calendar::Minute,
        Calendar::Hour,
        Calendar::Day,
        Calendar::Month,
    ])
}

fn windows() -> impl Strategy<Value = Duration> {
    let everyday = [
        Duration::from_millis(100),
        Duration::from_secs(1),
        Duration::from_mins(1),
    ];

    let long = [
        Duration::from_mins(15),
        Duration::from_hours(1),
        DAY,
        30 * DAY,
    ];

    let extreme = [
        WINDOW_MIN.into(),
        WINDOW_MAX.into(),
        Duration::from_micros(1_001),
        Duration::from_micros(999_983),
    ];

    prop_oneof![
        4 => select(everyday.to_vec()),
        2 => select(long.to_vec()),
        2 => select(extreme.to_vec()),
        2 => (1_000..=5_000_000u64).prop_map(Duration::from_micros),
        1 => (WINDOW_MIN.get()..=WINDOW_MAX.get()).prop_map(Duration::from_micros),
    ]
}

/// An amount and the period in which it is refilled.
fn rates() -> impl Strategy<Value = (u64, Duration)> {
    let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));

    let everyday = [
        (1, second),
        (7, second),
        (10, second),
        (100, minute),
        (1_000, second),
        (5_000, Duration::from_hours(1)),
    ];

    let extreme = [
        (1, 30 * DAY),
        (10_000_000, second),
        (10, Duration::from_micros(1)),
        (999_983, 30 * DAY),
    ];

    let odd = [
        (3, Duration::from_millis(500)),
        (999_983, second),
        (7, Duration::from_micros(13)),
        (9, Duration::from_micros(1)),
    ];

    prop_oneof![
        4 => select(everyday.to_vec()),
        3 => select(extreme.to_vec()),
        2 => select(odd.to_vec()),
        2 => (1..=10_000u64, 1_000..=10_000_000u64)
            .prop_map(|(n, p)| (n, Duration::from_micros(p))),
        1 => (1..=999_999_999u64, 100_000_000..=2_592_000_000_000u64)
            .prop_map(|(n, p)| (n, Duration::from_micros(p))),
    ]
}
