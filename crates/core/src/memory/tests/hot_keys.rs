//! Keys that several threads use at the same time: decided without the lock, and still exactly.

use proptest::prelude::*;

use super::super::hot_key::set_thread_number;
use super::*;
use crate::algorithm::Outcome;
use crate::clock::Clock as _;

/// The units that other stripes than the thread's own may hold at most in these tests.
const HIDDEN_MAX: u64 = 4;

/// A store in which every key is hot, and one in which none is, on the same clock.
fn stores() -> (MemoryStore, MemoryStore, ManualClock) {
    let clock = ManualClock::default();
    let builder = || MemoryStore::builder().keys_max(64).clock(clock.clone());
    (
        builder().split_every_key().build(),
        builder().build(),
        clock,
    )
}

fn rules() -> Vec<Rule> {
    let second = Duration::from_secs(1);
    let limits = [
        Limit::token_bucket("bucket", 20, Rate::per_second(10)),
        Limit::sliding_window("sliding", 20, second),
        Limit::fixed_window("fixed", 20, second),
        Limit::leaky_bucket("meter", 20, Rate::per_second(7)),
        Limit::queue("queue", 20, Rate::per_second(10)),
        Limit::sliding_log("log", 20, second),
    ];
    limits.iter().map(rule).collect()
}

fn try_spend(store: &MemoryStore, rule: &Rule, cost: u64, intent: Intent) -> Outcome {
    let demand = DemandBuf::new(rule, "ann", cost).unwrap();
    let decided = store.try_spend(&demand.as_demand(), intent, PermitId::NONE);
    decided.expect("a memory store decides without waiting").0
}

fn is_spent_without_lock(store: &MemoryStore, rule: &Rule) -> Option<bool> {
    let demand = DemandBuf::new(rule, "ann", 1).unwrap();
    let (demand, counters) = (demand.as_demand(), store.counters());
    let fingerprint = counters.fingerprinter.fingerprint(&demand.key);
    let context = counters.context(
        &demand,
        fingerprint,
        Intent::Spend,
        PermitId::NONE,
        store.now(),
    );
    let shard = &counters.shards[counters.shard_index(fingerprint)];

    let (guard, _) = shard.lock_hot();
    let decided = shard
        .hot_key
        .try_spend(context, |outcome| outcome.verdict.is_allowed());
    drop(guard);
    decided
}

#[test]
fn a_hot_key_is_decided_while_another_thread_holds_its_lock() {
    let (store, ..) = stores();
    for rule in rules().iter().take(4) {
        set_thread_number(0);
        assert_eq!(is_spent_without_lock(&store, rule), None, "an unknown key");
        for _ in 0..2 {
            try_spend(&store, rule, 1, Intent::Spend);
        }

        // Two units are spent, and the stripe of this thread has four.
        for _ in 0..4 {
            assert_eq!(is_spent_without_lock(&store, rule), Some(true));
        }
        assert_eq!(is_spent_without_lock(&store, rule), None, "an empty stripe");
        set_thread_number(1);
        assert_eq!(is_spent_without_lock(&store, rule), None, "another stripe");

        let peek = try_spend(&store, rule, 0, Intent::Peek);
        assert_eq!(peek.remaining, 14);
        assert_eq!(
            is_spent_without_lock(&store, rule),
            None,
            "a key that was read"
        );

        for _ in 0..14 {
            assert!(
                try_spend(&store, rule, 1, Intent::Spend)
                    .verdict
                    .is_allowed()
            );
        }
        assert!(
            !try_spend(&store, rule, 1, Intent::Spend)
                .verdict
                .is_allowed()
        );
        assert_eq!(is_spent_without_lock(&store, rule), Some(false));
    }
}

#[test]
fn the_units_of_all_stripes_are_spent_before_a_denial() {
    let (store, ..) = stores();
    for rule in &rules() {
        let mut admitted = 0;
        for thread in [0, 1, 0, 1, 1, 1, 0] {
            set_thread_number(thread);
            admitted += u64::from(
                try_spend(&store, rule, 1, Intent::Spend)
                    .verdict
                    .is_allowed(),
            );
        }
        // The other stripe still has units.
        while try_spend(&store, rule, 1, Intent::Spend)
            .verdict
            .is_allowed()
        {
            admitted += 1;
        }
        assert_eq!(admitted, 20, "{}", rule.name());
    }
}

#[test]
fn a_hot_key_ends_at_a_sweep_and_another_key_of_the_shard_follows() {
    let (store, ..) = stores();
    let rules = rules();
    // Both keys exist before one of them is hot, because a new key cools its shard.
    for number in [0, 1, 0, 1] {
        try_spend(&store, &rules[number], 1, Intent::Spend);
    }
    assert_eq!(is_spent_without_lock(&store, &rules[0]), Some(true));
    assert_eq!(is_spent_without_lock(&store, &rules[1]), None);

    store.sweep();
    assert_eq!(is_spent_without_lock(&store, &rules[0]), None);
    try_spend(&store, &rules[1], 1, Intent::Spend);
    assert_eq!(is_spent_without_lock(&store, &rules[1]), Some(true));
}

/// What a thread does with one of the counters.
#[derive(Clone, Copy, Debug)]
enum Act {
    Spend(u64),
    Peek(u64),
    SpendBoth(u64),
    /// Spends by a quota with other numbers.
    SpendDoubled(u64),
    Refund(u64),
    Reset,
    Sweep,
    Restart,
    Advance(u64),
    SetBack(u64),
}

fn act_strategy() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..4_u64).prop_map(Act::Spend),
        1 => (0..4_u64).prop_map(Act::Peek),
        1 => (0..4_u64).prop_map(Act::SpendBoth),
        1 => (1..4_u64).prop_map(Act::SpendDoubled),
        1 => (0..9_u64).prop_map(Act::Refund),
        1 => Just(Act::Reset),
        1 => Just(Act::Sweep),
        1 => Just(Act::Restart),
        3 => (0..300_000_u64).prop_map(Act::Advance),
        1 => (0..2_000_000_u64).prop_map(Act::SetBack),
    ]
}

/// The limit with twice its numbers, which leaves the span of a bucket as it is.
fn doubled(rule: &Rule) -> Option<Quota> {
    let limit = match rule.name().as_str() {
        "bucket" => Limit::token_bucket("bucket", 40, Rate::per_second(20)),
        "sliding" => Limit::sliding_window("sliding", 40, Duration::from_secs(1)),
        "fixed" => Limit::fixed_window("fixed", 40, Duration::from_secs(1)),
        _ => return None,
    };
    Some(*limit.validate().unwrap().quota())
}

fn restart(store: &MemoryStore, clock: &ManualClock, is_hot: bool) -> MemoryStore {
    let builder = MemoryStore::builder().keys_max(64).clock(clock.clone());
    let builder = if is_hot {
        builder.split_every_key()
    } else {
        builder
    };
    builder.restore(&store.snapshot()).unwrap()
}

/// What an act returns: the outcome of a single demand, or those of several.
fn perform(store: &MemoryStore, rules: &[Rule], number: usize, act: Act) -> Vec<Outcome> {
    let rule = &rules[number];
    let demand = |rule: &Rule, cost| DemandBuf::new(rule, "ann", cost).unwrap();
    match act {
        Act::Spend(cost) => vec![try_spend(store, rule, cost, Intent::Spend)],
        Act::Peek(cost) => vec![try_spend(store, rule, cost, Intent::Peek)],
        Act::SpendBoth(cost) => {
            let owned = [
                demand(rule, cost),
                demand(&rules[(number + 1) % rules.len()], cost),
            ];
            let demands = [owned[0].as_demand(), owned[1].as_demand()];
            let reply = store.spend_all(&demands, Intent::Spend, PermitId::NONE);
            reply
                .outcomes()
                .iter()
                .map(|(outcome, _)| *outcome)
                .collect()
        }
        Act::SpendDoubled(cost) => {
            let demand = demand(rule, cost);
            let demand = demand.as_demand().with_quota(doubled(rule));
            let decided = store.try_spend(&demand, Intent::Spend, PermitId::NONE);
            vec![decided.unwrap().0]
        }
        Act::Refund(cost) => {
            drop(store.refund(&[demand(rule, cost).as_demand()]));
            Vec::new()
        }
        Act::Reset => {
            drop(store.reset(&demand(rule, 0).as_demand().key));
            Vec::new()
        }
        Act::Sweep => {
            store.sweep();
            Vec::new()
        }
        Act::Restart | Act::Advance(_) | Act::SetBack(_) => Vec::new(),
    }
}

proptest! {
    /// Three threads take turns. A store with hot keys makes the same decisions as one without,
    /// reports the same where the key is not split, and never reports more units than are left.
    #[test]
    fn hot_keys_are_decided_like_others(
        turns in proptest::collection::vec((0..3_usize, 0..6_usize, act_strategy()), 1..120),
        is_focused in any::<bool>(),
    ) {
        let (mut hot, mut cold, clock) = stores();
        let rules = rules();
        for (thread, number, act) in turns {
            set_thread_number(thread);
            let number = if is_focused { turns_number(&act, number) } else { number };
            let now = clock.now();
            match act {
                Act::Advance(micros) => clock.set(now.after(Micros::new(micros))),
                Act::SetBack(micros) => clock.set(now.since(Micros::new(micros))),
                Act::Restart => {
                    hot = restart(&hot, &clock, true);
                    cold = restart(&cold, &clock, false);
                }
                _ => {}
            }

            let found = perform(&hot, &rules, number, act);
            let expected = perform(&cold, &rules, number, act);
            prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.into_iter().zip(expected) {
                prop_assert_eq!(found.verdict, expected.verdict, "{:?}", act);
                let is_split = matches!(act, Act::Spend(_) | Act::SpendDoubled(_));
                let hidden = if is_split && found.verdict.is_allowed() { HIDDEN_MAX } else { 0 };
                prop_assert!(found.remaining <= expected.remaining, "{:?} {:?}", found, expected);
                prop_assert!(
                    expected.remaining <= found.remaining + hidden,
                    "{:?}: {:?} {:?}", act, found, expected
                );
                prop_assert!(hidden > 0 || found.reset_after == expected.reset_after);
            }
        }
    }
}

/// Nearly always the first counter, so that it is spent, refilled and denied.
const fn turns_number(act: &Act, number: usize) -> usize {
    match act {
        Act::Sweep => number,
        _ => number / 5,
    }
}
