//! What a fail-over of the store loses, on a gate whose records a test changes.

use super::*;
use crate::records::{RecordGroup, RecordRevision};

#[tokio::test]
async fn what_a_fail_over_loses_is_put_again() {
    let scene = scene();
    let action = scene.act("api", ANN_IP, BLOCK).await.unwrap();
    let records = scene.gate.records();
    let group = RecordGroup::Actions;

    // Another replica has removed it.
    records.remove(group, &action.id).await.unwrap();
    scene.gate.sync_actions().await.unwrap();
    assert!(scene.check(&["api"], ANN).await.is_allowed());

    let action = scene.act("api", ANN_IP, BLOCK).await.unwrap();
    scene.gate.action_log.lock().has_failed = true;
    records.remove(group, &action.id).await.unwrap();
    scene.gate.sync_actions().await.unwrap();
    assert!(!scene.check(&["api"], ANN).await.is_allowed());
    let default = RecordRevision::default();
    assert_eq!(scene.gate.actions_revision(), default, "not read back yet");
    scene.gate.sync_actions().await.unwrap();
    assert!(!scene.check(&["api"], ANN).await.is_allowed());
    assert_ne!(scene.gate.actions_revision(), default);
}

#[tokio::test]
async fn an_undo_that_a_fail_over_loses_is_repeated() {
    let scene = scene();
    let action = scene.act("api", ANN_IP, BLOCK).await.unwrap();
    let undone = scene.gate.undo(ActionKind::Block, &action.id).await;
    assert!(undone.unwrap().is_some());

    // A server that did not receive the removal takes over, or a replica that has put the action
    // takes it for lost.
    let (records, group) = (scene.gate.records(), RecordGroup::Actions);
    let ttl = Duration::from_secs(60);
    let text = action.to_record();
    records.put(group, &action.id, &text, ttl).await.unwrap();
    scene.gate.sync_actions().await.unwrap();
    assert!(scene.check(&["api"], ANN).await.is_allowed());
    scene.gate.sync_actions().await.unwrap();
    assert!(scene.check(&["api"], ANN).await.is_allowed());
    assert!(!records.remove(group, &action.id).await.unwrap());

    // Another replica blocks the key later.
    let later = Action {
        created_at: action.created_at.after(Micros::from_secs(1)),
        ..action
    };
    let text = later.to_record();
    records.put(group, &later.id, &text, ttl).await.unwrap();
    scene.gate.sync_actions().await.unwrap();
    assert!(!scene.check(&["api"], ANN).await.is_allowed());
}

/// A failed read alone does not bring back what another replica removes later.
#[tokio::test]
async fn what_another_replica_removes_after_an_outage_stays_removed() {
    let scene = scene();
    let action = scene.act("api", ANN_IP, BLOCK).await.unwrap();
    scene.gate.sync_actions().await.unwrap();
    scene.gate.action_log.lock().has_failed = true;
    scene.gate.sync_actions().await.unwrap();

    let group = RecordGroup::Actions;
    let removed = scene.gate.records().remove(group, &action.id).await;
    assert!(removed.unwrap());
    scene.gate.sync_actions().await.unwrap();
    scene.gate.sync_actions().await.unwrap();
    assert!(scene.check(&["api"], ANN).await.is_allowed());
}

/// A server that never had the action has the revision that was known before it.
#[tokio::test]
async fn a_fail_over_to_the_revision_before_an_action_is_noticed() {
    let scene = scene();
    scene.gate.sync_actions().await.unwrap();
    let before = scene.gate.action_log.lock().position().revision;
    scene.act("api", ANN_IP, BLOCK).await.unwrap();
    let after = scene.gate.action_log.lock().position().revision;
    assert_ne!(before, after, "the next read returns everything");
}
