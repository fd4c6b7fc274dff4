//! The limiter as a user meets it: through its public interface, on the memory store.

use std::time::Duration;

use pollster::block_on;
use tollgate::{
    Calendar, Error, Limit, Limiter, ManualClock, MemoryStore, Rate, Retry, Source, TokenBucket,
};

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

#[test]
fn two_lines_to_a_first_decision() {
    block_on(async {
        let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, MINUTE)]);
        let decision = limiter.check("api", "user:42").await.unwrap();
        assert!(decision.is_allowed());
        assert_eq!((decision.limit(), decision.remaining()), (100, 99));
        assert_eq!(
            (decision.source(), decision.is_degraded()),
            (Source::Store, false)
        );
    });
}

#[test]
fn a_denial_names_the_limit_and_the_time() {
    let (limiter, clock) = limiter([Limit::token_bucket("api", 2, Rate::per_second(1))]);
    for _ in 0..2 {
        assert!(
            limiter
                .check("api", "ann")
                .now_or_never()
                .unwrap()
                .is_allowed()
        );
    }
    let denied = limiter.check("api", "ann").now_or_never().unwrap();
    assert_eq!(denied.denied_by().unwrap().name(), "api");
    assert_eq!(denied.retry(), Some(Retry::After(Duration::from_secs(1))));
    clock.advance(Duration::from_micros(999_999));
    assert!(
        !limiter
            .check("api", "ann")
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    clock.advance(Duration::from_micros(1));
    assert!(
        limiter
            .check("api", "ann")
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
}

#[test]
fn never_is_not_later() {
    let (limiter, _) = limiter([Limit::token_bucket("api", 5, Rate::per_second(1))]);
    let never = limiter.check("api", "ann").cost(6).now_or_never().unwrap();
    assert!(never.is_never() && !never.is_allowed());
    assert_eq!(never.retry_after(), None);
    let later = limiter.check("api", "ann").cost(5).now_or_never().unwrap();
    assert!(later.is_allowed(), "the refused request consumed something");
}

#[test]
fn several_limits_pass_together_or_none_is_charged() {
    let (limiter, _) = limiter([
        Limit::fixed_window("user", 2, MINUTE),
        Limit::sliding_log("tenant", 3, MINUTE),
        Limit::calendar_window("month", 100, Calendar::Month),
    ]);
    let ask = |user| {
        limiter
            .check("user", user)
            .and("tenant", "acme")
            .and("month", ())
            .now_or_never()
            .unwrap()
    };
    assert!(ask("ann").is_allowed() && ask("ann").is_allowed());
    let refused = ask("ann");
    assert_eq!(refused.denied_by().unwrap().name(), "user");
    let told: Vec<(&str, u64)> = refused
        .limits()
        .iter()
        .map(|limit| (limit.name(), limit.remaining()))
        .collect();
    assert_eq!(told, [("user", 0), ("tenant", 1), ("month", 98)]);
    assert!(ask("bob").is_allowed());
    assert_eq!(ask("bob").denied_by().unwrap().name(), "tenant");
    let left = |limit: &str, key: &str| {
        limiter
            .peek(limit, key)
            .cost(0)
            .now_or_never()
            .unwrap()
            .remaining()
    };
    assert_eq!((left("user", "bob"), left("tenant", "acme")), (1, 0));
    assert_eq!(
        limiter
            .peek("month", ())
            .cost(0)
            .now_or_never()
            .unwrap()
            .remaining(),
        97
    );
}

#[test]
fn of_several_refusals_the_longest_decides() {
    let (limiter, _) = limiter([
        Limit::fixed_window("short", 1, MINUTE),
        Limit::fixed_window("long", 1, MINUTE * 60),
    ]);
    let ask = || {
        limiter
            .check("long", "ann")
            .and("short", "ann")
            .now_or_never()
            .unwrap()
    };
    assert!(ask().is_allowed());
    assert_eq!(ask().denied_by().unwrap().name(), "long");
    assert_eq!(ask().retry_after(), Some(MINUTE * 60));
}

#[test]
fn shadow_limits_count_and_never_refuse_or_change_the_enforced_ones() {
    let (limiter, _) = limiter([
        Limit::fixed_window("new", 1, MINUTE).shadow(),
        Limit::fixed_window("old", 3, MINUTE),
    ]);
    for left in [2, 1, 0] {
        let decision = limiter
            .check("new", "ann")
            .and("old", "ann")
            .now_or_never()
            .unwrap();
        assert!(decision.is_allowed());
        assert_eq!(
            decision.remaining(),
            left,
            "the client is told of the enforced limit"
        );
    }
    let refused = limiter
        .check("new", "ann")
        .and("old", "ann")
        .now_or_never()
        .unwrap();
    assert_eq!(refused.denied_by().unwrap().name(), "old");
    assert!(refused.limits()[0].is_shadow() && refused.limits()[0].retry().is_some());
}

#[test]
fn keys_and_secrets_do_not_show_in_debug_output() {
    let limiter = Limiter::in_memory([Limit::concurrency("jobs", 5, MINUTE)]);
    let acquired = block_on(limiter.acquire("jobs", "ann@example.com")).unwrap();
    let ask = limiter
        .check("jobs", "ann@example.com")
        .and("jobs", ("ann@example.com", 1u64));
    let check = limiter
        .rule("jobs")
        .unwrap()
        .demand("ann@example.com", 1)
        .unwrap();
    let shown = format!(
        "{limiter:?} {acquired:?} {:?} {check:?} {ask:?}",
        limiter.check("jobs", "ann@example.com")
    );
    assert!(!shown.contains("ann@"), "{shown}");
    assert!(shown.len() < 5_000, "{} bytes of debug output", shown.len());
}

#[test]
fn costs_refunds_and_resets() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::sliding_window("api", 10, MINUTE),
            Limit::fixed_window("day", 10, MINUTE),
        ]);
        let both = limiter
            .check("api", "ann")
            .and("day", "ann")
            .cost(4)
            .limit_cost(1)
            .await
            .unwrap();
        let left: Vec<u64> = both
            .limits()
            .iter()
            .map(tollgate::LimitOutcome::remaining)
            .collect();
        assert_eq!(left, [6, 9]);
        limiter
            .refund("api", "ann")
            .and("day", "ann")
            .cost(4)
            .limit_cost(1)
            .await
            .unwrap();
        assert_eq!(
            limiter
                .peek("api", "ann")
                .cost(0)
                .await
                .unwrap()
                .remaining(),
            10
        );
        assert_eq!(
            limiter
                .check("api", "ann")
                .cost(10)
                .await
                .unwrap()
                .remaining(),
            0
        );
        assert!(
            !limiter.peek("api", "ann").await.unwrap().is_allowed(),
            "a peek asks about a request of cost 1"
        );
        limiter.reset("api", "ann").await.unwrap();
        assert!(limiter.peek("api", "ann").await.unwrap().is_allowed());
    });
}

#[test]
fn numbers_of_the_callers_tier_share_the_counter() {
    let (limiter, _) = limiter([Limit::token_bucket("plan", 100, Rate::per_second(10))]);
    let pro = TokenBucket::new(1_000, Rate::per_second(100)).unwrap();
    assert_eq!(
        limiter
            .check("plan", "ann")
            .quota(pro)
            .cost(500)
            .now_or_never()
            .unwrap()
            .remaining(),
        500
    );
    assert_eq!(
        limiter
            .check("plan", "ann")
            .now_or_never()
            .unwrap()
            .remaining(),
        49,
        "half used is half used"
    );
    let other = tollgate::SlidingWindow::new(5, MINUTE).unwrap();
    let refused = limiter
        .check("plan", "ann")
        .quota(other)
        .now_or_never()
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("is a token_bucket; the numbers given with the call are a sliding_window")
    );
}

/// A bucket follows the numbers it is asked with by the part that is used. Asking with smaller ones
/// gives nothing away.
#[test]
fn looking_with_a_smaller_tier_refills_nothing() {
    let (limiter, _) = limiter([Limit::token_bucket("plan", 1_000, Rate::per_second(100))]);
    let [free, fast] = [(10, 10), (1_000, 1_000)]
        .map(|(n, rate)| TokenBucket::new(n, Rate::per_second(rate)).unwrap());
    let left = |ask: tollgate::Decision| ask.remaining();
    assert!(
        limiter
            .check("plan", "ann")
            .cost(1_000)
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    assert!(
        !limiter
            .peek("plan", "ann")
            .quota(free)
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    assert_eq!(
        left(limiter.peek("plan", "ann").cost(0).now_or_never().unwrap()),
        0
    );
    assert!(
        limiter
            .check("plan", "bob")
            .cost(500)
            .now_or_never()
            .unwrap()
            .is_allowed()
    );
    assert_eq!(
        left(
            limiter
                .peek("plan", "bob")
                .quota(fast)
                .cost(0)
                .now_or_never()
                .unwrap()
        ),
        500,
        "not locked out"
    );
}

#[test]
fn wrong_requests_are_refused_and_change_nothing() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::fixed_window("api", 9, MINUTE),
            Limit::concurrency("jobs", 1, MINUTE),
        ]);
        let text = |error: Error| error.to_string();
        let unknown = text(limiter.check("apy", "ann").await.unwrap_err());
        assert_eq!(
            unknown,
            "there is no limit named \"apy\"; there are: api, jobs"
        );
        let empty = text(
            limiter
                .check("api", "ann")
                .and("jobs", "")
                .await
                .unwrap_err(),
        );
        assert!(
            empty.contains("the key for the limit \"jobs\" is not usable: a key part is empty"),
            "{empty}"
        );
        let twice = text(
            limiter
                .check("api", "ann")
                .and("api", "ann")
                .await
                .unwrap_err(),
        );
        assert!(twice.contains("names the limit \"api\" twice"), "{twice}");
        let in_flight = text(limiter.refund("jobs", "ann").await.unwrap_err());
        assert!(in_flight.contains("use Limiter::release"), "{in_flight}");
        assert!(matches!(
            limiter.acquire("api", "ann").await,
            Err(Error::NoConcurrencyLimit)
        ));
        let keys: Vec<String> = (0..17).map(|key| format!("key:{key}")).collect();
        let many = keys[1..].iter().fold(
            limiter.check("api", &keys[0]).and("api", "x"),
            |ask, key| ask.and("api", key),
        );
        assert!(matches!(many.await, Err(Error::TooManyLimits)));
        assert_eq!(
            limiter
                .peek("api", "ann")
                .cost(0)
                .await
                .unwrap()
                .remaining(),
            9
        );
    });
}

#[test]
fn wrong_limits_are_refused_at_the_start_or_at_the_first_check() {
    let zero = || Limit::fixed_window("api", 0, MINUTE);
    let refused = Limiter::builder().limit(zero()).build().unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("the limit \"api\" is not usable: limit is 0;"),
        "{refused}"
    );
    let late = Limiter::in_memory([zero(), Limit::fixed_window("ok", 1, MINUTE)]);
    assert!(matches!(
        late.check("api", "ann").now_or_never(),
        Err(Error::Limit { .. })
    ));
    assert!(late.check("ok", "ann").now_or_never().unwrap().is_allowed());
    assert_eq!(
        late.check("api", "ann")
            .now_or_never()
            .unwrap_err()
            .to_string(),
        "the limit \"api\" is not usable: limit is 0; it must be from 1 to 9007199254740992 (2^53)"
    );
    let twice = [
        Limit::fixed_window("api", 1, MINUTE),
        Limit::fixed_window("api", 2, MINUTE),
    ];
    let refused = Limiter::builder()
        .limits(twice.clone())
        .build()
        .unwrap_err();
    assert!(refused.to_string().contains("two limits are named \"api\""));
    assert!(
        Limiter::in_memory(twice)
            .check("api", "ann")
            .now_or_never()
            .is_err()
    );
}

#[test]
fn bad_values_say_what_would_be_right() {
    let day = Duration::from_secs(86_400);
    let refused = |limit: Limit, says: &str| {
        let text = limit.validate().expect_err(says).to_string();
        assert!(text.contains(says), "{text:?} does not say {says:?}");
    };
    refused(
        Limit::fixed_window("", 1, MINUTE),
        "name is empty; give it 1 to 47",
    );
    refused(
        Limit::fixed_window("x".repeat(48), 1, MINUTE),
        "has 48 bytes; a limit's name has at most 47",
    );
    refused(
        Limit::fixed_window("a b", 1, MINUTE),
        "has the character ' '; use letters",
    );
    refused(
        Limit::fixed_window("api\n", 1, MINUTE),
        "has the character '\\n'",
    );
    refused(
        Limit::sliding_log("api", (1 << 53) + 1, MINUTE),
        "limit is 9007199254740993; it must be from 1 to",
    );
    refused(
        Limit::sliding_window("api", 1, Duration::ZERO),
        "whole microseconds from 1ms to 3653d",
    );
    refused(
        Limit::sliding_window("api", 1, Duration::from_micros(999)),
        "from 1ms",
    );
    refused(
        Limit::sliding_window("api", 1, Duration::from_nanos(1_000_001)),
        "whole microseconds",
    );
    refused(
        Limit::sliding_window("api", 1, 3_654 * day),
        "to 3653d (ten years)",
    );
    refused(
        Limit::sliding_window("api", 1, Duration::MAX),
        "to 3653d (ten years)",
    );
    refused(
        Limit::token_bucket("api", 0, Rate::per_second(1)),
        "capacity is 0; it must be from 1",
    );
    refused(
        Limit::token_bucket("api", 1, Rate::per_second(0)),
        "the rate 0 per 1s is out of range",
    );
    refused(
        Limit::token_bucket("api", 1, Rate::per_second(10_000_001)),
        "to 10000000 per 1s",
    );
    refused(
        Limit::queue("api", 1 << 53, Rate::per_day(1)),
        "takes over 100 years to fill",
    );
    refused(
        Limit::concurrency("api", 0, MINUTE),
        "it must be from 1 to 65536",
    );
    refused(
        Limit::concurrency("api", 65_537, MINUTE),
        "it must be from 1 to 65536",
    );
    refused(Limit::concurrency("api", 1, Duration::ZERO), "from 1ms");
}

/// Every way to be asked, and who is charged what by it.
fn every_limit() -> [Limit; 7] {
    [
        Limit::fixed_window("fixed", 5, MINUTE),
        Limit::sliding_window("window", 5, MINUTE),
        Limit::sliding_log("log", 5, MINUTE),
        Limit::token_bucket("bucket", 5, Rate::per_minute(9)),
        Limit::queue("queue", 5, Rate::per_minute(9)),
        Limit::concurrency("places", 5, MINUTE),
        Limit::token_bucket("shadow", 5, Rate::per_minute(9)).shadow(),
    ]
}

proptest::proptest! {
    /// A yes or no is the decision's, and charges the same.
    #[test]
    fn what_passes_is_what_is_allowed(
        asked in proptest::collection::vec((0..7_usize, 0..3_usize, 0..8_u64, 0..9_000_000_u64), 1..200),
    ) {
        let ((short, its_clock), (long, clock)) = (limiter(every_limit()), limiter(every_limit()));
        for (limit, who, cost, later) in asked {
            its_clock.advance(Duration::from_micros(later));
            clock.advance(Duration::from_micros(later));
            let (name, who) = (every_limit()[limit].name().to_owned(), ["ann", "bob", "eve"][who]);
            let passes = short.check(&name, who).cost(cost).is_allowed().unwrap();
            let decision = long.check(&name, who).cost(cost).now_or_never().unwrap();
            proptest::prop_assert_eq!(passes, decision.is_allowed(), "{} {}", name, cost);
            let left = |limiter: &Limiter| limiter.peek(&name, who).now_or_never().unwrap().remaining();
            proptest::prop_assert_eq!(left(&short), left(&long), "{} {}", name, cost);
        }
    }
}
