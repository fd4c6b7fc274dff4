//! Compares the lease calls of the script with the model, call by call, with a manual clock.
//!
//! Several simulated instances lease, settle, spend and lose units, correctly and not, while others
//! count, reserve and settle at the store, and every reply is compared.

use std::time::Duration;

use testkit::dice::Dice;
use testkit::lending::Lender;
use testkit::servers::Server;
use testkit::volume;
use tokio::runtime::Runtime;
use tollgate::store::lease::{LeaseRequest, LeaseTerms};
use tollgate::store::{Ending, Intent, ReservationEnd, Settlement};
use tollgate::{
    Calendar, Clock, DemandBuf, Limit, ManualClock, Micros, Outcome, PermitId, Quota, Rate,
    ReservationExpiry, Store,
};
use tollgate_redis::{RedisBuilder, RedisStore, testing};

use crate::common;

const INSTANCES: usize = 3;
const STEPS: u64 = 50;
const SECOND: u64 = 1_000_000;

/// Number of operations to compare on each kind of server in a thorough run.
const OPERATIONS: u64 = 20_000;

fn limits() -> Vec<Limit> {
    let (tenth, second) = (Duration::from_millis(100), Duration::from_secs(1));
    vec![
        Limit::token_bucket("bucket", 10, Rate::per_second(10)),
        Limit::token_bucket("slow", 7, Rate::new(1, Duration::from_secs(60))),
        Limit::token_bucket("odd", 12, Rate::new(7, Duration::from_micros(1_300_001))),
        Limit::token_bucket("fast", 1_000, Rate::new(999_983, second)),
        Limit::token_bucket("deep", 100, Rate::per_second(3)),
        Limit::leaky_bucket("meter", 20, Rate::per_second(30)),
        Limit::fixed_window("fixed", 20, second),
        Limit::fixed_window("short", 5, tenth),
        Limit::calendar_window("calendar", 50, Calendar::Second),
        Limit::calendar_window("month", 9, Calendar::Month),
        Limit::sliding_window("sliding", 20, second),
        Limit::sliding_window("sliding-odd", 13, Duration::from_micros(777_777)),
    ]
}

/// The lease that an instance believes to hold.
#[derive(Clone, Copy, Default)]
struct HeldLease {
    generation: u64,
    held: u64,
    called_at: Micros,
}

struct LeaseTrace<'a> {
    runtime: &'a Runtime,
    store: &'a RedisStore,
    clock: &'a ManualClock,
    quota: Quota,
    demand: DemandBuf,
    model: Lender,
    leases: [HeldLease; INSTANCES],
    /// A lease that was settled before, to be settled a second time.
    stale: HeldLease,
    /// Reservations that were requested: their ids and costs.
    reservations: Vec<(PermitId, u64)>,
    dice: Dice,
    log: Vec<String>,
}

impl LeaseTrace<'_> {
    fn step(&mut self) -> Result<(), String> {
        self.move_clock();
        match self.dice.below(100) {
            0..50 => self.call_lease(),
            50..64 => self.spend(Intent::Spend),
            64..72 => self.spend(Intent::Peek),
            72..79 => self.spend(Intent::Count),
            79..85 => self.reserve(),
            85..91 => self.settle(),
            91..97 => self.refund(),
            _ => self.reset(),
        }?;
        self.sum()
    }

    fn move_clock(&mut self) {
        let forward = match self.dice.below(100) {
            0..40 => 0,
            40..60 => self.dice.below(10_000),
            60..80 => self.dice.below(300_000),
            80..94 => {
                // The ends of generations: once or twice the length of a lease, and a margin.
                let LeaseTerms { long, brief, .. } = LeaseTerms::for_quota(&self.quota);
                let length = self.dice.one_of(&[long, brief]).get();
                let ends = length * self.dice.between(1, 2) + LeaseTerms::MARGIN.get();
                self.dice.between(ends - 2, ends + 2)
            }
            94..98 => self.dice.below(20 * SECOND),
            _ => {
                let back = if self.dice.chance(500) {
                    self.dice.below(SECOND)
                } else {
                    self.dice.below(90 * SECOND)
                };
                return self.clock.set(self.clock.now().since(Micros::new(back)));
            }
        };

        self.clock.set(self.clock.now().after(Micros::new(forward)));
    }

    /// A number of units: mostly few, sometimes more than the limit.
    fn units(&mut self) -> u64 {
        let limit = self.quota.limit();
        if self.dice.chance(300) {
            self.dice.between(0, limit + 1)
        } else {
            self.dice.below(limit / 3 + 2)
        }
    }

    fn call_lease(&mut self) -> Result<(), String> {
        let instance = usize::try_from(self.dice.below(INSTANCES as u64)).expect("few");
        let lease = match self.dice.below(20) {
            0 => HeldLease::default(),
            1 => self.stale,
            _ => self.leases[instance],
        };
        let keep = self.dice.below(lease.held + 1);
        let back = self.dice.below(lease.held - keep + 1);
        let HeldLease {
            generation,
            held,
            called_at,
        } = lease;
        let is_lent = !self.dice.chance(100);
        let (needed, wanted) = (self.units(), self.units());
        let request = LeaseRequest {
            needed,
            wanted: wanted.max(needed),
            called_at,
            is_lent,
            generation,
            held,
            kept: keep,
            returned: back,
        };
        let cost = if self.dice.chance(500) {
            0
        } else {
            self.units()
        };
        let demand = self.demand.clone().with_cost(cost);
        let grant = self.runtime.block_on(testing::call_lease(
            self.store,
            &demand.as_demand(),
            &request,
        ));

        self.log.push(format!(
            "{:?} #{instance} cost {cost} {request:?}: {grant:?}",
            self.clock.now()
        ));
        let grant = grant.map_err(|error| format!("{error:?}"))?;
        let outcome = self
            .quota
            .outcome(grant.state, cost, grant.at)
            .ok_or("the state does not match the algorithm")?;
        self.model.confirm(cost, &request, &grant, &outcome)?;
        if self.dice.chance(100) {
            // The reply is lost: the instance does not know its lease.
            self.leases[instance] = HeldLease::default();
            return Ok(());
        }
        self.stale = if held > 0 { lease } else { self.stale };
        let held = if grant.is_known { keep } else { 0 } + if is_lent { grant.units } else { 0 };
        self.leases[instance] = HeldLease {
            generation: if held > 0 { grant.generation } else { 0 },
            held,
            called_at: grant.at,
        };
        Ok(())
    }

    fn spend(&mut self, intent: Intent) -> Result<(), String> {
        let cost = self.units();
        let outcome = self.spend_as(intent, cost, PermitId::NONE)?;
        if intent == Intent::Count {
            return self.model.confirm_count(cost, &outcome, self.clock.now());
        }
        self.model
            .confirm_check(cost, intent == Intent::Spend, &outcome, self.clock.now())
    }

    fn spend_as(&mut self, intent: Intent, cost: u64, id: PermitId) -> Result<Outcome, String> {
        let demand = self.demand.clone().with_cost(cost);
        let spent = self
            .runtime
            .block_on(async { self.store.spend(&[demand.as_demand()], intent, id).await });

        self.log.push(format!(
            "{:?} {intent:?} {cost}: {spent:?}",
            self.clock.now()
        ));
        let spent = spent.map_err(|error| format!("{error:?}"))?;
        Ok(spent.outcomes()[0].0)
    }

    fn reserve(&mut self) -> Result<(), String> {
        let (cost, id) = (self.units(), PermitId::new(self.log.len() as u128 + 1));
        let longest = self.dice.one_of(&[SECOND / 10, SECOND, 60 * SECOND]);
        let ttl = Micros::new(self.dice.between(1, *longest));
        let outcome = self.spend_as(Intent::Reserve { ttl }, cost, id)?;
        self.reservations.push((id, cost));
        self.model
            .confirm_reservation((cost, ttl), id, &outcome, self.clock.now())
    }

    /// Settles one of the last reservations, perhaps for the second time.
    fn settle(&mut self) -> Result<(), String> {
        let recent = self.reservations.len().saturating_sub(3);
        let Some(recent) = self
            .reservations
            .get(recent..)
            .filter(|all| !all.is_empty())
        else {
            return Ok(());
        };
        let (id, cost) = *self.dice.one_of(recent);
        let actual = self.units();
        let demand = self.demand.clone().with_cost(cost);
        let settlement = Settlement::new(demand.as_demand(), actual);
        let ending = Ending::new(id, ReservationEnd::Settled);
        let got = self
            .runtime
            .block_on(async { self.store.settle(&[settlement], ending).await });

        let now = self.clock.now();
        self.log
            .push(format!("{now:?} settle {actual} of {cost}: {got:?}"));
        let expected = self.model.settle_reservation(actual, id, now);
        match got {
            Ok(replies) if replies[0].kind == expected => Ok(()),
            other => Err(format!("expected {expected:?}, got {other:?}")),
        }
    }

    fn refund(&mut self) -> Result<(), String> {
        let cost = self.units();
        let demand = self.demand.clone().with_cost(cost);
        self.log
            .push(format!("{:?} refund {cost}", self.clock.now()));
        let done = self
            .runtime
            .block_on(async { self.store.refund(&[demand.as_demand()]).await });
        self.model.refund(cost, self.clock.now());
        done.map_err(|error| format!("{error:?}"))
    }

    fn reset(&mut self) -> Result<(), String> {
        self.log.push(format!("{:?} reset", self.clock.now()));
        let done = self
            .runtime
            .block_on(async { self.store.reset(&self.demand.as_demand().key).await });
        self.model.reset();
        done.map_err(|error| format!("{error:?}"))
    }

    fn sum(&self) -> Result<(), String> {
        match self.model.sum(self.clock.now()) {
            Some((both, whole)) if both > whole => Err(format!(
                "units left and leased are {both}, more than {whole}"
            )),
            _ => Ok(()),
        }
    }
}

#[expect(clippy::panic, reason = "it fails the test with a readable trace")]
fn compare(runtime: &Runtime, server: &Server, wanted: u64) {
    let clock = ManualClock::default();
    let builder = RedisBuilder::standalone(server.url())
        .timeout(common::PATIENT)
        .manual_time(clock.clone());
    let store = common::connected(runtime, builder);
    let limits = limits();

    let first = volume::seed();
    for seed in (0..wanted.div_ceil(STEPS)).map(|trace| first.wrapping_add(trace)) {
        let mut dice = Dice::new(seed);
        clock.set(Micros::new(
            1_798_761_600 * SECOND + dice.below(40 * 86_400 * SECOND),
        ));
        let limit = dice.one_of(&limits).clone();
        let debt_max = *dice.one_of(&[u64::MAX, u64::MAX, 0, 3, 1_000]);
        let on_expiry = [ReservationExpiry::Keep, ReservationExpiry::Release];
        let rule = limit
            .debt_max(debt_max)
            .on_reservation_expiry(*dice.one_of(&on_expiry))
            .validate()
            .expect("the numbers are valid");
        let mut trace = LeaseTrace {
            runtime,
            store: &store,
            clock: &clock,
            quota: *rule.quota(),
            demand: DemandBuf::new(&rule, seed, 0).expect("the key is valid"),
            model: Lender::for_rule(&rule).expect("the quota can be leased"),
            leases: [HeldLease::default(); INSTANCES],
            stale: HeldLease::default(),
            reservations: Vec::new(),
            dice,
            log: Vec::new(),
        };
        let result = (0..STEPS).try_for_each(|_| trace.step());
        result.unwrap_or_else(|difference| {
            panic!(
                "seed {seed}, {}:\n{}\n{difference}",
                rule.name(),
                trace.log.join("\n")
            )
        });
    }
}

#[test]
fn the_script_leases_like_the_model() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        compare(&runtime, &Server::start(flavor), volume::of(OPERATIONS));
    }
}

/// A bucket of 10 that is refilled with 10 per second. Expired reservations are released.
fn ten(runtime: &Runtime, server: &Server) -> (RedisStore, ManualClock, DemandBuf) {
    let clock = ManualClock::default();
    let builder = RedisBuilder::standalone(server.url())
        .timeout(common::PATIENT)
        .manual_time(clock.clone());
    let rule = Limit::token_bucket("bucket", 10, Rate::per_second(10))
        .on_reservation_expiry(ReservationExpiry::Release)
        .validate()
        .expect("the numbers are valid");

    (
        common::connected(runtime, builder),
        clock,
        DemandBuf::new(&rule, "ann", 0).expect("the key is valid"),
    )
}

/// An instance may spend leased units until the lease ends, and not report it. If the bucket had
/// been refilled in the meantime, 14 units would pass within 375 ms after that, where at most 13.75
/// are allowed.
#[test]
fn units_that_are_not_returned_count_as_spent_when_their_lease_ends() {
    let (runtime, server) = (
        common::runtime(),
        Server::start(testkit::servers::Flavor::Redis),
    );
    let (store, clock, demand) = ten(&runtime, &server);
    let lease = |most| {
        let request = LeaseRequest {
            needed: most,
            wanted: most,
            is_lent: true,
            ..LeaseRequest::default()
        };
        let grant = runtime.block_on(testing::call_lease(&store, &demand.as_demand(), &request));
        grant.expect("the server is available").units
    };

    assert_eq!(lease(1), 1);
    clock.advance(Duration::from_millis(990));
    assert_eq!(lease(5), 5, "more than a share, so the lease is brief");
    // The five units are spent before their lease ends, and not reported.
    clock.advance(Duration::from_millis(600));
    let spend = |cost| {
        let demand = demand.clone().with_cost(cost);
        let spent = runtime.block_on(async {
            store
                .spend(&[demand.as_demand()], Intent::Spend, PermitId::NONE)
                .await
        });
        let spent = spent.expect("the server is available");
        spent.outcomes()[0].0.verdict.is_allowed()
    };

    assert!(!spend(5), "only units that were not leased are left");
    assert!(spend(4));
}

/// Four units are reserved and six leased. When the reservation expires, its units have already been
/// refilled. Returning them freed units on lease, so that eight were left.
#[test]
fn an_expired_reservation_frees_no_leased_units() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        let server = Server::start(flavor);
        let (store, clock, demand) = ten(&runtime, &server);
        let spend = |cost, intent| {
            let demand = demand.clone().with_cost(cost);
            let demands = [demand.as_demand()];
            let spent =
                runtime.block_on(async { store.spend(&demands, intent, PermitId::new(1)).await });
            let spent = spent.expect("the server is available");
            spent.outcomes()[0].0.verdict.is_allowed()
        };
        let ttl = Micros::from_millis(300);
        assert!(spend(4, Intent::Reserve { ttl }));
        let request = LeaseRequest {
            needed: 6,
            wanted: 6,
            is_lent: true,
            ..LeaseRequest::default()
        };
        let grant = runtime.block_on(testing::call_lease(&store, &demand.as_demand(), &request));
        assert_eq!(grant.expect("the server is available").units, 6);

        clock.advance(Duration::from_millis(400));
        assert!(!spend(5, Intent::Spend), "six are on lease");
        assert!(spend(4, Intent::Spend));
    }
}

/// The key is kept until the leases have ended and the leased units have been refilled.
#[test]
fn a_key_is_kept_until_leased_units_are_refilled() {
    let (runtime, server) = (
        common::runtime(),
        Server::start(testkit::servers::Flavor::Redis),
    );
    let (store, _, demand) = ten(&runtime, &server);
    let request = LeaseRequest {
        needed: 5,
        wanted: 5,
        is_lent: true,
        ..LeaseRequest::default()
    };

    runtime
        .block_on(testing::call_lease(&store, &demand.as_demand(), &request))
        .expect("the server is available");

    let (key, _) = testing::script_arguments(&demand.as_demand());
    let key = String::from_utf8(key).expect("a readable key");
    let left = server.command(&["PTTL", &key]).as_int().expect("a number");
    // With a manual clock, keys are kept for an hour longer.
    assert!(left > 3_602_400, "{left} ms");
}
