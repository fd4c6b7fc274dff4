//! Traces to test, mostly at edges, where limiters fail.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::{LeakyMode, Lockout, Micros, Quota, ReservationExpiry};

use super::quotas::{Kind, changed_quota_strategy, quota_strategy};
use super::trace::{Act, Ask, Cost, Counter, Length, Move, Step, Trace};

const COUNTERS_MAX: usize = 3;

/// Whether the clock of a trace may be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepsBack {
    /// The clock only goes forward.
    No,
    /// The clock is set back now and then, by short and by long durations.
    Yes,
}

/// Traces on counters of one kind.
pub fn trace_strategy(kind: Kind, steps_back: StepsBack) -> impl Strategy<Value = Trace> {
    traces(quota_strategy(kind), steps_back)
}

/// Traces on counters of every kind together.
pub fn any_trace_strategy(steps_back: StepsBack) -> impl Strategy<Value = Trace> {
    traces(
        select(Kind::ALL.to_vec()).prop_flat_map(quota_strategy),
        steps_back,
    )
}

fn traces(
    quotas: impl Strategy<Value = Quota>,
    steps_back: StepsBack,
) -> impl Strategy<Value = Trace> {
    let counter = quotas.prop_flat_map(|quota| {
        let changed = vec(changed_quota_strategy(quota), 0..=2);
        let settings = (changed, debts(), any::<bool>(), lockouts());
        settings.prop_map(move |(mut quotas, debt_max, is_released, lockout)| {
            quotas.insert(0, quota);
            Counter {
                quotas,
                debt_max,
                on_reservation_expiry: if is_released {
                    ReservationExpiry::Release
                } else {
                    ReservationExpiry::Keep
                },
                lockout: lockout.filter(|_| can_lock_out(&quota)),
            }
        })
    });

    (
        starts(),
        vec(counter, 1..=COUNTERS_MAX),
        vec(steps(steps_back), 1..=90),
    )
        .prop_map(|(start, counters, steps)| Trace {
            start,
            counters,
            steps,
        })
}

/// A lockout that a few denials cause, in a third of all cases.
fn lockouts() -> impl Strategy<Value = Option<Lockout>> {
    let lengths = || {
        prop_oneof![
            select(vec![1_000, 999_983, 1_000_000, 60_000_000, 3_600_000_000]),
            1_000..=5_000_000u64,
        ]
        .prop_map(Duration::from_micros)
    };
    let numbers = (1..=4u32, lengths(), lengths(), 1..=5u32, 1..=30u32);
    let lockout = numbers.prop_map(|(after, within, length, factor, times)| {
        let lockout = Lockout::new(after, within, length);
        let lockout = lockout.and_then(|lockout| lockout.with_growth(factor, length * times));
        lockout.expect("the strategies generate valid numbers")
    });
    proptest::option::weighted(0.3, lockout)
}

/// Whether a limit with this quota may have a lockout.
fn can_lock_out(quota: &Quota) -> bool {
    match quota {
        Quota::Concurrency(_) => false,
        Quota::LeakyBucket(bucket) => bucket.mode() == LeakyMode::Meter,
        _ => true,
    }
}

fn debts() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => Just(u64::MAX),
        1 => 0..200u64,
        1 => select(vec![0, 1, 1 << 53, (1 << 53) + 1]),
    ]
}

/// The present, a leap day, the last second of a year, and shortly after the epoch.
fn starts() -> impl Strategy<Value = Micros> {
    let special = [
        1_798_761_600_000_000,
        1_709_164_799_999_999,
        1_735_689_599_000_001,
        86_400_000_000,
    ];

    prop_oneof![
        select(special.to_vec()),
        1_700_000_000_000_000..2_000_000_000_000_000u64
    ]
    .prop_map(Micros::new)
}

fn steps(steps_back: StepsBack) -> impl Strategy<Value = Step> {
    (moves(steps_back), acts()).prop_map(|(time, act)| Step { time, act })
}

fn moves(steps_back: StepsBack) -> BoxedStrategy<Move> {
    let onward = prop_oneof![
        4 => Just(Move::Stay),
        6 => lengths().prop_map(Move::Forward),
    ];
    match steps_back {
        StepsBack::No => onward.boxed(),
        StepsBack::Yes => prop_oneof![7 => onward, 1 => backs().prop_map(Move::Back)].boxed(),
    }
}

fn lengths() -> impl Strategy<Value = Length> {
    prop_oneof![
        2 => select(vec![1, 2, 999, 1_000, 1_000_000, 60_000_000]).prop_map(Length::Micros),
        2 => (0..5_000_000u64).prop_map(Length::Micros),
        5 => of_window(),
        3 => (0..=1u64).prop_map(|less| Length::Retry { less }),
        1 => (0..=1u64).prop_map(|less| Length::Reset { less }),
        1 => (0..COUNTERS_MAX, 0..=1u64)
            .prop_map(|(counter, less)| Length::Denials { counter, less }),
        1 => (0..COUNTERS_MAX, 0..=1u64)
            .prop_map(|(counter, less)| Length::Quiet { counter, less }),
    ]
}

fn ttls() -> impl Strategy<Value = Length> {
    prop_oneof![
        select(vec![1_000, 1_000_000, 60_000_000, 3_600_000_000]).prop_map(Length::Micros),
        of_window(),
    ]
}

fn of_window() -> impl Strategy<Value = Length> {
    let thousandths = prop_oneof![
        0..=1_000u64,
        select(vec![0, 1, 500, 999, 1_000, 2_000]),
        0..=3_000u64
    ];

    (0..COUNTERS_MAX, thousandths, 0..=1u64).prop_map(|(counter, thousandths, more)| {
        Length::OfWindow {
            counter,
            thousandths,
            more,
        }
    })
}

fn backs() -> impl Strategy<Value = Length> {
    prop_oneof![
        select(vec![
            1,
            1_000,
            999_999,
            1_000_000,
            1_000_001,
            2_000_000,
            3_600_000_000
        ])
        .prop_map(Length::Micros),
        (0..3_000_000u64).prop_map(Length::Micros),
        of_window(),
    ]
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => one_ask().prop_map(Act::SpendOne),
        1 => one_ask().prop_map(Act::PeekOne),
        6 => asks(COUNTERS_MAX).prop_map(Act::Spend),
        2 => asks(COUNTERS_MAX).prop_map(Act::Peek),
        2 => asks(COUNTERS_MAX).prop_map(Act::Inspect),
        2 => asks(COUNTERS_MAX).prop_map(Act::Count),
        2 => (asks(COUNTERS_MAX), ttls()).prop_map(|(asks, ttl)| Act::Reserve(asks, ttl)),
        2 => (0..4usize, costs()).prop_map(|(ago, cost)| Act::Settle(ago, cost)),
        1 => (0..4usize).prop_map(Act::Cancel),
        2 => asks(COUNTERS_MAX).prop_map(Act::Refund),
        1 => (0..COUNTERS_MAX).prop_map(Act::Reset),
        1 => (0..4usize).prop_map(Act::Release),
        1 => (0..4usize).prop_map(Act::Renew),
    ]
}

fn asks(most: usize) -> impl Strategy<Value = Vec<Ask>> {
    vec(one_ask(), 1..=most)
}

fn one_ask() -> impl Strategy<Value = Ask> {
    let quota = prop_oneof![12 => Just(0), 1 => 0..3usize];
    (0..COUNTERS_MAX, quota, costs(), prop::bool::weighted(0.1)).prop_map(
        |(counter, quota, cost, shadow)| Ask {
            counter,
            quota,
            cost,
            shadow,
        },
    )
}

fn costs() -> impl Strategy<Value = Cost> {
    prop_oneof![
        1 => Just(Cost::Units(0)),
        8 => Just(Cost::Units(1)),
        3 => (2..=10u64).prop_map(Cost::Units),
        4 => (0..=1_000u64).prop_map(Cost::OfLimit),
        1 => (0..=1u64).prop_map(Cost::LimitAnd),
        5 => (0..=1u64).prop_map(Cost::LeftAnd),
        1 => select(vec![u64::MAX, u64::MAX - 1, 1 << 53, (1 << 53) + 1]).prop_map(Cost::Units),
    ]
}
