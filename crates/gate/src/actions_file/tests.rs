use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use testkit::processes::Directory;
use tollgate::ManualClock;
use tollgate_rules::Config;

use super::*;
use crate::{ActionChange, ActionDraft, ActionKind, ActionTarget, BlockStatus};

const CONFIG: &str =
    "limits: [{ name: api, key: [client_ip], algorithm: fixed_window, limit: 2, window: 1h }]";

/// A process that starts at this time, in seconds, and keeps its actions in a directory.
fn start(at: u64, directory: &Path) -> (Gate, ManualClock) {
    let config = Config::parse(CONFIG, "test.yaml", &|_: &str| None).unwrap();
    let clock = ManualClock::new(Micros::from_secs(at));
    let gate = Gate::with_clock(&clock, config);
    gate.keep_actions(directory).unwrap();
    (gate, clock)
}

/// Blocks a network, and returns the id of the block.
async fn block(gate: &Gate, network: &str, secs: u64) -> String {
    let draft = ActionDraft {
        limit: "api".to_owned(),
        target: ActionTarget::Network(network.parse().unwrap()),
        change: ActionChange::Block(BlockStatus::Forbidden),
        length: Duration::from_secs(secs),
        reason: "a test".to_owned(),
        by: "ann".to_owned(),
    };
    gate.act(draft).await.unwrap().id
}

fn blocks(gate: &Gate) -> Vec<String> {
    let listed = gate.actions(ActionKind::Block, None).into_iter();
    listed.map(|listed| listed.action.id).collect()
}

#[tokio::test]
async fn known_actions_survive_a_restart_until_they_end() {
    let directory = Directory::create();
    let (gate, _) = start(1_000, directory.path());
    let short = block(&gate, "203.0.113.0/24", 60).await;
    let long = block(&gate, "198.51.100.0/24", 600).await;
    let undone = block(&gate, "192.0.2.0/24", 600).await;
    gate.undo(ActionKind::Block, &undone).await.unwrap();
    gate.save_actions().await;
    let file = directory.path().join(NAME);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );

    let second = Gate::keep_actions(
        &start(1_000, Directory::create().path()).0,
        directory.path(),
    );
    assert!(
        matches!(second, Err(ActionsFileError::InUse(_))),
        "{second:?}"
    );
    drop(gate);
    let (gate, clock) = start(1_059, directory.path());
    let mut known = blocks(&gate);
    known.sort_unstable();
    let mut expected = [short, long.clone()];
    expected.sort_unstable();
    assert_eq!(known, expected);
    clock.advance(Duration::from_secs(1));
    assert_eq!(blocks(&gate), [&*long]);

    // A clock that was set back makes no action longer.
    gate.save_actions().await;
    drop((gate, clock));
    let (gate, clock) = start(10, directory.path());
    clock.advance(Duration::from_secs(539));
    assert_eq!(blocks(&gate), [&*long]);
    clock.advance(Duration::from_secs(1));
    assert_eq!(blocks(&gate), Vec::<String>::new());
    drop((gate, clock));
    let (gate, _) = start(1_060, directory.path());

    // The store gets them, too, with the mark of the removed one.
    gate.sync_actions().await.unwrap();
    assert!(gate.undo(ActionKind::Block, &long).await.unwrap().is_some());
    assert!(
        gate.undo(ActionKind::Block, &undone)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_ignored_and_replaced() {
    let directory = Directory::create();
    let file = directory.path().join(NAME);
    for text in [
        "",
        "{",
        r#"{"version":2,"saved_at_ms":1,"records":[]}"#,
        r#"{"records":1}"#,
    ] {
        fs::write(&file, text).unwrap();
        let (gate, _) = start(1_000, directory.path());
        assert_eq!(blocks(&gate), Vec::<String>::new());
        block(&gate, "203.0.113.0/24", 60).await;
        gate.save_actions().await;
        drop(gate);
        assert_eq!(blocks(&start(1_000, directory.path()).0).len(), 1, "{text}");
    }

    fs::remove_file(&file).unwrap();
    File::create(&file).unwrap().set_len(BYTES_MAX + 1).unwrap();
    assert_eq!(
        blocks(&start(1_000, directory.path()).0),
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn a_symbolic_link_stays_one() {
    let directory = Directory::create();
    let (kept, other) = (directory.path().join("a"), directory.path().join("b"));
    fs::create_dir(&kept).unwrap();
    fs::create_dir(&other).unwrap();
    symlink("../b/target", kept.join(NAME)).unwrap();
    for _ in 0..2 {
        let (gate, _) = start(1_000, &kept);
        block(&gate, "203.0.113.0/24", 60).await;
        gate.save_actions().await;
    }
    assert!(fs::symlink_metadata(kept.join(NAME)).unwrap().is_symlink());
    let target = fs::symlink_metadata(other.join("target")).unwrap();
    assert!(target.is_file());
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_an_error_and_later_a_warning() {
    let directory = Directory::create();
    let missing = directory.path().join("missing");
    let (gate, _) = start(1_000, directory.path());
    let error = gate.keep_actions(&missing).unwrap_err().to_string();
    assert!(error.contains("must be able to write there"), "{error}");

    fs::create_dir(directory.path().join(NAME)).unwrap();
    block(&gate, "203.0.113.0/24", 60).await;
    gate.save_actions().await;
    let warnings = gate.warnings();
    assert!(
        warnings.iter().any(|one| one.contains("cannot be saved")),
        "{warnings:?}"
    );
    fs::remove_dir(directory.path().join(NAME)).unwrap();
    gate.save_actions().await;
    assert!(
        !gate
            .warnings()
            .iter()
            .any(|one| one.contains("cannot be saved"))
    );
}

/// What a replica has said that it knows, it must know after a restart.
#[tokio::test]
async fn actions_are_announced_when_they_are_saved() {
    let directory = Directory::create();
    let (gate, _) = start(1_000, directory.path());
    block(&gate, "203.0.113.0/24", 60).await;
    gate.sync_actions().await.unwrap();
    let known = gate.actions_revision();
    assert_ne!(known, RecordRevision::default());
    assert_ne!(gate.kept_actions_revision(), known);
    gate.save_actions().await;
    assert_eq!(gate.kept_actions_revision(), known);

    block(&gate, "198.51.100.0/24", 60).await;
    gate.sync_actions().await.unwrap();
    assert_eq!(
        gate.kept_actions_revision(),
        known,
        "the last one that is saved"
    );
    gate.save_actions().await;
    assert_eq!(gate.kept_actions_revision(), gate.actions_revision());
}
