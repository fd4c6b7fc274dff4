//! One caller, one check at a time. Each call without a reply is known to have been sent to an idle
//! server, so the charged units are known exactly. A call that may have run is never sent again.

use std::time::Duration;

use testkit::fault_proxy::{Fault, FaultProxy};
use testkit::servers::{Cluster, Flavor, Server};
use testkit::wait;
use tokio::runtime::Runtime;
use tollgate::Limiter;
use tollgate_redis::{RedisBuilder, RedisStore};

use super::fault_row::FaultRow;
use super::recording_store::{CallFate, RecordingStore, with_fate};
use super::subjects::{LEDGER, LEDGER_LIMIT, key, limits};
use crate::common::{self, PATIENT};

/// Long compared with the delays of a busy machine: a call that is sent runs in this time.
const DEADLINE: Duration = Duration::from_millis(500);
const ROUNDS: u64 = 5;

/// Alternates checks during the fault and without it.
fn charged_once(name: &'static str, fault: Fault, kind: &'static str) {
    let _row = FaultRow::begin(name);
    let (runtime, server) = (common::runtime(), Server::start(Flavor::Redis));
    let proxy = FaultProxy::start(server.addr());
    let builder = RedisBuilder::standalone(format!("redis://{}", proxy.addr())).timeout(DEADLINE);
    let store = common::connected(&runtime, builder);
    let limiter =
        Limiter::new(RecordingStore(store.clone()), limits()).expect("the limits are valid");
    let check_ledger = || {
        let check = with_fate(async {
            limiter
                .check(LEDGER, key(0))
                .await
                .is_ok_and(|check| check.is_allowed())
        });
        runtime.block_on(check)
    };

    for _ in 0..ROUNDS {
        let connections = store.stats().connections;
        proxy.set(fault);
        assert_eq!(
            check_ledger(),
            (true, CallFate::Lost(kind)),
            "the failure policy allows a check without a reply"
        );
        proxy.clear();
        // The next call must not be sent on the connection that is about to close.
        wait::until_true(PATIENT, "another connection", || {
            store.stats().connections > connections
        });
        assert!(
            matches!(check_ledger(), (true, CallFate::Decided(_))),
            "the store decides again"
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
        "each call was charged once, with or without a reply"
    );
}

/// The usage of the ledger in the end.
fn charged(runtime: &Runtime, store: RedisStore) -> u64 {
    let limiter = Limiter::new(store, limits()).expect("the limits are valid");
    let left = runtime.block_on(async { limiter.peek(LEDGER, key(0)).cost(0).await });
    let left = left.expect("the ledger exists");
    assert!(!left.is_degraded(), "the server is there in the end");
    LEDGER_LIMIT - left.remaining()
}

#[test]
fn reply_lost_is_charged_once() {
    charged_once(
        "reply lost, one caller",
        Fault::DropReplies,
        "store_timeout",
    );
}

#[test]
fn reply_cut_is_charged_once() {
    charged_once(
        "reset mid-reply, one caller",
        Fault::CutNextReply { after_bytes: 7 },
        "unavailable",
    );
}

/// While a slot is being migrated, a script cannot create a key, even if the script itself has just
/// deleted it because all of its permits or hits had expired. The charges of the same request in
/// other counters must then be undone.
#[test]
fn open_slot_charges_all_or_nothing() {
    let name = "resharding, one caller";
    let _row = FaultRow::begin(name);
    let (runtime, cluster) = (common::runtime(), Cluster::start(Flavor::Redis, 3, 0));
    let store = common::on_cluster(&runtime, &cluster);
    let limiter =
        Limiter::new(RecordingStore(store.clone()), limits()).expect("the limits are valid");
    let slot = cluster.slot_of(&format!("{{={}}}", key(0)));
    let (mut allowed, mut refused) = (0, 0);

    for limit in ["flight", "log"].into_iter().cycle().take(4) {
        let mut check_both = || {
            let check = limiter.check(LEDGER, key(0)).and(limit, key(0)).cost(3);
            let (decision, fate) = runtime.block_on(with_fate(async { check.await }));
            let passes = decision.expect("both limits exist").is_allowed()
                && matches!(fate, CallFate::Decided(_));
            allowed += u64::from(passes);
            refused += u64::from(fate == CallFate::Refused);
            (passes, fate)
        };
        wait::until_true(PATIENT, "a full counter", || check_both().0);
        let from = cluster.primary_of_slot(slot).addr();
        let to = cluster
            .nodes()
            .iter()
            .find(|node| node.addr() != from)
            .expect("there are three");
        cluster.begin_move_slot(slot, to);
        // The contents of the counter expire: it is filled again, or its key is gone and neither
        // server can decide. There is no pause in between, because an empty key exists for a short
        // time only.
        let end = wait::now() + PATIENT;
        let mut result = check_both();
        while !result.0 && !matches!(result.1, CallFate::Lost(_)) && wait::now() < end {
            result = check_both();
        }
        cluster.finish_move_slot(slot, to);
    }

    let charged = charged(&runtime, store);
    println!(
        "\n{name}\n  charge          {charged} charged - {} allowed; refused {refused}",
        3 * allowed
    );
    assert_eq!(charged, 3 * allowed, "only allowed checks were charged");
}
