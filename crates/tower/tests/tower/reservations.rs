//! Estimates that are settled with the actual cost: debt, errors, expiry, several limits, outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate::store::{Ending, Intent, SettleReply, Settlement, SpendReply, StoreFuture};
use tollgate::{
    Demand, FailurePolicy, Key, Limit, Limiter, ManualClock, MemoryStore, PermitId, Rate,
    ReservationExpiry, Store, StoreError,
};
use tollgate_redis::RedisBuilder;
use tollgate_tower::{ActualCost, RateLimitLayer, ResponseBody, by, response};
use tower::{Layer, Service, ServiceExt as _, service_fn};

use crate::support::{MINUTE, TestRequest, get, header, left, limiter, per_minute, timed};

const SECOND: Duration = Duration::from_secs(1);

type TestResponse = Response<ResponseBody<Full<Bytes>>>;

/// An application that reports a cost, if there is one, and answers with this status. With status
/// 0 it never answers, with 1 it panics, with 2 it fails without a response.
fn application(
    status: u16,
    cost: Option<u64>,
) -> impl Service<TestRequest, Response = Response<Full<Bytes>>, Error = &'static str, Future: Send>
+ Clone
+ Send
+ 'static {
    service_fn(move |request: TestRequest| async move {
        if let Some(cost) = cost {
            let actual_cost = request.extensions().get::<ActualCost>();
            let actual_cost = actual_cost.expect("an extension");
            actual_cost.report("tokens", cost).expect("a known limit");
        }
        match status {
            0 => std::future::pending().await,
            1 => unreachable!("the handler panics"),
            2 => Err("no response"),
            _ => {
                let mut response = Response::new(Full::from("text"));
                *response.status_mut() = StatusCode::from_u16(status).expect("a status");
                Ok(response)
            }
        }
    })
}

/// A layer whose estimate is 20 tokens.
pub(crate) fn token_budget(limits: &Limiter) -> RateLimitLayer {
    RateLimitLayer::new(limits, "tokens", by::everyone())
        .cost(|_| 20)
        .settle_by_actual_cost()
}

/// Starts a request. Its response is held until it is dropped.
fn start(layer: &RateLimitLayer, actual: Option<u64>) -> TestResponse {
    let service = layer.layer(application(200, actual));
    pollster::block_on(service.oneshot(get("/"))).expect("a response")
}

/// The published failure of another gateway: five calls at a time estimate 20 tokens and use 130.
#[test]
fn five_requests_beyond_their_estimates_leave_an_exact_debt() {
    let (limits, clock) = timed([Limit::token_bucket("tokens", 100, Rate::per_second(10))]);
    let layer = token_budget(&limits);

    let responses: Vec<TestResponse> = (0..5).map(|_| start(&layer, Some(130))).collect();
    assert!(responses.iter().all(|response| response.status() == 200));
    assert_eq!(
        start(&layer, None).status(),
        429,
        "the estimates use the limit up"
    );

    drop(responses);
    // 550 tokens of debt and the next estimate take 57 seconds.
    let denied = start(&layer, None);
    assert_eq!(header(&denied, "retry-after"), Some("57"));
    clock.advance(Duration::from_micros(56_999_999));
    assert_eq!(start(&layer, None).status(), 429);
    clock.advance(Duration::from_micros(1));
    assert_eq!(start(&layer, None).status(), 200);
}

#[test]
fn an_error_is_free_unless_a_cost_was_reported() {
    for (status, unreported) in [(200, 80), (302, 80), (404, 100), (500, 100), (2, 100)] {
        for (cost, left_then) in [(None, unreported), (Some(0), 100), (Some(35), 65)] {
            let limits = limiter([per_minute("tokens", 100)]);
            let service = token_budget(&limits).layer(application(status, cost));
            let response = pollster::block_on(service.oneshot(get("/")));
            let is_settled = status == 2 || status >= 400 && cost.is_none();
            if is_settled {
                assert_eq!(left(&limits, "tokens", ()), left_then, "{status}: at once");
            }
            drop(response);
            assert_eq!(
                left(&limits, "tokens", ()),
                left_then,
                "{status} with {cost:?}"
            );
        }
    }
}

#[test]
fn a_dropped_or_panicking_handler_is_charged_what_is_known() {
    for (cost, left_then) in [(None, 80), (Some(0), 100), (Some(35), 65)] {
        let limits = limiter([per_minute("tokens", 100)]);
        let layer = token_budget(&limits);

        let mut call = Box::pin(layer.layer(application(0, cost)).oneshot(get("/")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        assert_eq!(left(&limits, "tokens", ()), 80);
        drop(call);
        assert_eq!(left(&limits, "tokens", ()), left_then, "dropped, {cost:?}");

        let limits = limiter([per_minute("tokens", 100)]);
        let service = token_budget(&limits).layer(application(1, cost));
        let panicking = std::panic::AssertUnwindSafe(|| {
            pollster::block_on(service.oneshot(get("/"))).map(drop)
        });
        std::panic::catch_unwind(panicking).expect_err("the handler panics");
        assert_eq!(left(&limits, "tokens", ()), left_then, "panic, {cost:?}");
    }
}

#[test]
fn a_refunded_request_stays_free() {
    let limits = limiter([per_minute("tokens", 100)]);
    let layer = token_budget(&limits).refund_when(response::failed);
    let service = layer.layer(application(503, Some(35)));
    drop(pollster::block_on(service.oneshot(get("/"))));
    assert_eq!(left(&limits, "tokens", ()), 100);
}

#[test]
fn an_estimate_takes_no_more_than_its_share_of_the_limit() {
    for (share, reserved) in [(None, 50), (Some(1.0), 80), (Some(0.1), 10)] {
        let limit = per_minute("tokens", 100);
        let limits = limiter([match share {
            Some(share) => limit.reservation_max(share),
            None => limit,
        }]);
        let layer = token_budget(&limits).cost(|_| 80);
        let response = start(&layer, Some(80));
        assert_eq!(left(&limits, "tokens", ()), 100 - reserved);
        drop(response);
        assert_eq!(left(&limits, "tokens", ()), 20, "all of it is charged");
    }
}

#[test]
fn an_expired_estimate_is_kept_or_released() {
    use ReservationExpiry::{Keep, Release};
    for (expiry, actual, left_expired, left_settled) in [
        (Keep, Some(35), 80, 45),
        (Keep, None, 80, 80),
        (Release, Some(35), 100, 65),
        (Release, None, 100, 80),
    ] {
        let window = 10 * MINUTE;
        let limit = |name| Limit::sliding_log(name, 100, window).on_reservation_expiry(expiry);
        let (limits, clock) = timed([limit("tokens"), limit("requests")]);
        let layer = token_budget(&limits)
            .and("requests", by::everyone())
            .reservation_ttl(MINUTE);

        let late = start(&layer, actual);
        clock.advance(MINUTE);
        assert_eq!(left(&limits, "tokens", ()), left_expired, "{expiry:?}");
        drop(late);
        assert_eq!(
            (left(&limits, "tokens", ()), left(&limits, "requests", ())),
            (left_settled, 99),
            "{expiry:?} {actual:?}: a request is counted once"
        );

        // One that is settled in time does not expire.
        drop(start(&layer, Some(10)));
        clock.advance(2 * MINUTE);
        assert_eq!(
            (left(&limits, "tokens", ()), left(&limits, "requests", ())),
            (left_settled - 10, 98),
            "{expiry:?}"
        );
    }
}

#[test]
fn a_wrong_time_is_an_error() {
    let limits = limiter([per_minute("tokens", 100)]);
    for ttl in [Duration::ZERO, Duration::from_secs(3_601), Duration::MAX] {
        let layer = token_budget(&limits).reservation_ttl(ttl);
        assert_eq!(start(&layer, None).status(), 500);
        let error = layer.validate().expect_err("out of range").to_string();
        assert!(error.contains("reservation"), "{error}");
    }
    assert_eq!(left(&limits, "tokens", ()), 100);
}

#[test]
fn a_shadow_denial_is_not_charged() {
    let limits = limiter([
        per_minute("tokens", 100),
        per_minute("trial", 10).shadow().reservation_max(1.0),
    ]);
    let layer = token_budget(&limits)
        .and("trial", by::everyone())
        .cost(|_| 8)
        .settle(|_| Some(9));

    drop(start(&layer, Some(30)));
    drop(start(&layer, Some(30)));
    assert_eq!(
        (left(&limits, "tokens", ()), left(&limits, "trial", ())),
        (40, 1),
        "the second request would have been denied by the trial"
    );
}

/// Requests per minute, tokens per minute and requests in flight: all of them, or none.
#[test]
fn requests_tokens_and_requests_in_flight_pass_together() {
    let (limits, clock) = timed([
        per_minute("requests", 4),
        per_minute("tokens", 100),
        Limit::concurrency("in-flight", 2, MINUTE),
    ]);
    let layer = RateLimitLayer::new(&limits, "requests", by::everyone())
        .and("tokens", by::everyone())
        .cost(|head| head.header("x-estimate").map_or(20, |_| 50))
        .settle_by_actual_cost()
        .and("in-flight", by::everyone());
    let all_left = || ["requests", "tokens", "in-flight"].map(|name| left(&limits, name, ()));

    let (first, second) = (start(&layer, Some(45)), start(&layer, Some(10)));
    assert_eq!(all_left(), [2, 60, 0]);
    assert_eq!(start(&layer, None).status(), 429);
    assert_eq!(all_left(), [2, 60, 0], "denied by the requests in flight");

    drop(first);
    assert_eq!(all_left(), [2, 35, 1]);
    let large = crate::support::with("/", &[("x-estimate", "large")]);
    let service = layer.layer(application(200, None));
    let denied = pollster::block_on(service.oneshot(large)).expect("a response");
    assert_eq!(denied.status(), 429);
    assert_eq!(all_left(), [2, 35, 1], "denied by the tokens");

    let third = start(&layer, Some(200));
    assert_eq!(all_left(), [1, 15, 0]);
    drop(third);
    drop(second);
    assert_eq!(all_left(), [1, 0, 2], "155 tokens beyond the limit");

    clock.advance(MINUTE);
    assert_eq!(all_left(), [4, 100, 2], "a window forgets");
}

/// A request that waits for a permit reserves nothing meanwhile.
#[test]
fn a_request_that_waits_reserves_when_it_is_admitted() {
    let (limits, clock) = timed([
        per_minute("tokens", 100),
        Limit::concurrency("in-flight", 1, MINUTE),
    ]);
    let layer = token_budget(&limits)
        .and("in-flight", by::everyone())
        .wait_up_to(SECOND);
    let first = start(&layer, Some(10));

    let mut waiting = Box::pin(layer.layer(application(200, Some(30))).oneshot(get("/")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(left(&limits, "tokens", ()), 80);

    drop(first);
    clock.advance(Duration::from_millis(10));
    let second = pollster::block_on(waiting).expect("a response");
    assert_eq!(left(&limits, "tokens", ()), 70);
    drop(second);
    assert_eq!(
        (left(&limits, "tokens", ()), left(&limits, "in-flight", ())),
        (60, 1)
    );
}

/// A memory store whose next settlements fail. Each of them has taken effect nevertheless, as if
/// only the reply were lost.
#[derive(Clone, Debug)]
pub(crate) struct LossyStore {
    memory: MemoryStore,
    failures: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl LossyStore {
    pub(crate) fn new(failures: usize) -> (Self, ManualClock) {
        let clock = ManualClock::default();
        let store = Self {
            memory: MemoryStore::builder().clock(clock.clone()).build(),
            failures: Arc::new(AtomicUsize::new(failures)),
            calls: Arc::default(),
        };
        (store, clock)
    }

    fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }
}

impl Store for LossyStore {
    fn spend<'a>(
        &'a self,
        demands: &[Demand<'_>],
        intent: Intent,
        permit_id: PermitId,
    ) -> StoreFuture<'a, SpendReply> {
        self.memory.spend(demands, intent, permit_id)
    }

    fn refund<'a>(&'a self, demands: &[Demand<'_>]) -> StoreFuture<'a, ()> {
        self.memory.refund(demands)
    }

    fn settle<'a>(
        &'a self,
        settlements: &[Settlement<'_>],
        ending: Ending,
    ) -> StoreFuture<'a, Vec<SettleReply>> {
        self.calls.fetch_add(1, Relaxed);
        let reply = self.memory.settle(settlements, ending);
        let fails = |failures: usize| failures.checked_sub(1);
        match self.failures.fetch_update(Relaxed, Relaxed, fails) {
            Ok(_) => StoreFuture::ready(Err(StoreError::Timeout)),
            Err(_) => reply,
        }
    }

    fn reset<'a>(&'a self, key: &Key<'_>) -> StoreFuture<'a, ()> {
        self.memory.reset(key)
    }

    fn release<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.memory.release(demand, permit_id)
    }

    fn renew<'a>(&'a self, demand: &Demand<'_>, permit_id: PermitId) -> StoreFuture<'a, bool> {
        self.memory.renew(demand, permit_id)
    }
}

/// Lets the tasks in the background run until they wait for the clock.
async fn run_tasks() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_settlement_is_repeated_without_charging_twice() {
    let (store, clock) = LossyStore::new(3);
    let limiter = Limiter::builder().store(store.clone()).clock(clock.clone());
    let limiter = limiter.limit(per_minute("tokens", 100)).build();
    let layer = token_budget(&limiter.expect("valid limits"));
    let response = layer.layer(application(200, Some(35))).oneshot(get("/"));
    drop(response.await.expect("a response"));
    assert_eq!(store.calls(), 1);

    for (pause_ms, calls) in [(99, 1), (1, 2), (199, 2), (1, 3), (399, 3), (1, 4)] {
        run_tasks().await;
        clock.advance(Duration::from_millis(pause_ms));
        run_tasks().await;
        assert_eq!(store.calls(), calls);
    }
    clock.advance(MINUTE / 2);
    run_tasks().await;
    assert_eq!((store.calls(), clock.sleepers()), (4, 0), "it is confirmed");

    let limiter = Limiter::new(store.memory.clone(), [per_minute("tokens", 100)]);
    assert_eq!(left(&limiter.expect("valid limits"), "tokens", ()), 65);
}

#[tokio::test]
async fn a_settlement_is_given_up_after_nine_repetitions() {
    let (store, clock) = LossyStore::new(usize::MAX);
    let limiter = Limiter::builder().store(store.clone()).clock(clock.clone());
    let limiter = limiter.limit(per_minute("tokens", 100)).build();
    let layer = token_budget(&limiter.expect("valid limits"));
    let response = layer.layer(application(200, Some(35))).oneshot(get("/"));
    drop(response.await.expect("a response"));

    for _ in 0..20 {
        run_tasks().await;
        clock.advance(MINUTE / 2);
    }
    run_tasks().await;
    assert_eq!((store.calls(), clock.sleepers()), (10, 0));
}

/// A bucket that refills too slowly to matter.
fn token_bucket() -> Limit {
    Limit::token_bucket("tokens", 100, Rate::per_day(1))
        .on_reservation_expiry(ReservationExpiry::Release)
}

/// A runtime, a Redis server and a limiter on it.
struct RedisSite {
    runtime: tokio::runtime::Runtime,
    server: Server,
    limiter: Limiter,
}

impl RedisSite {
    fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        let server = Server::start(Flavor::Redis);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let store = runtime.block_on(async {
            let builder = RedisBuilder::standalone(server.url()).timeout(Duration::from_secs(5));
            builder.build().expect("right settings")
        });
        assert!(runtime.block_on(store.ready(Duration::from_secs(10))));
        let limiter = Limiter::new(store, limits).expect("valid limits");
        Self {
            runtime,
            server,
            limiter,
        }
    }

    fn start(&self, layer: &RateLimitLayer, actual: Option<u64>) -> TestResponse {
        let service = layer.layer(application(200, actual));
        let response = self.runtime.block_on(service.oneshot(get("/")));
        response.expect("a response")
    }

    /// Drops a response where there is a runtime, as a server does.
    fn drop(&self, response: TestResponse) {
        self.runtime.block_on(async { drop(response) });
    }

    fn wait_until_left(&self, limit: &str, expected: u64) {
        let what = format!("{expected} units to be left");
        wait::until_true(Duration::from_secs(40), &what, || {
            let peek = async { self.limiter.peek(limit, ()).cost(0).await };
            let decision = self.runtime.block_on(peek).expect("a decision");
            !decision.is_degraded() && decision.remaining() == expected
        });
    }
}

#[test]
fn estimates_are_settled_on_redis() {
    let site = RedisSite::new([
        Limit::fixed_window("requests", 1_000, 60 * MINUTE),
        token_bucket(),
        Limit::concurrency("in-flight", 2, 10 * MINUTE),
    ]);
    let layer = RateLimitLayer::new(&site.limiter, "requests", by::everyone())
        .and("tokens", by::everyone())
        .cost(|_| 20)
        .settle_by_actual_cost()
        .and("in-flight", by::everyone());

    let (first, second) = (site.start(&layer, Some(5)), site.start(&layer, None));
    assert_eq!(
        (first.status(), second.status()),
        (StatusCode::OK, StatusCode::OK)
    );
    assert_eq!(site.start(&layer, None).status(), 429, "two are in flight");
    site.drop(first);
    site.wait_until_left("tokens", 75);
    site.wait_until_left("in-flight", 1);
    site.drop(second);
    site.wait_until_left("in-flight", 2);

    let third = site.start(&layer, Some(90));
    site.drop(third);
    site.wait_until_left("tokens", 0);
    assert_eq!(site.start(&layer, None).status(), 429);
    site.wait_until_left("requests", 997);

    let peek = async { site.limiter.peek("tokens", ()).await };
    let retry = site
        .runtime
        .block_on(peek)
        .expect("a decision")
        .retry_after();
    let days = retry.expect("a denial").as_secs().div_ceil(86_400);
    assert_eq!(days, 16, "15 of debt and the unit itself");
}

/// The server does not reply when the response ends. What it may have done is not done twice.
#[test]
fn a_settlement_survives_an_outage_of_redis() {
    let site = RedisSite::new([token_bucket()]);
    let layer = token_budget(&site.limiter);
    let response = site.start(&layer, Some(35));
    site.wait_until_left("tokens", 80);

    site.server.freeze();
    site.drop(response);
    wait::until_true(Duration::from_secs(30), "the settlement to fail", || {
        let errors = site.limiter.health().store_errors.by_kind();
        errors.into_iter().any(|(_, count)| count > 0)
    });
    site.server.thaw();
    site.wait_until_left("tokens", 65);
}

/// A failure policy admits the request; its actual cost is charged once the store is available.
#[test]
fn the_cost_of_an_outage_is_charged_afterwards() {
    let site = RedisSite::new([token_bucket().on_store_failure(FailurePolicy::Allow)]);
    let layer = token_budget(&site.limiter);

    site.server.kill();
    let response = site.start(&layer, Some(35));
    assert_eq!(header(&response, "x-ratelimit-fallback"), Some("true"));
    site.drop(response);
    site.server.restart();
    site.wait_until_left("tokens", 65);
}
