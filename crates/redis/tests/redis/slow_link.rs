//! Servers that reply late: one deadline for each decision, and late replies to lease calls are
//! used.

use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Flavor, Server};
use tokio::join;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tollgate::{Consistency, Decision, Limit, Limiter};
use tollgate_redis::{RedisBuilder, RedisStore};

use crate::common;

/// Long compared with the delays of a busy machine.
const DEADLINE: Duration = Duration::from_secs(1);
const CAPACITY: u64 = 100_000;
/// So long that nothing comes back while a test runs.
const DAY: Duration = Duration::from_hours(24);

/// A replica whose server is behind a proxy.
struct Scene {
    runtime: Runtime,
    server: Server,
    proxy: FaultProxy,
    store: RedisStore,
    limiter: Limiter,
}

/// Decisions so far.
#[derive(Default)]
struct Counts {
    /// Allowed by the store or a lease.
    allowed: u64,
    /// Decided by the failure policy.
    degraded: u64,
}

impl Scene {
    fn new(timeout: Duration) -> Self {
        let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
        let proxy = FaultProxy::start(server.addr());
        let builder = RedisBuilder::standalone(format!("redis://{}", proxy.addr()));
        let store = common::connected(&runtime, builder.timeout(timeout));

        let limit = Limit::fixed_window("leased", CAPACITY, DAY).consistency(Consistency::Leased);
        let limiter = Limiter::builder().store(store.clone()).limit(limit).build();
        Self {
            runtime,
            server,
            proxy,
            store,
            limiter: limiter.expect("the limit is valid"),
        }
    }

    async fn check(&self) -> Decision {
        let decision = self.limiter.check("leased", "ann").await;
        decision.expect("a decision")
    }

    /// Checks until a condition holds.
    async fn check_until(&self, counts: &mut Counts, is_over: impl Fn(&Counts) -> bool) {
        while !is_over(counts) {
            let decision = self.check().await;
            if decision.is_degraded() {
                counts.degraded += 1;
            } else {
                counts.allowed += u64::from(decision.is_allowed());
            }
        }
    }

    /// The units that are left. `None` while the server does not reply.
    async fn remaining(&self) -> Option<u64> {
        let look = self.limiter.peek("leased", "ann").cost(0).await;
        let look = look.ok().filter(|look| !look.is_degraded());
        look.map(|look| look.remaining())
    }

    async fn wait_until_up(&self) {
        common::eventually("the link is up", async || self.store.stats().up == 1).await;
    }
}

#[test]
fn a_pause_of_the_server_costs_only_the_requests_that_it_did_not_decide() {
    let scene = Scene::new(DEADLINE / 20);
    let mut counts = Counts::default();

    scene.runtime.block_on(async {
        for _ in 0..4 {
            // Often enough that the replica leases large batches.
            let hot = counts.allowed + 2_000;
            scene
                .check_until(&mut counts, |counts| counts.allowed >= hot)
                .await;
            scene.server.freeze();
            // Until the lease is spent and the link has given up.
            let is_down = |_: &Counts| scene.store.stats().up == 0;
            scene.check_until(&mut counts, is_down).await;
            scene.server.thaw();
            scene.wait_until_up().await;
        }

        // Late replies may still bring units.
        let total = async || {
            drop(scene.limiter.return_leases().await);
            counts.allowed + scene.remaining().await.unwrap_or(0)
        };
        common::eventually("all units are spent or returned", async || {
            total().await + counts.degraded >= CAPACITY
        })
        .await;
        assert!(total().await <= CAPACITY, "no unit is spent twice");
    });
}

#[test]
fn a_request_that_the_store_decided_too_late_stays_charged() {
    let scene = Scene::new(DEADLINE / 20);
    scene.runtime.block_on(async {
        scene.proxy.set(Fault::BlackHole);
        assert!(scene.check().await.is_degraded());

        scene.proxy.clear();
        common::eventually("the late reply", async || {
            scene.remaining().await == Some(CAPACITY - 1)
        })
        .await;
        assert_eq!(scene.store.stats().leased_units, 0, "the unit is not lent");
    });
}

#[test]
fn a_request_that_waited_for_the_call_of_another_has_one_deadline() {
    let scene = Scene::new(DEADLINE);
    scene.runtime.block_on(async {
        // The replica learns that the server is far, and calls it before it is too late.
        scene.proxy.set(Fault::DelayReplies(DEADLINE * 6 / 10));
        let learned = scene.check().await;
        assert!(!learned.is_degraded(), "the server replies in time");
        let (one, other) = join!(scene.check(), scene.check());
        assert!(
            !one.is_degraded() && !other.is_degraded(),
            "neither waits for two replies"
        );

        let returned = scene.limiter.return_leases().await;
        returned.expect("the server replies in time");
        scene.proxy.set(Fault::BlackHole);
        let start = Instant::now();
        let (one, other) = join!(scene.check(), scene.check());
        assert!(one.is_degraded() && other.is_degraded());
        let took = start.elapsed();
        assert!(took < DEADLINE * 12 / 10, "{took:?}");
    });
}
