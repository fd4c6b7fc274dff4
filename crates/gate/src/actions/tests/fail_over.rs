//! What a fail-over of the store loses, on gates whose records a test changes.

use super::*;
use crate::records::{RecordGroup, RecordRevision, SharedRecords};

const GROUP: RecordGroup = RecordGroup::Actions;
/// More than enough for all replicas to agree.
const ROUNDS: usize = 4;

/// Replicas on one store, with one clock.
struct Replicas {
    scenes: Vec<Scene>,
    clock: ManualClock,
}

impl Replicas {
    fn new(count: usize) -> (Self, SharedRecords) {
        let clock = ManualClock::default();
        let records = SharedRecords::in_memory(std::sync::Arc::new(clock.clone()));
        let scenes = (0..count).map(|_| replica(&clock, &records)).collect();
        (Self { scenes, clock }, records)
    }

    fn move_to(&self, records: &SharedRecords) {
        for scene in &self.scenes {
            scene.gate.move_to(&self.clock, records);
        }
    }

    /// Lets every replica read the store, in turns, and asserts that they agree at the end.
    async fn agree(&self) {
        for _ in 0..ROUNDS {
            for scene in &self.scenes {
                scene.gate.sync_actions().await.unwrap();
            }
        }
        let revisions = self.scenes.iter().map(|one| one.gate.actions_revision());
        let revisions: Vec<_> = revisions.collect();
        let first = revisions[0];
        assert_ne!(first, RecordRevision::default());
        assert!(revisions.iter().all(|one| *one == first), "{revisions:?}");
    }

    /// Whether the address of Ann is blocked, which all replicas agree on.
    async fn is_blocked(&self) -> bool {
        let blocked = is_blocked(&self.scenes[0]).await;
        for scene in &self.scenes {
            assert_eq!(is_blocked(scene).await, blocked);
        }
        blocked
    }
}

fn replica(clock: &ManualClock, records: &SharedRecords) -> Scene {
    let gate = Gate::with_clock(clock, config(CONFIG));
    gate.move_to(clock, records);
    let clock = clock.clone();
    Scene { gate, clock }
}

async fn is_blocked(scene: &Scene) -> bool {
    scene.check(&["api"], ANN).await.source() == Source::Block
}

async fn undo(scene: &Scene, action: &Action) -> Option<Action> {
    let undone = scene.gate.undo(action.change.kind(), &action.id).await;
    undone.unwrap()
}

/// The records of a store, as id and text.
async fn stored(records: &SharedRecords) -> Vec<(String, String)> {
    let read = records.read(GROUP, RecordRevision::default()).await;
    let records = read.unwrap().unwrap().records.into_iter();
    records.map(|record| (record.id, record.text)).collect()
}

#[tokio::test]
async fn a_replica_that_has_not_read_an_action_can_undo_it() {
    let (replicas, _) = Replicas::new(3);
    for change in [BLOCK, ActionChange::Exempt, ActionChange::Shadow(true)] {
        let key = match change {
            ActionChange::Shadow(_) => "",
            _ => ANN_IP,
        };
        let action = replicas.scenes[0].act("api", key, change).await.unwrap();
        assert_eq!(
            undo(&replicas.scenes[1], &action).await,
            Some(action.clone())
        );
        for scene in [2, 0] {
            let undone = undo(&replicas.scenes[scene], &action).await;
            assert_eq!(undone, None, "it is undone");
        }
        replicas.agree().await;
        assert!(!replicas.is_blocked().await);
        let kind = action.change.kind();
        assert!(replicas.scenes[0].gate.actions(kind, None).is_empty());
    }
}

/// All replicas have read an action from a primary that a fail-over replaces by one without it.
#[tokio::test]
async fn an_action_that_replicas_know_survives_a_fail_over_that_loses_it() {
    let (replicas, old) = Replicas::new(4);
    let new = old.fork();
    let first = &replicas.scenes[0];
    let doubled = Multiple::new(2.0).unwrap();
    for (key, change) in [
        (ANN_IP, BLOCK),
        (r#"{"client_ip": "203.0.113.8"}"#, ActionChange::Exempt),
        (
            "203.0.113.0/24",
            ActionChange::Override(QuotaChange::Multiply(doubled)),
        ),
        ("", ActionChange::Shadow(true)),
    ] {
        first.act("api", key, change).await.unwrap();
    }
    replicas.agree().await;

    replicas.move_to(&new);
    replicas.agree().await;
    assert!(replicas.is_blocked().await);
    let newcomer = replica(&replicas.clock, &new);
    newcomer.gate.sync_actions().await.unwrap();
    for scene in replicas.scenes.iter().chain([&newcomer]) {
        let counts = scene.gate.action_counts().map(|(_, count)| count);
        assert_eq!(counts, [1; 4]);
    }
    assert_eq!(stored(&new).await.len(), 4);
}

/// A replica still uses the old primary while another one already uses the new one.
#[tokio::test]
async fn of_two_changes_on_two_primaries_the_later_one_counts() {
    for is_undone_last in [true, false] {
        let (replicas, old) = Replicas::new(2);
        let [on_old, on_new] = &replicas.scenes[..] else {
            panic!("two replicas");
        };
        let action = on_old.act("api", ANN_IP, BLOCK).await.unwrap();
        replicas.agree().await;
        let new = old.fork();
        on_new.gate.move_to(&replicas.clock, &new);

        let (undoing, acting) = if is_undone_last {
            (on_new, on_old)
        } else {
            (on_old, on_new)
        };
        if is_undone_last {
            acting.act("api", ANN_IP, BLOCK).await.unwrap();
        }
        replicas.clock.advance(Duration::from_millis(10));
        assert!(undo(undoing, &action).await.is_some());
        replicas.clock.advance(Duration::from_millis(10));
        if !is_undone_last {
            acting.act("api", ANN_IP, BLOCK).await.unwrap();
        }

        replicas.move_to(&new);
        replicas.agree().await;
        assert_eq!(replicas.is_blocked().await, !is_undone_last);
    }
}

#[tokio::test]
async fn an_undo_survives_a_fail_over_to_a_server_that_still_has_the_action() {
    let (replicas, old) = Replicas::new(3);
    let action = replicas.scenes[0].act("api", ANN_IP, BLOCK).await.unwrap();
    replicas.agree().await;
    let before = old.fork();
    undo(&replicas.scenes[1], &action).await.unwrap();
    replicas.agree().await;

    // A replica that was cut off from the store meanwhile remembers the action.
    let cut_off = replica(&replicas.clock, &before);
    cut_off.gate.sync_actions().await.unwrap();
    assert!(is_blocked(&cut_off).await);

    replicas.move_to(&before);
    replicas.agree().await;
    assert!(!replicas.is_blocked().await);
    cut_off.gate.sync_actions().await.unwrap();
    assert!(!is_blocked(&cut_off).await);
}

/// The clock of the second replica is ten minutes slow.
#[tokio::test]
async fn a_block_after_an_undo_counts_whatever_the_clocks_say() {
    let clock = ManualClock::new(Micros::from_secs(1_000));
    let slow = ManualClock::new(Micros::from_secs(400));
    let records = SharedRecords::in_memory(std::sync::Arc::new(clock.clone()));
    let (fast, slow) = (replica(&clock, &records), replica(&slow, &records));

    for _ in 0..3 {
        let action = fast.act("api", ANN_IP, BLOCK).await.unwrap();
        undo(&slow, &action).await.unwrap();
        fast.gate.sync_actions().await.unwrap();
        assert!(!is_blocked(&fast).await);
        slow.act("api", ANN_IP, BLOCK).await.unwrap();
        fast.gate.sync_actions().await.unwrap();
        assert!(is_blocked(&fast).await && is_blocked(&slow).await);
    }
}

/// A block of an hour replaces one of a day; a replica has missed that.
#[tokio::test]
async fn a_longer_block_does_not_come_back_after_the_shorter_one_that_replaced_it() {
    let (replicas, records) = Replicas::new(2);
    let [first, away] = &replicas.scenes[..] else {
        panic!("two replicas");
    };
    let long = first.act("api", ANN_IP, BLOCK).await.unwrap();
    replicas.agree().await;
    let island = records.fork();
    away.gate.move_to(&replicas.clock, &island);

    let draft = ActionDraft {
        limit: long.limit.clone(),
        target: long.target.clone(),
        change: BLOCK,
        length: Duration::from_secs(5),
        reason: "shorter".to_owned(),
        by: "ann".to_owned(),
    };
    let short = first.gate.act(draft).await.unwrap();
    assert_eq!(
        short.expires_at.since(first.gate.now()),
        Micros::from_secs(5)
    );
    replicas.clock.advance(Duration::from_secs(4));
    first.gate.sync_actions().await.unwrap();
    assert!(is_blocked(first).await);

    replicas.clock.advance(Duration::from_secs(1));
    assert!(!is_blocked(first).await, "it has ended");
    assert!(is_blocked(away).await);
    replicas.move_to(&records);
    replicas.agree().await;
    assert!(!replicas.is_blocked().await);
    assert!(first.gate.actions(ActionKind::Block, None).is_empty());
}

/// A record is kept longer than its action, but not longer with each change.
#[tokio::test]
async fn blocking_and_undoing_again_and_again_keeps_no_record_longer() {
    let (replicas, records) = Replicas::new(1);
    let scene = &replicas.scenes[0];
    for _ in 0..20 {
        let action = scene.act("api", ANN_IP, BLOCK).await.unwrap();
        undo(scene, &action).await.unwrap();
    }
    let read = records.read(GROUP, RecordRevision::default()).await;
    let [mark] = &read.unwrap().unwrap().records[..] else {
        panic!("one record");
    };
    assert_eq!(mark.expires_after, Duration::from_secs(3_660));
}

#[tokio::test]
async fn an_action_that_has_ended_is_over() {
    let (replicas, records) = Replicas::new(2);
    replicas.scenes[0].act("api", ANN_IP, BLOCK).await.unwrap();
    replicas.agree().await;

    let empty = Replicas::new(0).1;
    replicas.clock.advance(Duration::from_mins(1));
    for store in [&records, &empty] {
        replicas.move_to(store);
        replicas.agree().await;
        assert!(!replicas.is_blocked().await);
        assert_eq!(stored(store).await, []);
    }
}

#[tokio::test]
async fn a_store_that_was_emptied_gets_the_actions_back() {
    let (replicas, _) = Replicas::new(3);
    let clock = &replicas.clock;
    let undone = replicas.scenes[2].act("api", ANN_IP, ActionChange::Exempt);
    let undone = undone.await.unwrap();
    undo(&replicas.scenes[2], &undone).await.unwrap();
    for index in 0..250 {
        let key = format!(r#"{{"client_ip": "203.0.{index}.7"}}"#);
        replicas.scenes[0].act("api", &key, BLOCK).await.unwrap();
    }
    replicas.agree().await;

    let empty = SharedRecords::in_memory(std::sync::Arc::new(clock.clone()));
    replicas.move_to(&empty);
    // One read puts a bounded number of them.
    replicas.scenes[1].gate.sync_actions().await.unwrap();
    assert_eq!(stored(&empty).await.len(), 100);
    replicas.agree().await;
    assert_eq!(stored(&empty).await.len(), 251, "with the mark");
    let counts = replicas.scenes[2].gate.action_counts();
    assert_eq!(counts[0], (ActionKind::Block, 250));
}

#[tokio::test]
async fn what_is_not_a_record_is_removed_and_its_id_can_be_used() {
    let (replicas, records) = Replicas::new(2);
    let target = replicas.scenes[0].act("api", ANN_IP, BLOCK).await.unwrap();
    let ttl = Duration::from_mins(1);
    for text in [
        "",
        "{}",
        "42",
        r#"{"kind":"block","created_at_ms":-1}"#,
        r#"{"kind":"removed","created_at_ms":18446744073709551615}"#,
    ] {
        records.put(GROUP, &target.id, text, ttl).await.unwrap();
        records.put(GROUP, "other", text, ttl).await.unwrap();
        replicas.agree().await;
        assert!(replicas.is_blocked().await, "it was known");
        assert_eq!(stored(&records).await.len(), 1);
        undo(&replicas.scenes[1], &target).await.unwrap();
        replicas.scenes[1].act("api", ANN_IP, BLOCK).await.unwrap();
    }
}

/// What a newer version has put is not understood, and not lost either.
#[tokio::test]
async fn an_action_of_another_version_is_kept() {
    let (replicas, old) = Replicas::new(2);
    let new = old.fork();
    let text = r#"{"kind":"slow_down","created_at_ms":7,"by":"ann"}"#;
    let ttl = Duration::from_mins(1);
    old.put(GROUP, "slow_down-1", text, ttl).await.unwrap();
    replicas.agree().await;
    replicas.move_to(&new);
    replicas.agree().await;
    let expected = ("slow_down-1".to_owned(), text.to_owned());
    assert_eq!(stored(&new).await, [expected]);
}

/// Random changes on random replicas, which move between servers that miss some of them. At the end
/// the last change of each action counts everywhere.
#[tokio::test]
async fn replicas_agree_on_the_last_change_after_random_fail_overs() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (replicas, mut current) = Replicas::new(3);
        let mut next = current.fork();
        let keys = ["1", "2", "3"].map(|host| format!(r#"{{"client_ip": "203.0.113.{host}"}}"#));
        let mut expected = [false; 3];

        for _ in 0..120 {
            replicas.clock.advance(Duration::from_millis(7));
            let scene = &replicas.scenes[random.usize(0..3)];
            let key = random.usize(0..3);
            match random.u8(0..10) {
                0..3 => {
                    scene.act("api", &keys[key], BLOCK).await.unwrap();
                    expected[key] = true;
                }
                3..5 => {
                    let attributes = attributes(&keys[key]);
                    let active = scene.gate.active();
                    let target = active.key_for("api", &attributes, ["client_ip"]).unwrap();
                    let target = ActionTarget::Key(target);
                    let id = Action::id_for(ActionKind::Block, "api", &target);
                    let undone = scene.gate.undo(ActionKind::Block, &id).await.unwrap();
                    expected[key] &= undone.is_none();
                }
                5..8 => scene.gate.sync_actions().await.unwrap(),
                8 => scene.gate.move_to(&replicas.clock, &next),
                _ => {
                    current = std::mem::replace(&mut next, current.fork());
                }
            }
        }

        replicas.move_to(&next);
        replicas.agree().await;
        for (key, expected) in keys.iter().zip(expected) {
            for scene in &replicas.scenes {
                let is_blocked = scene.check(&["api"], key).await.source() == Source::Block;
                assert_eq!(is_blocked, expected, "seed {seed}, {key}");
            }
        }
    }
}

mod marks {
    use super::super::super::log::LogState;
    use crate::actions::mark;
    use crate::records::{Record, RecordList, RecordRevision};
    use std::time::Duration;
    use tollgate::Micros;

    fn list(marks: impl Iterator<Item = u64>) -> RecordList {
        let record = |number| Record {
            id: format!("block-{number:05}"),
            text: mark(number, RecordRevision::NO_RECORDS),
            expires_after: Duration::from_mins(1),
        };
        RecordList {
            revision: RecordRevision::random(),
            records: marks.map(record).collect(),
        }
    }

    /// The oldest marks are forgotten, and a replica that knows them does not put them again.
    #[test]
    fn the_last_ten_thousand_are_kept() {
        let (mut first, mut second) = (LogState::default(), LogState::default());
        let full = list(1..=10_000);
        for log in [&mut first, &mut second] {
            let repair = log.merge(&full, Micros::ZERO);
            assert!(repair.lost.is_empty() && repair.unwanted.is_empty());
        }

        let repair = first.merge(&list(1..=10_002), Micros::ZERO);
        assert_eq!(repair.unwanted, ["block-00001", "block-00002"]);
        assert!(repair.lost.is_empty());
        let repair = second.merge(&list(3..=10_002), Micros::ZERO);
        assert!(repair.lost.is_empty() && repair.unwanted.is_empty());
        assert_eq!(second.entries().count(), 10_000);
    }
}
