use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::algorithm::{KeyLock, Verdict};
use crate::limit::{Limit, Rule};

/// What the parts were asked to do, in order.
type Journal = Arc<Mutex<Vec<String>>>;

/// A part that allows as many units as it has, after some polls.
struct TestPart {
    name: &'static str,
    units: u64,
    polls: usize,
    fails: bool,
    journal: Journal,
}

/// Is pending a number of times.
struct Polls(usize);

impl Future for Polls {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.checked_sub(1) {
            None => Poll::Ready(()),
            Some(left) => {
                self.0 = left;
                Poll::Pending
            }
        }
    }
}

impl TestPart {
    fn outcome(&self, demand: &Demand<'_>, spent: u64) -> Outcome {
        let verdict = if demand.cost <= self.units {
            Verdict::ALLOW
        } else {
            Verdict::Never
        };
        Outcome {
            verdict,
            limit: self.units,
            remaining: self.units.saturating_sub(spent),
            reset_after: Micros::ZERO,
            more_after: Micros::ZERO,
            lock: KeyLock::NONE,
        }
    }

    fn reply(&self, demands: &[Demand<'_>], is_charged: bool) -> SpendReply {
        let spent = |demand: &Demand<'_>| if is_charged { demand.cost } else { 0 };
        let outcomes = demands
            .iter()
            .map(|demand| self.outcome(demand, spent(demand)));
        SpendReply::new(outcomes, Source::Store, Micros::new(self.units))
    }
}

impl Part for TestPart {
    async fn spend(
        &mut self,
        demands: &[Demand<'_>],
        intent: Intent,
        _: PermitId,
    ) -> Result<SpendReply, StoreError> {
        Polls(self.polls).await;
        self.journal
            .lock()
            .push(format!("{intent:?} {}", self.name));
        if self.fails {
            return Err(StoreError::Timeout);
        }

        let reply = self.reply(demands, false);
        let is_charged = intent == Intent::Spend && !reply.is_denied(demands);
        Ok(self.reply(demands, is_charged))
    }

    fn undo(
        &mut self,
        demands: &[Demand<'_>],
        reply: &SpendReply,
        intent: Intent,
        _: PermitId,
    ) -> SpendReply {
        let charged = reply.charged(demands, intent).len();
        self.journal
            .lock()
            .push(format!("undo {charged} of {}", self.name));
        self.reply(demands, false)
    }
}

struct Scene {
    rule: Rule,
    shadow: Rule,
    journal: Journal,
}

impl Scene {
    fn new() -> Self {
        let rule = Limit::sliding_log("api", 9, Duration::from_secs(1))
            .validate()
            .unwrap();
        Self {
            rule,
            shadow: rule.with_shadow(true),
            journal: Journal::default(),
        }
    }

    fn part(&self, name: &'static str, units: u64) -> TestPart {
        TestPart {
            name,
            units,
            polls: 0,
            fails: false,
            journal: self.journal.clone(),
        }
    }

    /// A request of cost 5 in every part: the demand at index 1 is in the first part, those at 0
    /// and 2 are in the second.
    fn request(&self, first: TestPart, second: TestPart) -> PartList<TestPart> {
        let demand = |rule, key| DemandBuf::new(rule, key, 5).unwrap();
        let demands = [
            demand(&self.rule, "a"),
            demand(&self.shadow, "b"),
            demand(&self.rule, "c"),
        ];
        let [a, b, c] = demands.each_ref().map(DemandBuf::as_demand);

        let mut parts = PartList::new(PermitId::NONE);
        parts.push(first, [(1, &b)]);
        parts.push(second, [(0, &a), (2, &c)]);
        parts
    }

    fn journal(&self) -> Vec<String> {
        std::mem::take(&mut *self.journal.lock())
    }
}

fn remaining(reply: &SpendReply) -> Vec<u64> {
    let outcomes = reply.outcomes().iter();
    outcomes.map(|(outcome, _)| outcome.remaining).collect()
}

#[test]
fn parts_are_spent_in_order_and_merged_in_the_order_of_the_request() {
    let scene = Scene::new();
    let request = scene.request(scene.part("one", 7), scene.part("two", 9));
    let reply = request.spend(Intent::Spend).now().unwrap().unwrap();

    assert_eq!(scene.journal(), ["Spend one", "Spend two"]);
    assert_eq!(remaining(&reply), [4, 2, 4]);
    assert_eq!(reply.at, Micros::new(9), "the latest part");
}

#[test]
fn after_a_denial_the_rest_is_peeked_at_and_earlier_parts_are_undone() {
    let scene = Scene::new();
    let first = scene.part("one", 7);
    let mut request = scene.request(first, scene.part("two", 4));
    let demand = DemandBuf::new(&scene.rule, "d", 5).unwrap();
    request.push(scene.part("three", 6), [(3, &demand.as_demand())]);

    let reply = request.spend(Intent::Spend).now().unwrap().unwrap();
    let expected = ["Spend one", "Spend two", "Peek three", "undo 1 of one"];
    assert_eq!(scene.journal(), expected);
    assert_eq!(remaining(&reply), [4, 7, 4, 6], "nothing is charged");
}

#[test]
fn a_shadow_neither_denies_nor_is_undone_if_it_was_not_charged() {
    let scene = Scene::new();
    let request = scene.request(scene.part("shadow", 3), scene.part("two", 9));
    let reply = request.spend(Intent::Spend).now().unwrap().unwrap();
    assert_eq!(scene.journal(), ["Spend shadow", "Spend two"]);
    assert_eq!(remaining(&reply)[0], 4, "the others are charged");

    let request = scene.request(scene.part("shadow", 3), scene.part("two", 4));
    drop(request.spend(Intent::Spend));
    let expected = ["Spend shadow", "Spend two", "undo 0 of shadow"];
    assert_eq!(scene.journal(), expected);
}

#[test]
fn a_peek_charges_and_undoes_nothing() {
    let scene = Scene::new();
    let request = scene.request(scene.part("one", 7), scene.part("two", 4));
    let reply = request.spend(Intent::Peek).now().unwrap().unwrap();
    assert_eq!(scene.journal(), ["Peek one", "Peek two"]);
    assert_eq!(remaining(&reply), [4, 7, 4]);
}

#[test]
fn a_failure_undoes_the_earlier_parts_and_is_returned() {
    let scene = Scene::new();
    let second = TestPart {
        fails: true,
        ..scene.part("two", 9)
    };
    let request = scene.request(scene.part("one", 7), second);
    let result = request.spend(Intent::Spend).now().unwrap();
    assert!(matches!(result, Err(StoreError::Timeout)));
    assert_eq!(scene.journal(), ["Spend one", "Spend two", "undo 1 of one"]);
}

#[test]
fn a_caller_that_stops_waiting_gets_its_charges_back() {
    let scene = Scene::new();
    let slow = || TestPart {
        polls: 2,
        ..scene.part("two", 9)
    };

    let call = scene
        .request(scene.part("one", 7), slow())
        .spend(Intent::Spend);
    assert!(matches!(call, StoreFuture::Pending(_)));
    drop(call);
    assert_eq!(scene.journal(), ["Spend one", "undo 1 of one"]);

    let mut call = scene
        .request(scene.part("one", 7), slow())
        .spend(Intent::Spend);
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut call).poll(&mut context).is_pending());
    let Poll::Ready(reply) = Pin::new(&mut call).poll(&mut context) else {
        panic!("the second part has replied");
    };
    assert_eq!(remaining(&reply.unwrap()), [4, 2, 4]);
    drop(call);
    assert_eq!(
        scene.journal(),
        ["Spend one", "Spend two"],
        "and keeps them afterwards"
    );
}
