//! A store that fails and recovers again and again: the store and the local counters together admit
//! what the rate allows and a few bursts, however often that happens.

use tollgate::{Clock, Micros, Quota, Rate};

use super::*;

/// How long the simulated fleet runs, and how often it gets requests.
const RUN: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(5);

/// How long the store is available and unavailable, in turn.
#[derive(Clone, Copy, Debug)]
struct Flaps {
    up: Duration,
    down: Duration,
}

impl Flaps {
    const NONE: Self = Self {
        up: SECOND,
        down: Duration::ZERO,
    };

    const ALL: [Self; 4] = [
        Self::new(100, 100),
        Self::new(500, 500),
        Self::new(100, 900),
        Self::new(3_000, 1_000),
    ];

    const fn new(up_millis: u64, down_millis: u64) -> Self {
        Self {
            up: Duration::from_millis(up_millis),
            down: Duration::from_millis(down_millis),
        }
    }

    fn is_up(&self, elapsed: Duration) -> bool {
        elapsed.as_micros() % (self.up + self.down).as_micros() < self.up.as_micros()
    }
}

/// Replicas with one clock and one store.
struct Fleet {
    replicas: Vec<Limiter>,
    store: FaultyStore,
    clock: ManualClock,
    /// The replica that gets the next request.
    next: usize,
}

impl Fleet {
    fn new(size: u32, limit: &Limit, reply_mode: ReplyMode) -> Self {
        let clock = ManualClock::default();
        let store = FaultyStore::new(&clock, reply_mode);
        let replica = |_| {
            let builder = Limiter::builder()
                .store(store.clone())
                .clock(clock.clone())
                .limit(limit.clone())
                .expected_replicas(size);
            builder.build().expect("a valid limit")
        };

        Self {
            replicas: (0..size).map(replica).collect(),
            store,
            clock,
            next: 0,
        }
    }

    /// Sends requests until every replica denies. Each admitted request is followed by one to the
    /// next replica, so the load is spread evenly. Returns how many were admitted.
    fn send_greedily(&mut self) -> u64 {
        let (mut admitted, mut denied) = (0, 0);
        while denied < self.replicas.len() {
            let replica = &self.replicas[self.next];
            self.next = (self.next + 1) % self.replicas.len();
            if decide(replica.check("api", "ann")).is_allowed() {
                (admitted, denied) = (admitted + 1, 0);
            } else {
                denied += 1;
            }
        }
        admitted
    }
}

/// Sums up what was admitted beyond a rate.
struct Excess {
    /// Units and the microseconds in which they refill.
    rate: (u64, u64),
    total: u64,
    began: Micros,
    at: Micros,
    /// The largest excess of an interval that ends now, in units times `rate.1`.
    current: u64,
    worst: u64,
}

impl Excess {
    fn new(rate: (u64, u64), now: Micros) -> Self {
        Self {
            rate,
            total: 0,
            began: now,
            at: now,
            current: 0,
            worst: 0,
        }
    }

    fn record(&mut self, admitted: u64, now: Micros) {
        let (amount, micros) = self.rate;
        let refilled = now.since(self.at).get() * amount;

        self.current = self.current.saturating_sub(refilled) + admitted * micros;
        self.worst = self.worst.max(self.current);
        self.total += admitted;
        self.at = now;
    }

    /// The most units admitted in any interval, without what the rate allows for it.
    fn burst(&self) -> u64 {
        self.worst.div_ceil(self.rate.1)
    }

    /// What the rate allows for the whole time.
    fn allowance(&self) -> u64 {
        let micros = self.at.since(self.began).get();
        micros * self.rate.0 / self.rate.1
    }
}

fn quota(limit: &Limit) -> Quota {
    *limit.validate().expect("a valid limit").quota()
}

fn rate(quota: &Quota) -> (u64, u64) {
    match quota {
        Quota::TokenBucket(bucket) => bucket.refill(),
        quota => (
            quota.limit(),
            quota.window().expect("it counts over time").get(),
        ),
    }
}

/// Runs a fleet under greedy load.
fn run(limit: &Limit, replicas: u32, reply_mode: ReplyMode, flaps: Flaps) -> Excess {
    let quota = quota(limit);
    let mut fleet = Fleet::new(replicas, limit, reply_mode);
    let mut excess = Excess::new(rate(&quota), fleet.clock.now());

    let mut elapsed = Duration::ZERO;
    while elapsed < RUN {
        if flaps.is_up(elapsed) {
            fleet.store.heal();
        } else {
            fleet.store.fail(InjectedFault::Unavailable);
        }

        excess.record(fleet.send_greedily(), fleet.clock.now());
        fleet.clock.advance(TICK);
        elapsed += TICK;
    }
    excess
}

/// Runs a fleet on stores that flap in different ways: in no interval it admits more than the rate
/// allows and `limits_max` limits. Compares it with a fleet whose store never fails.
fn assert_bound(limit: &Limit, replicas: u32, reply_mode: ReplyMode, limits_max: u64) {
    let limit = limit.clone().on_store_failure(FailurePolicy::Local);
    // Whole units are spread over the replicas with a difference of one.
    let rounding = u64::from(replicas - 1);
    let burst_max = limits_max * quota(&limit).limit() + rounding;
    let healthy = run(&limit, replicas, reply_mode, Flaps::NONE);

    for flaps in Flaps::ALL {
        let excess = run(&limit, replicas, reply_mode, flaps);
        let shown = format!(
            "{limit:?} on {replicas} replicas, {flaps:?}: {} admitted, {} by rate, burst {}",
            excess.total,
            excess.allowance(),
            excess.burst()
        );
        assert!(excess.burst() <= burst_max, "{shown}");
        assert!(
            excess.total * 100 >= healthy.total * 97,
            "{shown}: the limit is not used; {} if the store never fails",
            healthy.total
        );
    }
}

/// The store has denied the key before the first outage: one burst of the store, and one that it
/// has refilled while the replica decided by itself.
#[test]
fn one_replica_stays_within_the_rate_and_two_bursts() {
    for limit in [
        Limit::token_bucket("api", 10, Rate::per_second(150)),
        Limit::token_bucket("api", 100, Rate::per_second(20)),
        Limit::sliding_window("api", 60, 20 * SECOND),
        Limit::sliding_log("api", 100, 10 * SECOND),
        Limit::fixed_window("api", 100, 10 * SECOND),
    ] {
        assert_bound(&limit, 1, ReplyMode::Ready, 2);
    }
}

#[test]
fn a_fleet_stays_within_the_rate_and_two_bursts() {
    for (limit, replicas) in [
        (Limit::token_bucket("api", 12, Rate::per_second(150)), 4),
        (Limit::leaky_bucket("api", 100, Rate::per_second(20)), 4),
        (Limit::sliding_window("api", 60, 20 * SECOND), 4),
        (Limit::sliding_log("api", 100, 10 * SECOND), 10),
        (Limit::fixed_window("api", 12, 30 * SECOND), 3),
    ] {
        assert_bound(&limit, replicas, ReplyMode::Ready, 2);
    }
}

/// What leases admit is charged, too. They do not report denials to the local counters here, so the
/// shares of the first outage are a third burst.
#[test]
fn leases_stay_within_the_rate_and_three_bursts() {
    let limit = Limit::token_bucket("api", 12, Rate::per_second(30));
    assert_bound(&limit, 4, ReplyMode::Lease, 3);
}

/// The store's admissions all reach one replica, so the others cannot charge them.
#[test]
fn uneven_load_is_admitted_at_most_twice() {
    let limit = Limit::token_bucket("api", 12, Rate::per_second(30));
    let limit = limit.on_store_failure(FailurePolicy::Local);
    let mut fleet = Fleet::new(4, &limit, ReplyMode::Ready);
    let first = fleet.replicas[0].clone();
    let mut excess = Excess::new((60, 1_000_000), fleet.clock.now());

    for tick in 0..RUN.as_millis() / TICK.as_millis() {
        let admitted = if tick / 100 % 2 == 0 {
            fleet.store.heal();
            let is_allowed = || decide(first.check("api", "ann")).is_allowed();
            std::iter::repeat_with(is_allowed).position(|is_allowed| !is_allowed)
        } else {
            fleet.store.fail(InjectedFault::Unavailable);
            usize::try_from(fleet.send_greedily()).ok()
        };
        excess.record(admitted.unwrap() as u64, fleet.clock.now());
        fleet.clock.advance(TICK);
    }
    assert!(excess.burst() <= 2 * 12, "burst {}", excess.burst());
    assert!(
        excess.total > excess.allowance() * 2 / 3,
        "{} admitted: the load was even",
        excess.total
    );
}
