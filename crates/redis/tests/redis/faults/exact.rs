//! One caller, one question at a time: every call that gets no answer is known to have been sent,
//! and to an idle server, so that the charge is known to the unit. What may have run is never sent
//! twice.

use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Cluster, Flavor, Server};
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::Limiter;
use tollgate_redis::{RedisBuilder, RedisStore};

use super::row::Row;
use super::subjects::{LEDGER, LEDGER_LIMIT, key, limits};
use super::watched::{Fate, Watched, with_fate};
use crate::common::{self, PATIENT};

/// Long beside the noise of a busy machine: what is sent arrives and runs in this time.
const DEADLINE: Duration = Duration::from_millis(500);
const ROUNDS: u64 = 5;

/// Asks once under the fault and once without it, again and again.
fn charged_once(name: &'static str, fault: Fault, kind: &'static str) {
    let _row = Row::begin(name);
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let proxy = FaultProxy::start(server.addr());
    let builder = RedisBuilder::standalone(format!("redis://{}", proxy.addr())).timeout(DEADLINE);
    let store = common::connected(&runtime, builder);
    let limiter = Limiter::new(Watched(store.clone()), limits());
    let ask = || {
        let asking = with_fate(async {
            limiter
                .check(LEDGER, key(0))
                .await
                .is_ok_and(|told| told.is_allowed())
        });
        runtime.block_on(asking)
    };
    for _ in 0..ROUNDS {
        let connections = store.stats().connections;
        proxy.set(fault);
        assert_eq!(
            ask(),
            (true, Fate::Lost(kind)),
            "the policy allows what gets no answer"
        );
        proxy.clear();
        // The next question must not go out on the connection that is about to end.
        wait::until_true(PATIENT, "another connection", || {
            store.stats().connections > connections
        });
        assert!(
            matches!(ask(), (true, Fate::Decided(_))),
            "the store is back"
        );
    }
    let charged = charged(&runtime, common::standalone(&runtime, &server));
    println!(
        "\n{name}\n  charge          {charged} charged - {ROUNDS} allowed = {} of exactly {ROUNDS}",
        charged - ROUNDS
    );
    assert_eq!(
        charged,
        2 * ROUNDS,
        "what ran was charged once, whether or not its answer came"
    );
}

/// What the ledger has used in the end.
fn charged(runtime: &Runtime, store: RedisStore) -> u64 {
    let limiter = Limiter::new(store, limits());
    let left = runtime.block_on(async { limiter.peek(LEDGER, key(0)).cost(0).await });
    let left = left.expect("the ledger is a limit");
    assert!(!left.is_degraded(), "the server is there in the end");
    LEDGER_LIMIT - left.remaining()
}

#[test]
fn reply_lost_is_charged_once() {
    charged_once("reply lost, one caller", Fault::DropReplies, "timeout");
}

#[test]
fn reply_cut_is_charged_once() {
    charged_once(
        "reset mid-reply, one caller",
        Fault::CutNextReply { after_bytes: 7 },
        "away",
    );
}

/// While a slot is open, a script cannot create what is missing there, also when it was the script
/// that has just removed it, because all of it had run out. What a request has already charged
/// elsewhere must then not stay charged.
#[test]
fn open_slot_charges_all_or_nothing() {
    let name = "resharding, one caller";
    let _row = Row::begin(name);
    let (runtime, cluster) = (common::runtime(), Cluster::start(Flavor::Redis, 3, 0));
    let store = common::on_cluster(&runtime, &cluster);
    let limiter = Limiter::new(Watched(store.clone()), limits());
    let slot = cluster.slot_of(&format!("{{={}}}", key(0)));
    let (mut allowed, mut refused) = (0, 0);
    for limit in ["flight", "log"].into_iter().cycle().take(4) {
        let mut ask = || {
            let asking = limiter.check(LEDGER, key(0)).and(limit, key(0)).cost(3);
            let (decision, fate) = runtime.block_on(with_fate(async { asking.await }));
            let passes =
                decision.expect("both are limits").is_allowed() && matches!(fate, Fate::Decided(_));
            allowed += u64::from(passes);
            refused += u64::from(fate == Fate::Refused);
            (passes, fate)
        };
        wait::until_true(PATIENT, "a full counter", || ask().0);
        let from = cluster.primary_of_slot(slot).addr();
        let to = cluster
            .nodes()
            .iter()
            .find(|node| node.addr() != from)
            .expect("there are three");
        cluster.begin_move_slot(slot, to);
        // What fills the counter runs out: it is filled again, or its key is gone and neither
        // server can decide. Nothing is waited for in between, because the key lives on for no more
        // than two milliseconds.
        let end = wait::now() + PATIENT;
        let mut told = ask();
        while !told.0 && !matches!(told.1, Fate::Lost(_)) && wait::now() < end {
            told = ask();
        }
        cluster.finish_move_slot(slot, to);
    }
    let charged = charged(&runtime, store);
    println!(
        "\n{name}\n  charge          {charged} charged - {} allowed; refused {refused}",
        3 * allowed
    );
    assert_eq!(charged, 3 * allowed, "what was not allowed was not charged");
}
