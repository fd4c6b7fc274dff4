//! Waiting for a pass, for one's turn, for a place; and holding what was given.

use std::time::Duration;

use pollster::block_on;
use tollgate::{Acquisition, Error, Limit, Limiter, ManualClock, MemoryStore, Rate};

const MINUTE: Duration = Duration::from_secs(60);

fn limiter(limits: impl IntoIterator<Item = Limit>) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (
        Limiter::builder()
            .store(store)
            .clock(clock.clone())
            .limits(limits)
            .build()
            .expect("right limits"),
        clock,
    )
}

/// The same for places: asking with a shorter lease frees nobody's place.
#[test]
fn looking_with_a_shorter_lease_frees_no_place() {
    let (limiter, clock) = limiter([Limit::concurrency("jobs", 10, MINUTE)]);
    assert!(
        limiter
            .check("jobs", ())
            .cost(10)
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    let short = tollgate::Concurrency::new(10, Duration::from_millis(1)).unwrap();
    assert!(
        !limiter
            .peek("jobs", ())
            .quota(short)
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    clock.advance(Duration::from_secs(2));
    assert!(
        !limiter
            .peek("jobs", ())
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
}

/// A shadow limit that would refuse does not make a held place look lost.
#[test]
fn a_permit_is_about_the_places_it_holds() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::concurrency("real", 5, MINUTE),
            Limit::concurrency("tried", 1, MINUTE).shadow(),
        ]);
        let _first = limiter
            .check("real", ())
            .and("tried", ())
            .acquire()
            .await
            .unwrap();
        let second = limiter
            .check("real", ())
            .and("tried", ())
            .acquire()
            .await
            .unwrap()
            .permit()
            .unwrap();
        assert!(second.renew().await.unwrap());
        assert!(second.release().await.unwrap());
        assert!(matches!(
            limiter.peek("real", ()).acquire().await,
            Err(Error::NoConcurrencyLimit)
        ));
    });
}

#[test]
fn waiting_for_a_place_does_not_hide_a_longer_refusal() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::concurrency("jobs", 5, MINUTE),
            Limit::fixed_window("api", 1, MINUTE),
        ]);
        let ask = || limiter.check("jobs", ()).and("api", ());
        assert!(ask().now_or_never().unwrap().is_allowed());
        // Time stands still, so this would never answer if it tried again.
        let answer = ask()
            .acquire_up_to(Duration::from_millis(500))
            .await
            .unwrap();
        assert_eq!(answer.decision().denied_by().unwrap().name(), "api");
    });
}

#[test]
fn a_place_is_given_back_when_its_permit_is_dropped() {
    block_on(async {
        let (limiter, clock) = limiter([Limit::concurrency("jobs", 2, MINUTE)]);
        let first = limiter
            .acquire("jobs", "ann")
            .await
            .unwrap()
            .permit()
            .unwrap();
        let second = limiter
            .acquire("jobs", "ann")
            .await
            .unwrap()
            .permit()
            .unwrap();
        let Acquisition::Denied(denied) = limiter.acquire("jobs", "ann").await.unwrap() else {
            panic!("a third place")
        };
        assert_eq!(denied.retry_after(), Some(MINUTE));
        drop(first);
        let third = limiter
            .acquire("jobs", "ann")
            .await
            .unwrap()
            .permit()
            .unwrap();
        assert!(second.release().await.unwrap());
        clock.advance(MINUTE / 2);
        assert!(third.renew().await.unwrap());
        clock.advance(MINUTE / 2);
        assert_eq!(
            limiter.peek("jobs", "ann").await.unwrap().remaining(),
            1,
            "the other had been released"
        );
        clock.advance(MINUTE / 2);
        assert!(!third.renew().await.unwrap(), "the lease had run out");
        assert!(!third.release().await.unwrap());
    });
}

#[test]
fn a_lease_from_a_plain_check_is_released_by_hand() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::concurrency("jobs", 1, MINUTE),
            Limit::fixed_window("api", 1, MINUTE),
        ]);
        let decision = limiter
            .check("jobs", "ann")
            .and("api", "ann")
            .await
            .unwrap();
        let lease = decision.permit_id().unwrap();
        assert!(
            limiter
                .check("jobs", "ann")
                .await
                .unwrap()
                .permit_id()
                .is_none()
        );
        assert!(limiter.release("jobs", "ann", lease).await.unwrap());
        assert!(!limiter.release("jobs", "ann", lease).await.unwrap());
        let refused = limiter
            .check("jobs", "ann")
            .and("api", "ann")
            .await
            .unwrap();
        assert_eq!(refused.denied_by().unwrap().name(), "api");
        assert!(
            limiter.check("jobs", "ann").await.unwrap().is_allowed(),
            "the refused request kept its place"
        );
    });
}

/// Moves the clock whenever someone waits for it, until the work is done.
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
fn waiting_ends_with_a_pass_when_the_time_has_come() {
    let (limiter, clock) = limiter([Limit::token_bucket("api", 1, Rate::per_second(10))]);
    let start = now(&clock);
    while_time_passes(&clock, Duration::from_millis(1), async {
        for _ in 0..5 {
            assert!(
                limiter
                    .check("api", ())
                    .wait_up_to(Duration::from_secs(1))
                    .await
                    .unwrap()
                    .is_allowed()
            );
        }
    });
    assert_eq!(
        Duration::from(now(&clock).since(start)),
        Duration::from_millis(400)
    );
}

#[test]
fn waiting_answers_at_once_when_the_deadline_cannot_be_met_or_it_can_never_pass() {
    block_on(async {
        let (limiter, _) = limiter([Limit::token_bucket("api", 1, Rate::per_second(1))]);
        assert!(limiter.check("api", ()).await.unwrap().is_allowed());
        let late = limiter
            .check("api", ())
            .wait_up_to(Duration::from_millis(999))
            .await
            .unwrap();
        assert_eq!(late.retry_after(), Some(Duration::from_secs(1)));
        assert!(
            limiter
                .check("api", ())
                .cost(2)
                .wait_up_to(MINUTE)
                .await
                .unwrap()
                .is_never()
        );
    });
}

#[test]
fn a_queue_spaces_what_it_admits_and_gives_back_turns_that_come_too_late() {
    let (limiter, clock) = limiter([Limit::queue("export", 3, Rate::per_second(10))]);
    let waits: Vec<Duration> = (0..3)
        .map(|_| limiter.check("export", ()).now_or_never().unwrap().wait())
        .collect();
    assert_eq!(waits, [0, 100, 200].map(Duration::from_millis));
    assert!(
        !limiter
            .check("export", ())
            .now_or_never()
            .unwrap()
            .is_allowed(),
        "the queue is bounded"
    );
    clock.advance(Duration::from_millis(100));
    block_on(async {
        let late = limiter
            .check("export", ())
            .wait_up_to(Duration::from_millis(199))
            .await
            .unwrap();
        assert_eq!(
            (late.is_allowed(), late.retry_after()),
            (false, Some(Duration::from_millis(200)))
        );
        assert_eq!(
            limiter
                .peek("export", ())
                .cost(0)
                .await
                .unwrap()
                .remaining(),
            1,
            "the turn was given back"
        );
    });
    let start = now(&clock);
    while_time_passes(&clock, Duration::from_millis(10), async {
        assert!(
            limiter
                .check("export", ())
                .wait_up_to(Duration::from_millis(200))
                .await
                .unwrap()
                .is_allowed()
        );
    });
    assert_eq!(
        Duration::from(now(&clock).since(start)),
        Duration::from_millis(200)
    );
}

/// A client that goes away while it waits for its turn: the turn, and the place that came with it,
/// are free again.
#[test]
fn a_wait_that_is_given_up_gives_back_what_it_held() {
    let (limiter, _) = limiter([
        Limit::queue("export", 3, Rate::per_second(10)),
        Limit::concurrency("jobs", 5, MINUTE),
        Limit::fixed_window("tried", 1, MINUTE).shadow(),
    ]);
    let ask = || limiter.check("export", ()).and("jobs", ()).and("tried", ());
    assert!(ask().now_or_never().unwrap().is_allowed());
    let mut waiting = Box::pin(ask().acquire_up_to(MINUTE));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let left = |limit: &str| {
        limiter
            .peek(limit, ())
            .cost(0)
            .now_or_never()
            .unwrap()
            .remaining()
    };
    assert_eq!((left("export"), left("jobs"), left("tried")), (1, 3, 0));
    drop(waiting);
    assert_eq!(
        (left("export"), left("jobs"), left("tried")),
        (2, 4, 0),
        "the shadow limit was not charged twice"
    );
}

#[test]
fn waiting_for_a_place_notices_one_given_back_early() {
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
    assert!(matches!(acquired, Acquisition::Held(_)));
}

#[test]
fn the_clock_of_the_wall_does_not_matter_and_real_time_works_too() {
    let limiter = Limiter::in_memory([Limit::token_bucket("api", 1, Rate::per_second(1_000))]);
    block_on(async {
        for _ in 0..20 {
            assert!(
                limiter
                    .check("api", ())
                    .wait_up_to(MINUTE)
                    .await
                    .unwrap()
                    .is_allowed()
            );
        }
    });
}
