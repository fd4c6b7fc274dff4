//! Checks that wait: until they pass, in a queue and for a permit; and permits.

use std::time::Duration;

use pollster::block_on;
use tollgate::limiter::{Check, Demands};
use tollgate::store::{Ending, Intent, ReservationEnd, Settlement, SettlementKind};
use tollgate::{
    Acquisition, Demand, EncodedKey, Error, Limit, Limiter, ManualClock, MemoryStore, Micros, Rate,
    ReservationExpiry,
};

const MINUTE: Duration = Duration::from_secs(60);

fn limiter(limits: impl IntoIterator<Item = Limit>) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::builder()
        .store(store)
        .clock(clock.clone())
        .limits(limits)
        .build()
        .expect("valid limits");
    (limiter, clock)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "a check is made for one call"
)]
fn is_allowed<'a, D: Demands<'a>>(check: Check<'a, D>) -> bool {
    check.try_now().expect("a decision").is_allowed()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "a check is made for one call"
)]
fn remaining<'a, D: Demands<'a>>(check: Check<'a, D>) -> u64 {
    check.try_now().expect("a decision").remaining()
}

/// Peeking with a shorter permit timeout must not end permits.
#[test]
fn peeking_with_a_shorter_permit_timeout_ends_no_permit() {
    let (limiter, clock) = limiter([Limit::concurrency("jobs", 10, MINUTE)]);
    assert!(is_allowed(limiter.check("jobs", ()).cost(10)));

    let short = tollgate::Concurrency::new(10, Duration::from_millis(1)).unwrap();
    assert!(!is_allowed(limiter.peek("jobs", ()).quota(short)));
    clock.advance(Duration::from_secs(2));
    assert!(!is_allowed(limiter.peek("jobs", ())));
}

/// A shadow limit that denies does not make a permit look lost.
#[test]
fn a_permit_ignores_shadow_limits_that_deny() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::concurrency("real", 5, MINUTE),
            Limit::concurrency("tried", 1, MINUTE).shadow(),
        ]);
        let check = || limiter.check("real", ()).and("tried", ());

        let _first = check().acquire().await.unwrap();
        let second = check().acquire().await.unwrap().permit().unwrap();
        assert!(second.renew().await.unwrap());
        assert!(second.release().await.unwrap());

        assert!(matches!(
            limiter.peek("real", ()).acquire().await,
            Err(Error::NoConcurrencyLimit)
        ));
    });
}

#[test]
fn waiting_for_a_permit_ends_when_another_limit_denies() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::concurrency("jobs", 5, MINUTE),
            Limit::fixed_window("api", 1, MINUTE),
        ]);
        let check = || limiter.check("jobs", ()).and("api", ());

        assert!(check().try_now().unwrap().is_allowed());

        // The clock does not move, so a second attempt would wait forever.
        let acquisition = check()
            .acquire_up_to(Duration::from_millis(500))
            .await
            .unwrap();
        assert_eq!(acquisition.decision().denied_by().unwrap().name(), "api");
    });
}

#[test]
fn a_permit_is_released_when_dropped() {
    block_on(async {
        let (limiter, clock) = limiter([Limit::concurrency("jobs", 2, MINUTE)]);
        let acquire = async || limiter.acquire("jobs", "ann").await.unwrap();

        let first = acquire().await.permit().unwrap();
        let second = acquire().await.permit().unwrap();
        let Acquisition::Denied(denied) = acquire().await else {
            panic!("a third permit")
        };
        assert_eq!(denied.retry_after(), Some(MINUTE));

        drop(first);
        let third = acquire().await.permit().unwrap();
        assert!(second.release().await.unwrap());

        clock.advance(MINUTE / 2);
        assert!(third.renew().await.unwrap());
        clock.advance(MINUTE / 2);
        let peek = limiter.peek("jobs", "ann").await.unwrap();
        assert_eq!(peek.remaining(), 1, "the other permit was released");

        clock.advance(MINUTE / 2);
        assert!(!third.renew().await.unwrap(), "the permit timed out");
        assert!(!third.release().await.unwrap());
    });
}

#[test]
fn a_permit_of_a_plain_check_is_released_by_id() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::concurrency("jobs", 1, MINUTE),
            Limit::fixed_window("api", 1, MINUTE),
        ]);
        let jobs = || limiter.check("jobs", "ann");

        let allowed = jobs().and("api", "ann").await.unwrap();
        let permit_id = allowed.permit_id().unwrap();
        assert!(jobs().await.unwrap().permit_id().is_none());
        assert!(limiter.release("jobs", "ann", permit_id).await.unwrap());
        assert!(!limiter.release("jobs", "ann", permit_id).await.unwrap());

        let denied = jobs().and("api", "ann").await.unwrap();
        assert_eq!(denied.denied_by().unwrap().name(), "api");
        assert!(
            jobs().await.unwrap().is_allowed(),
            "the denied request kept a permit"
        );
    });
}

/// Advances the clock whenever a future sleeps on it, until the work is done.
fn while_time_passes<T: Send>(
    clock: &ManualClock,
    step: Duration,
    work: impl Future<Output = T> + Send,
) -> T {
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                if clock.sleepers() > 0 {
                    clock.advance(step);
                }
                std::thread::yield_now();
            }
        });

        let result = block_on(work);
        done.store(true, std::sync::atomic::Ordering::Release);
        result
    })
}

fn now(clock: &ManualClock) -> tollgate::Micros {
    tollgate::Clock::now(clock)
}

#[test]
fn waiting_ends_when_the_request_passes() {
    let (limiter, clock) = limiter([Limit::token_bucket("api", 1, Rate::per_second(10))]);
    let start = now(&clock);
    while_time_passes(&clock, Duration::from_millis(1), async {
        for _ in 0..5 {
            let check = limiter.check("api", ());
            let decision = check.wait_up_to(Duration::from_secs(1)).await.unwrap();
            assert!(decision.is_allowed());
        }
    });

    let waited = Duration::from(now(&clock).since(start));
    assert_eq!(waited, Duration::from_millis(400));
}

#[test]
fn hopeless_waits_return_the_denial_without_waiting() {
    block_on(async {
        let (limiter, _) = limiter([Limit::token_bucket("api", 1, Rate::per_second(1))]);
        assert!(limiter.check("api", ()).await.unwrap().is_allowed());

        let check = limiter.check("api", ());
        let late = check.wait_up_to(Duration::from_millis(999)).await.unwrap();
        assert_eq!(late.retry_after(), Some(Duration::from_secs(1)));

        let check = limiter.check("api", ()).cost(2);
        assert!(check.wait_up_to(MINUTE).await.unwrap().is_never());
    });
}

#[test]
fn a_queue_spaces_requests_and_takes_back_positions_after_the_deadline() {
    let (limiter, clock) = limiter([Limit::queue("export", 3, Rate::per_second(10))]);
    let waits: Vec<Duration> = (0..3)
        .map(|_| limiter.check("export", ()).try_now().unwrap().wait())
        .collect();
    assert_eq!(waits, [0, 100, 200].map(Duration::from_millis));
    assert!(
        !is_allowed(limiter.check("export", ())),
        "the queue is bounded"
    );

    clock.advance(Duration::from_millis(100));
    block_on(async {
        let check = limiter.check("export", ());
        let late = check.wait_up_to(Duration::from_millis(199)).await.unwrap();
        assert_eq!(
            (late.is_allowed(), late.retry_after()),
            (false, Some(Duration::from_millis(200)))
        );
        let peek = limiter.peek("export", ()).cost(0).await.unwrap();
        assert_eq!(peek.remaining(), 1, "the position was returned");
    });

    let start = now(&clock);
    while_time_passes(&clock, Duration::from_millis(10), async {
        let check = limiter.check("export", ());
        let decision = check.wait_up_to(Duration::from_millis(200)).await.unwrap();
        assert!(decision.is_allowed());
    });
    let waited = Duration::from(now(&clock).since(start));
    assert_eq!(waited, Duration::from_millis(200));
}

/// A client disconnects while it waits in the queue: its position and its permit are free again.
#[test]
fn a_dropped_wait_returns_its_position_and_permit() {
    let (limiter, _) = limiter([
        Limit::queue("export", 3, Rate::per_second(10)),
        Limit::concurrency("jobs", 5, MINUTE),
        Limit::fixed_window("tried", 1, MINUTE).shadow(),
    ]);
    let check = || limiter.check("export", ()).and("jobs", ()).and("tried", ());

    assert!(check().try_now().unwrap().is_allowed());
    let mut waiting = Box::pin(check().acquire_up_to(MINUTE));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());

    let left = |limit: &str| remaining(limiter.peek(limit, ()).cost(0));
    assert_eq!((left("export"), left("jobs"), left("tried")), (1, 3, 0));

    drop(waiting);
    assert_eq!(
        (left("export"), left("jobs"), left("tried")),
        (2, 4, 0),
        "the shadow limit was not charged twice"
    );
}

#[test]
fn waiting_for_a_permit_notices_an_early_release() {
    let (limiter, clock) = limiter([Limit::concurrency("jobs", 1, MINUTE)]);
    let permit = block_on(limiter.acquire("jobs", ()))
        .unwrap()
        .permit()
        .unwrap();

    let holder = std::thread::spawn({
        let clock = clock.clone();
        move || {
            while clock.sleepers() == 0 {
                std::thread::yield_now();
            }
            drop(permit);
        }
    });
    holder.thread().unpark();

    let acquired = while_time_passes(&clock, Duration::from_millis(1), async {
        limiter
            .check("jobs", ())
            .acquire_up_to(MINUTE * 2)
            .await
            .unwrap()
    });
    holder.join().unwrap();
    assert!(matches!(acquired, Acquisition::Acquired(_)));
}

#[test]
fn waiting_works_in_real_time() {
    let limiter =
        Limiter::in_memory([Limit::token_bucket("api", 1, Rate::per_second(1_000))]).unwrap();
    block_on(async {
        for _ in 0..20 {
            let check = limiter.check("api", ());
            assert!(check.wait_up_to(MINUTE).await.unwrap().is_allowed());
        }
    });
}

/// A request that reserves units may hold a permit and wait in a queue. If it is dropped in the
/// queue, everything is returned, once.
#[test]
fn a_reservation_waits_in_the_queue_and_holds_a_permit() {
    let (limiter, clock) = limiter([
        Limit::concurrency("jobs", 2, MINUTE),
        Limit::queue("model", 4, Rate::per_second(1))
            .on_reservation_expiry(ReservationExpiry::Release),
        Limit::sliding_log("tokens", 100, MINUTE).on_reservation_expiry(ReservationExpiry::Release),
    ]);
    let key = || EncodedKey::new(&()).unwrap();
    let demands = [("jobs", 1), ("model", 1), ("tokens", 40)]
        .map(|(name, cost)| Demand::new(limiter.rule(name).unwrap(), key()).with_cost(cost));
    let ttl = Micros::from_secs(10);
    let start = || limiter.request(&demands, Intent::Reserve { ttl });
    let left = || ["jobs", "model", "tokens"].map(|name| remaining(limiter.peek(name, ()).cost(0)));

    let Acquisition::Acquired(permit) = block_on(start().acquire_in_queue()).unwrap() else {
        panic!("a permit")
    };
    assert_eq!(left(), [1, 3, 60]);

    let mut waiting = Box::pin(start().acquire_in_queue());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(left(), [0, 2, 20]);
    drop(waiting);
    assert_eq!(left(), [1, 3, 60], "the queue position was given up");

    let id = permit.decision().permit_id().unwrap();
    let settlement =
        |index: usize, actual| Settlement::new(Demand::as_demand(&demands[index]), actual);
    let settlements = [settlement(1, 1), settlement(2, 70)];
    let ending = Ending::new(id, ReservationEnd::Settled);
    let settled = block_on(limiter.settle_request(&settlements, ending)).unwrap();
    assert!(
        settled
            .iter()
            .all(|reply| reply.kind == SettlementKind::Reserved)
    );
    drop(permit);
    assert_eq!(left(), [2, 3, 30]);

    clock.advance(Duration::from_secs(11));
    assert_eq!(left(), [2, 4, 30], "no reservation is open any more");
}
