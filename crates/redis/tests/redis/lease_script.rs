//! The script's side of leases against the model, take by take, on time moved by hand.
//!
//! Several imaginary processes take, settle, spend and forget, honestly and not, and every answer
//! is compared.

use std::time::Duration;

use testkit::dice::Dice;
use testkit::lending::Lender;
use testkit::servers::Server;
use tokio::runtime::Runtime;
use tollgate::lease::LeaseRequest;
use tollgate::store::{DemandBuf, Intent};
use tollgate::{Calendar, Clock, Limit, ManualClock, Micros, PermitId, Quota, Rate, Store};
use tollgate_redis::{RedisBuilder, RedisStore, testing};

use crate::common;

const PROCESSES: usize = 3;
const STEPS: usize = 50;
const SECOND: u64 = 1_000_000;

/// How many operations to compare. `TOLLGATE_LENDING_OPS` says otherwise.
fn operations() -> usize {
    let told = std::env::var("TOLLGATE_LENDING_OPS").ok();
    told.map_or(40_000, |text| {
        text.parse()
            .expect("TOLLGATE_LENDING_OPS is a whole number")
    })
}

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

/// What a process believes to hold.
#[derive(Clone, Copy, Default)]
struct Claim {
    generation: u64,
    held: u64,
}

struct Story<'a> {
    runtime: &'a Runtime,
    store: &'a RedisStore,
    clock: &'a ManualClock,
    quota: Quota,
    check: DemandBuf,
    model: Lender,
    claims: [Claim; PROCESSES],
    /// A claim that was made before, for those who make it twice.
    stale: Claim,
    dice: Dice,
    told: Vec<String>,
}

impl Story<'_> {
    fn step(&mut self) -> Result<(), String> {
        self.move_clock();
        match self.dice.below(100) {
            0..60 => self.take(),
            60..80 => self.ask(Intent::Spend),
            80..90 => self.ask(Intent::Peek),
            90..97 => self.refund(),
            _ => self.reset(),
        }?;
        self.sum()
    }

    fn move_clock(&mut self) {
        let forward = match self.dice.below(100) {
            0..40 => 0,
            40..60 => self.dice.below(10_000),
            60..80 => self.dice.below(300_000),
            80..88 => self.dice.between(SECOND - 2, SECOND + 2),
            88..94 => self.dice.between(2 * SECOND - 2, 2 * SECOND + 2),
            94..98 => self.dice.below(5 * SECOND),
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

    /// Units around what there is: mostly few, sometimes more than there can be.
    fn units(&mut self) -> u64 {
        let limit = self.quota.limit();
        if self.dice.chance(300) {
            self.dice.between(0, limit + 1)
        } else {
            self.dice.below(limit / 3 + 2)
        }
    }

    fn take(&mut self) -> Result<(), String> {
        let process = usize::try_from(self.dice.below(PROCESSES as u64)).expect("few");
        let claim = match self.dice.below(20) {
            0 => Claim::default(),
            1 => self.stale,
            _ => self.claims[process],
        };
        let keep = self.dice.below(claim.held + 1);
        let back = self.dice.below(claim.held - keep + 1);
        let Claim { generation, held } = claim;
        let is_lent = !self.dice.chance(100);
        let most = self.units();
        let take = LeaseRequest {
            most,
            is_lent,
            generation,
            held,
            keep,
            back,
        };
        let cost = if self.dice.chance(500) {
            0
        } else {
            self.units()
        };
        let check = self.check.clone().with_cost(cost);
        let given = self
            .runtime
            .block_on(testing::take(self.store, &check.as_demand(), &take));
        self.told.push(format!(
            "{:?} #{process} cost {cost} {take:?}: {given:?}",
            self.clock.now()
        ));
        let given = given.map_err(|error| format!("{error:?}"))?;
        let outcome = self
            .quota
            .outcome(given.seen, cost, given.at)
            .ok_or("the state of another algorithm")?;
        self.model.confirm(cost, &take, &given, &outcome)?;
        if self.dice.chance(100) {
            // The answer is lost on the way: the process knows of nothing.
            self.claims[process] = Claim::default();
            return Ok(());
        }
        self.stale = if held > 0 { claim } else { self.stale };
        let held = if given.is_kept { keep } else { 0 } + if is_lent { given.units } else { 0 };
        self.claims[process] = Claim {
            generation: if held > 0 { given.generation } else { 0 },
            held,
        };
        Ok(())
    }

    fn ask(&mut self, intent: Intent) -> Result<(), String> {
        let cost = self.units();
        let check = self.check.clone().with_cost(cost);
        let spent = self.runtime.block_on(async {
            self.store
                .spend(&[check.as_demand()], intent, PermitId::NONE)
                .await
        });
        self.told.push(format!(
            "{:?} {intent:?} {cost}: {spent:?}",
            self.clock.now()
        ));
        let outcome = spent.map_err(|error| format!("{error:?}"))?.outcomes[0];
        self.model
            .confirm_check(cost, intent == Intent::Spend, &outcome, self.clock.now())
    }

    fn refund(&mut self) -> Result<(), String> {
        let cost = self.units();
        let check = self.check.clone().with_cost(cost);
        self.told
            .push(format!("{:?} refund {cost}", self.clock.now()));
        let done = self
            .runtime
            .block_on(async { self.store.refund(&[check.as_demand()]).await });
        self.model.refund(cost, self.clock.now());
        done.map_err(|error| format!("{error:?}"))
    }

    fn reset(&mut self) -> Result<(), String> {
        self.told.push(format!("{:?} reset", self.clock.now()));
        let done = self
            .runtime
            .block_on(async { self.store.reset(&self.check.as_demand().key).await });
        self.model.reset();
        done.map_err(|error| format!("{error:?}"))
    }

    fn sum(&self) -> Result<(), String> {
        match self.model.sum(self.clock.now()) {
            Some((both, whole)) if both > whole => {
                Err(format!("left and out are {both} of {whole}"))
            }
            _ => Ok(()),
        }
    }
}

#[expect(
    clippy::panic,
    reason = "it fails the test with a story that must stay readable"
)]
fn compare(runtime: &Runtime, server: &Server, wanted: usize) {
    let clock = ManualClock::default();
    let builder = RedisBuilder::standalone(server.url())
        .timeout(common::PATIENT)
        .manual_time(clock.clone());
    let store = common::connected(runtime, builder);
    let limits = limits();
    for seed in 0..wanted.div_ceil(STEPS) as u64 {
        let mut dice = Dice::new(seed);
        clock.set(Micros::new(
            1_798_761_600 * SECOND + dice.below(40 * 86_400 * SECOND),
        ));
        let rule = dice.one_of(&limits).rule().expect("the numbers are valid");
        let mut tale = Story {
            runtime,
            store: &store,
            clock: &clock,
            quota: *rule.quota(),
            check: rule.demand(seed, 0).expect("the key is valid"),
            model: Lender::new(*rule.quota()).expect("it lends"),
            claims: [Claim::default(); PROCESSES],
            stale: Claim::default(),
            dice,
            told: Vec::new(),
        };
        let result = (0..STEPS).try_for_each(|_| tale.step());
        result.unwrap_or_else(|difference| {
            panic!(
                "seed {seed}, {}:\n{}\n{difference}",
                rule.name(),
                tale.told.join("\n")
            )
        });
    }
}

#[test]
fn the_script_lends_as_the_model_does() {
    let runtime = common::runtime();
    for flavor in common::FLAVORS {
        compare(&runtime, &Server::start(flavor), operations() / 2);
    }
}

/// A bucket of 10 that gets 10 a second.
fn ten(runtime: &Runtime, server: &Server) -> (RedisStore, ManualClock, DemandBuf) {
    let clock = ManualClock::default();
    let builder = RedisBuilder::standalone(server.url())
        .timeout(common::PATIENT)
        .manual_time(clock.clone());
    let rule = Limit::token_bucket("bucket", 10, Rate::per_second(10))
        .rule()
        .expect("the numbers are valid");
    (
        common::connected(runtime, builder),
        clock,
        rule.demand("ann", 0).expect("the key is valid"),
    )
}

/// Somebody may have spent them until the end, and then said nothing: a bucket that had filled up
/// behind their back let through 15 within 120 ms where 11.2 may be.
#[test]
fn units_that_end_unreturned_count_as_spent_until_then() {
    let (runtime, server) = (
        common::runtime(),
        Server::start(testkit::servers::Flavor::Redis),
    );
    let (store, clock, check) = ten(&runtime, &server);
    let take = |most| {
        let take = LeaseRequest {
            most,
            is_lent: true,
            ..LeaseRequest::default()
        };
        let given = runtime.block_on(testing::take(&store, &check.as_demand(), &take));
        given.expect("the server is available").units
    };
    assert_eq!(take(1), 1);
    clock.advance(Duration::from_millis(990));
    assert_eq!(take(5), 5);
    // 890 ms later, still within their time, the five are spent, and nobody hears of it.
    clock.advance(Duration::from_millis(1_010));
    let spend = |cost| {
        let check = check.clone().with_cost(cost);
        let spent = runtime.block_on(async {
            store
                .spend(&[check.as_demand()], Intent::Spend, PermitId::NONE)
                .await
        });
        spent.expect("the server is available").outcomes[0]
            .verdict
            .is_allowed()
    };
    assert!(!spend(7), "what is left is what was not lent");
    assert!(spend(4));
}

/// The key outlives what is out by the time that it takes to come in again.
#[test]
fn a_key_is_kept_until_what_is_out_has_ended_and_come_in_again() {
    let (runtime, server) = (
        common::runtime(),
        Server::start(testkit::servers::Flavor::Redis),
    );
    let (store, _, check) = ten(&runtime, &server);
    let take = LeaseRequest {
        most: 5,
        is_lent: true,
        ..LeaseRequest::default()
    };
    runtime
        .block_on(testing::take(&store, &check.as_demand(), &take))
        .expect("the server is available");
    let (key, _) = testing::request(&check.as_demand());
    let key = String::from_utf8(key).expect("a readable key");
    let left = server.command(&["PTTL", &key]).as_int().expect("a number");
    // Keys live an hour longer where time is moved by hand.
    assert!(left > 3_602_400, "{left} ms");
}
