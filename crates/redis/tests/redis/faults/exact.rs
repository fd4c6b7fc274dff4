//! One caller, one question at a time: every call that gets no answer is known to have been sent, and to an idle server, so
//! that the charge is known to the unit. What may have run is never sent twice.

use std::time::Duration;

use testkit::proxy::{Fault, FaultProxy};
use testkit::servers::{Flavor, Server};
use testkit::wait;
use tollgate::Limiter;
use tollgate_redis::RedisBuilder;

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
        let asking =
            with_fate(async { limiter.check(LEDGER, key(0)).await.is_ok_and(|told| told.is_allowed()) });
        runtime.block_on(asking)
    };
    for _ in 0..ROUNDS {
        let connections = store.stats().connections;
        proxy.set(fault);
        assert_eq!(ask(), (true, Fate::Lost(kind)), "the policy allows what gets no answer");
        proxy.clear();
        // The next question must not go out on the connection that is about to end.
        wait::until_true(PATIENT, "another connection", || store.stats().connections > connections);
        assert!(matches!(ask(), (true, Fate::Decided(_))), "the store is back");
    }
    let observer = Limiter::new(common::standalone(&runtime, &server), limits());
    let left = runtime.block_on(async { observer.peek(LEDGER, key(0)).cost(0).await });
    let charged = LEDGER_LIMIT - left.expect("the ledger is a limit").remaining();
    println!(
        "\n{name}\n  charge          {charged} charged - {ROUNDS} allowed = {} of exactly {ROUNDS}",
        charged - ROUNDS
    );
    assert_eq!(charged, 2 * ROUNDS, "what ran was charged once, whether or not its answer came");
}

#[test]
fn reply_lost_is_charged_once() {
    charged_once("reply lost, one caller", Fault::DropReplies, "timeout");
}

#[test]
fn reply_cut_is_charged_once() {
    charged_once("reset mid-reply, one caller", Fault::CutNextReply { after_bytes: 7 }, "away");
}
