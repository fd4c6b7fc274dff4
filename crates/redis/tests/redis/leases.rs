//! Leased and eventual limits on real servers: never above the limit, mostly without a trip, nothing kept that is not used.

use std::time::Duration;

use testkit::servers::{Flavor, Server};
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::{Consistency, Limit, Limiter, Rate, Source};
use tollgate_redis::RedisStore;

use crate::common;

const HOUR: Duration = Duration::from_hours(1);
/// So slow that nothing comes back while a test runs.
const SLOWLY: Rate = Rate::new(1, Duration::from_hours(24));

fn leased(limit: Limit) -> Limit {
    limit.consistency(Consistency::Leased)
}

/// A process of its own, as far as the store can tell.
struct Replica {
    store: RedisStore,
    limiter: Limiter,
}

impl Replica {
    fn new(runtime: &Runtime, server: &Server, limits: impl IntoIterator<Item = Limit>) -> Self {
        let store = common::standalone(runtime, server);
        let limiter = Limiter::builder()
            .store(store.clone())
            .limits(limits)
            .expected_replicas(4)
            .build()
            .expect("right limits");
        Self { store, limiter }
    }

    /// So many requests one after the other; how many passed, and how many of all were answered without a trip.
    async fn burst(&self, limit: &str, count: usize) -> (u64, u64) {
        let (mut passed, mut here) = (0, 0);
        for _ in 0..count {
            let decision = self.limiter.check(limit, "ann").await.expect("the server is there");
            assert!(!decision.is_degraded(), "the server is there");
            passed += u64::from(decision.is_allowed());
            here += u64::from(decision.source() != Source::Store);
        }
        (passed, here)
    }
}

/// Every algorithm that can be leased, 1,000 of each and nothing coming back.
fn thousand() -> Vec<Limit> {
    vec![
        leased(Limit::token_bucket("bucket", 1_000, SLOWLY)),
        leased(Limit::leaky_bucket("meter", 1_000, SLOWLY)),
        leased(Limit::fixed_window("fixed", 1_000, HOUR)),
        leased(Limit::calendar_window("calendar", 1_000, tollgate::Calendar::Month)),
        leased(Limit::sliding_window("sliding", 1_000, HOUR)),
        leased(Limit::sliding_log("log", 1_000, HOUR)),
    ]
}

#[test]
fn replicas_that_burst_at_once_pass_the_limit_and_no_more() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let replicas: Vec<Replica> = (0..4).map(|_| Replica::new(&runtime, &server, thousand())).collect();
        for limit in thousand() {
            let passed: u64 = runtime.block_on(async {
                let bursts = replicas.iter().map(|replica| replica.burst(limit.name(), 800));
                futures(bursts).await.iter().map(|(passed, _)| passed).sum()
            });
            // What one replica holds when the others run dry is not lost: it passes when it is asked there again.
            let rest: u64 = runtime.block_on(async {
                let bursts = replicas.iter().map(|replica| replica.burst(limit.name(), 300));
                futures(bursts).await.iter().map(|(passed, _)| passed).sum()
            });
            let total = passed + rest;
            assert!(total <= 1_000, "{flavor:?} {}: {total} passed", limit.name());
            assert!(total >= 990, "{flavor:?} {}: only {total} passed", limit.name());
        }
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut done: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[test]
fn a_hot_key_is_answered_from_memory() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let limit = leased(Limit::token_bucket("bucket", 1_000_000, Rate::per_second(1_000_000)));
    let replica = Replica::new(&runtime, &server, [limit]);
    let (passed, here) = runtime.block_on(replica.burst("bucket", 20_000));
    assert_eq!(passed, 20_000);
    assert!(here >= 19_000, "{here} of 20,000 without a trip");
    let calls = replica.store.stats().calls;
    assert!(calls <= 1_000, "{calls} calls");
}

#[test]
fn what_is_not_used_goes_back() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for limit in thousand() {
        let name = limit.name().to_owned();
        let [one, other] = [0, 1].map(|_| Replica::new(&runtime, &server, [limit.clone()]));
        let (passed, _) = runtime.block_on(one.burst(&name, 100));
        assert_eq!(passed, 100);
        wait::until_true(Duration::from_secs(10), "what was taken and not used is back", || {
            let left = runtime.block_on(async { other.limiter.peek(&name, "ann").cost(0).await });
            left.expect("the server is there").remaining() == 900
        });
    }
}

#[test]
fn a_process_that_ends_gives_everything_back() {
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    for limit in thousand() {
        let name = limit.name().to_owned();
        let [one, other] = [0, 1].map(|_| Replica::new(&runtime, &server, [limit.clone()]));
        let left = runtime.block_on(async {
            one.burst(&name, 100).await;
            one.limiter.hand_back().await.expect("the server is there");
            other.limiter.peek(&name, "ann").cost(0).await.expect("the server is there").remaining()
        });
        assert_eq!(left, 900, "{name}");
    }
}
