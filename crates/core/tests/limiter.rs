//! The limiter's public interface, on the memory store.

use std::time::Duration;

use pollster::block_on;
use tollgate::limiter::{Check, Demands};
use tollgate::store::DEMANDS_MAX;
use tollgate::{
    Calendar, DemandBuf, Error, Limit, Limiter, ManualClock, MemoryStore, Rate, Retry, Source,
    TokenBucket,
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

#[test]
fn a_first_decision_takes_two_lines() {
    block_on(async {
        let limiter = Limiter::in_memory([Limit::sliding_window("api", 100, MINUTE)]).unwrap();
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
fn a_denial_reports_the_limit_and_the_retry_time() {
    let (limiter, clock) = limiter([Limit::token_bucket("api", 2, Rate::per_second(1))]);
    for _ in 0..2 {
        assert!(is_allowed(limiter.check("api", "ann")));
    }

    let denied = limiter.check("api", "ann").try_now().unwrap();
    assert_eq!(denied.denied_by().unwrap().name(), "api");
    assert_eq!(denied.retry(), Some(Retry::After(Duration::from_secs(1))));

    clock.advance(Duration::from_micros(999_999));
    assert!(!is_allowed(limiter.check("api", "ann")));
    clock.advance(Duration::from_micros(1));
    assert!(is_allowed(limiter.check("api", "ann")));
}

#[test]
fn a_cost_above_the_limit_can_never_pass() {
    let (limiter, _) = limiter([Limit::token_bucket("api", 5, Rate::per_second(1))]);
    let never = limiter.check("api", "ann").cost(6).try_now().unwrap();
    assert!(never.is_never() && !never.is_allowed());
    assert_eq!(never.retry_after(), None);

    let is_allowed = is_allowed(limiter.check("api", "ann").cost(5));
    assert!(is_allowed, "the denied request was charged");
}

#[test]
fn several_limits_pass_together_or_none_is_charged() {
    let (limiter, _) = limiter([
        Limit::fixed_window("user", 2, MINUTE),
        Limit::sliding_log("tenant", 3, MINUTE),
        Limit::calendar_window("month", 100, Calendar::Month),
    ]);
    let check = |user| {
        limiter
            .check("user", user)
            .and("tenant", "acme")
            .and("month", ())
            .try_now()
            .unwrap()
    };

    assert!(check("ann").is_allowed() && check("ann").is_allowed());

    let denied = check("ann");
    assert_eq!(denied.denied_by().unwrap().name(), "user");
    let outcomes: Vec<(&str, u64)> = denied
        .limits()
        .iter()
        .map(|limit| (limit.name(), limit.remaining()))
        .collect();
    assert_eq!(outcomes, [("user", 0), ("tenant", 1), ("month", 98)]);

    assert!(check("bob").is_allowed());
    assert_eq!(check("bob").denied_by().unwrap().name(), "tenant");

    let left = |limit: &str, key: &str| remaining(limiter.peek(limit, key).cost(0));
    assert_eq!((left("user", "bob"), left("tenant", "acme")), (1, 0));
    assert_eq!(remaining(limiter.peek("month", ()).cost(0)), 97);
}

#[test]
fn the_longest_of_several_denials_decides() {
    let (limiter, _) = limiter([
        Limit::fixed_window("short", 1, MINUTE),
        Limit::fixed_window("long", 1, MINUTE * 60),
    ]);
    let check = || {
        limiter
            .check("long", "ann")
            .and("short", "ann")
            .try_now()
            .unwrap()
    };

    assert!(check().is_allowed());
    assert_eq!(check().denied_by().unwrap().name(), "long");
    assert_eq!(check().retry_after(), Some(MINUTE * 60));
}

#[test]
fn shadow_limits_count_without_denying_or_affecting_enforced_limits() {
    let (limiter, _) = limiter([
        Limit::fixed_window("new", 1, MINUTE).shadow(),
        Limit::fixed_window("old", 3, MINUTE),
    ]);

    for left in [2, 1, 0] {
        let decision = limiter
            .check("new", "ann")
            .and("old", "ann")
            .try_now()
            .unwrap();
        assert!(decision.is_allowed());
        assert_eq!(decision.remaining(), left, "the enforced limit is reported");
    }

    let denied = limiter
        .check("new", "ann")
        .and("old", "ann")
        .try_now()
        .unwrap();
    assert_eq!(denied.denied_by().unwrap().name(), "old");
    assert!(denied.limits()[0].is_shadow() && denied.limits()[0].retry().is_some());
}

#[test]
fn keys_and_secrets_do_not_show_in_debug_output() {
    let limiter = Limiter::in_memory([Limit::concurrency("jobs", 5, MINUTE)]).unwrap();
    let acquired = block_on(limiter.acquire("jobs", "ann@example.com")).unwrap();
    let check = limiter
        .check("jobs", "ann@example.com")
        .and("jobs", ("ann@example.com", 1u64));
    let demand = DemandBuf::new(limiter.rule("jobs").unwrap(), "ann@example.com", 1).unwrap();

    let shown = format!(
        "{limiter:?} {acquired:?} {:?} {demand:?} {check:?}",
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
        let peek = limiter.peek("api", "ann").cost(0).await.unwrap();
        assert_eq!(peek.remaining(), 10);

        let check = limiter.check("api", "ann").cost(10).await.unwrap();
        assert_eq!(check.remaining(), 0);
        assert!(
            !limiter.peek("api", "ann").await.unwrap().is_allowed(),
            "a peek has cost 1 by default"
        );

        limiter.reset("api", "ann").await.unwrap();
        assert!(limiter.peek("api", "ann").await.unwrap().is_allowed());
    });
}

#[test]
fn a_quota_of_the_call_shares_the_counter() {
    let (limiter, _) = limiter([Limit::token_bucket("plan", 100, Rate::per_second(10))]);
    let pro = TokenBucket::new(1_000, Rate::per_second(100)).unwrap();
    let left = remaining(limiter.check("plan", "ann").quota(pro).cost(500));
    assert_eq!(left, 500);
    let left = remaining(limiter.check("plan", "ann"));
    assert_eq!(left, 49, "the used fraction carries over");

    let other = tollgate::SlidingWindow::new(5, MINUTE).unwrap();

    let error = limiter
        .check("plan", "ann")
        .quota(other)
        .try_now()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected a token_bucket with the limit's window, found a sliding_window")
    );
}

/// A bucket keeps its used fraction when the quota changes. Peeking with a smaller quota must not
/// refill it.
#[test]
fn peeking_with_a_smaller_quota_refills_nothing() {
    let (limiter, _) = limiter([Limit::token_bucket("plan", 1_000, Rate::per_second(100))]);
    let [free, fast] = [(10, 10), (1_000, 1_000)]
        .map(|(n, rate)| TokenBucket::new(n, Rate::per_second(rate)).unwrap());

    assert!(is_allowed(limiter.check("plan", "ann").cost(1_000)));
    assert!(!is_allowed(limiter.peek("plan", "ann").quota(free)));
    assert_eq!(remaining(limiter.peek("plan", "ann").cost(0)), 0);

    assert!(is_allowed(limiter.check("plan", "bob").cost(500)));
    let left = remaining(limiter.peek("plan", "bob").quota(fast).cost(0));
    assert_eq!(left, 500, "not locked out");
}

#[test]
fn invalid_requests_are_rejected_and_charge_nothing() {
    block_on(async {
        let (limiter, _) = limiter([
            Limit::fixed_window("api", 9, MINUTE),
            Limit::concurrency("jobs", 1, MINUTE),
        ]);
        let text = |error: Error| error.to_string();

        let unknown = text(limiter.check("apy", "ann").await.unwrap_err());
        assert_eq!(unknown, "unknown limit \"apy\"; expected one of: api, jobs");

        let empty = limiter.check("api", "ann").and("jobs", "").await;
        let empty = text(empty.unwrap_err());
        assert!(
            empty.contains("invalid key for limit \"jobs\": empty key part"),
            "{empty}"
        );

        let duplicate = limiter.check("api", "ann").and("api", "ann").await;
        let duplicate = text(duplicate.unwrap_err());
        assert!(duplicate.contains("duplicate limit \"api\""), "{duplicate}");

        let in_flight = text(limiter.refund("jobs", "ann").await.unwrap_err());
        assert!(in_flight.contains("use Limiter::release"), "{in_flight}");

        assert!(matches!(
            limiter.acquire("api", "ann").await,
            Err(Error::NoConcurrencyLimit)
        ));

        let keys: Vec<String> = (0..=DEMANDS_MAX).map(|key| format!("key:{key}")).collect();
        let many = keys[1..].iter().fold(
            limiter.check("api", &keys[0]).and("api", "x"),
            |check, key| check.and("api", key),
        );
        assert!(matches!(many.await, Err(Error::TooManyLimits)));

        let peek = limiter.peek("api", "ann").cost(0).await.unwrap();
        assert_eq!(peek.remaining(), 9);
    });
}

#[test]
fn invalid_limits_are_rejected_when_the_limiter_is_created() {
    let zero = || Limit::fixed_window("api", 0, MINUTE);
    let expected = "invalid limit \"api\": limit 0 is out of range; \
                    must be between 1 and 9007199254740992 (2^53)";
    let error = Limiter::builder().limit(zero()).build().unwrap_err();
    assert_eq!(error.to_string(), expected);
    let error = Limiter::in_memory([Limit::fixed_window("ok", 1, MINUTE), zero()]).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert!(std::error::Error::source(&error).is_some());

    let duplicates = [
        Limit::fixed_window("api", 1, MINUTE),
        Limit::fixed_window("api", 2, MINUTE),
    ];
    let error = Limiter::in_memory(duplicates).unwrap_err();
    assert!(error.to_string().contains("duplicate limit name \"api\""));
}

#[test]
fn errors_say_what_would_be_valid() {
    let day = Duration::from_secs(86_400);
    let window = |window| Limit::sliding_window("api", 1, window);
    let bucket = |capacity, rate| Limit::token_bucket("api", capacity, Rate::per_second(rate));
    let concurrency = |limit, timeout| Limit::concurrency("api", limit, timeout);
    let rejected = |limit: Limit, expected: &str| {
        let text = limit.validate().expect_err(expected).to_string();
        assert!(
            text.contains(expected),
            "{text:?} does not contain {expected:?}"
        );
        // What was found and what is expected can be separated.
        assert!(text.contains("; "), "{text:?}");
    };

    rejected(
        Limit::fixed_window("", 1, MINUTE),
        "name is empty; expected 1 to 47",
    );
    rejected(
        Limit::fixed_window("x".repeat(48), 1, MINUTE),
        "48 bytes; must be at most 47",
    );
    rejected(
        Limit::fixed_window("a b", 1, MINUTE),
        "invalid character ' ' in limit name \"a b\"; expected letters",
    );
    rejected(
        Limit::fixed_window("api\n", 1, MINUTE),
        "invalid character '\\n'",
    );

    rejected(
        Limit::sliding_log("api", (1 << 53) + 1, MINUTE),
        "limit 9007199254740993 is out of range; must be between 1 and",
    );
    rejected(
        bucket(0, 1),
        "capacity 0 is out of range; must be between 1",
    );
    rejected(bucket(1, 0), "rate 0 per 1s is out of range");
    rejected(bucket(1, 10_000_001), "and 10000000 per 1s");
    rejected(
        Limit::queue("api", 1 << 53, Rate::per_day(1)),
        "takes over 100 years to fill",
    );
    rejected(concurrency(0, MINUTE), "must be between 1 and 65536");
    rejected(concurrency(65_537, MINUTE), "must be between 1 and 65536");

    rejected(
        window(Duration::ZERO),
        "whole microseconds between 1ms and 3653d",
    );
    rejected(window(Duration::from_micros(999)), "between 1ms");
    rejected(
        window(Duration::from_nanos(1_000_001)),
        "whole microseconds",
    );
    rejected(window(3_654 * day), "and 3653d (ten years)");
    rejected(window(Duration::MAX), "and 3653d (ten years)");
    rejected(concurrency(1, Duration::ZERO), "between 1ms");
}

/// A limit of every algorithm, and a shadow limit.
fn every_limit() -> [Limit; 7] {
    [
        Limit::fixed_window("fixed", 5, MINUTE),
        Limit::sliding_window("window", 5, MINUTE),
        Limit::sliding_log("log", 5, MINUTE),
        Limit::token_bucket("bucket", 5, Rate::per_minute(9)),
        Limit::queue("queue", 5, Rate::per_minute(9)),
        Limit::concurrency("in-flight", 5, MINUTE),
        Limit::token_bucket("shadow", 5, Rate::per_minute(9)).shadow(),
    ]
}

proptest::proptest! {
    /// `is_allowed` agrees with the decision and charges the same.
    #[test]
    fn is_allowed_agrees_with_the_decision(
        checks in proptest::collection::vec(
            (0..7_usize, 0..3_usize, 0..8_u64, 0..9_000_000_u64),
            1..200,
        ),
    ) {
        let (short, short_clock) = limiter(every_limit());
        let (long, long_clock) = limiter(every_limit());
        for (limit, key, cost, micros) in checks {
            short_clock.advance(Duration::from_micros(micros));
            long_clock.advance(Duration::from_micros(micros));
            let name = every_limit()[limit].name().to_owned();
            let key = ["ann", "bob", "eve"][key];

            let is_allowed = short.check(&name, key).cost(cost).try_is_allowed().unwrap();
            let decision = long.check(&name, key).cost(cost).try_now().unwrap();
            proptest::prop_assert_eq!(is_allowed, decision.is_allowed(), "{} {}", name, cost);

            let left = |limiter: &Limiter| remaining(limiter.peek(&name, key));
            proptest::prop_assert_eq!(left(&short), left(&long), "{} {}", name, cost);
        }
    }
}

/// Also the last one of as many limits as a request may have.
#[test]
fn any_limit_of_a_long_request_can_deny_it() {
    let names: Vec<String> = (0..DEMANDS_MAX).map(|n| format!("limit-{n}")).collect();
    let last = names.len() - 1;
    let limit = |n: usize| if n == last { 1 } else { 9 };
    let limits = names
        .iter()
        .enumerate()
        .map(|(n, name)| Limit::fixed_window(name, limit(n), Duration::from_secs(60)));
    let limiter = Limiter::in_memory(limits).unwrap();

    block_on(async {
        let check = || {
            let first = limiter.check(&names[0], "ann").and(&names[1], "ann");
            names[2..]
                .iter()
                .fold(first, |check, name| check.and(name, "ann"))
        };
        assert!(check().await.unwrap().is_allowed());

        let denied = check().await.unwrap();
        let deniers = denied.denied_by().map(|limit| limit.name().to_owned());
        assert_eq!(deniers.as_ref(), names.last());
        assert_eq!(
            limiter
                .peek(&names[0], "ann")
                .cost(0)
                .await
                .unwrap()
                .remaining(),
            8
        );
    });
}

/// The first reservation of a fresh store, so that nothing else keeps what is known of the bucket.
#[test]
fn the_only_reservation_of_a_bucket_gives_back_what_it_did_not_use() {
    for (actual, left) in [(Some(5), 95), (None, 100)] {
        let limit = Limit::token_bucket("tokens", 100, Rate::per_hour(1));
        let limiter = Limiter::in_memory([limit]).expect("a valid limit");
        let reservation = block_on(async { limiter.reserve("tokens", "ann").cost(20).await });
        let reservation = reservation.expect("a decision");
        let ended = block_on(async {
            match actual {
                Some(units) => reservation.settle(units).await.map(drop),
                None => reservation.cancel().await.map(drop),
            }
        });
        ended.expect("the memory store is available");

        let look = limiter.peek("tokens", "ann").cost(0).try_now();
        assert_eq!(look.expect("a decision").remaining(), left, "{actual:?}");
    }
}
