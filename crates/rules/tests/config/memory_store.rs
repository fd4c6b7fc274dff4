//! Warnings about settings that only a shared store can honour, and the snapshot of the memory
//! store.

use std::time::Duration;

use tollgate_rules::config::{SnapshotConfig, StoreConfig};

use crate::{one_limit, parse, with_limit};

const LIMIT: &str = "algorithm: sliding_window, limit: 10, window: 1s";

#[test]
fn settings_of_a_shared_store_give_one_warning_each_in_memory() {
    let text = format!(
        "
defaults: {{ expected_replicas: 4, on_store_failure: deny }}
limits:
  - {{ name: a, key: [], {LIMIT}, consistency: leased }}
  - {{ name: b, key: [], {LIMIT}, consistency: eventual, on_store_failure: local }}
  - {{ name: c, key: [], {LIMIT}, consistency: leased, on_store_failure: allow }}
"
    );
    let expected = [
        "t.yaml:2:32: defaults.expected_replicas: the memory store is not shared: every process \
         counts by itself, so several replicas together admit a multiple of each limit; share \
         the counters with a Redis store",
        "t.yaml:2:53: defaults.on_store_failure: no effect with the memory store: it is never \
         unavailable, but every process counts by itself; use a Redis store to share the \
         counters, or remove the setting (also in 2 other places)",
        "t.yaml:4:88: limits[a].consistency: no effect with the memory store: every process \
         counts by itself; use a Redis store to share the counters, or remove the setting (also \
         in 2 other places)",
    ];
    assert_eq!(parse(&text).unwrap().warnings, expected);

    let redis = "store: { type: redis, endpoints: [\"redis://h\"] }";
    let shared = parse(&format!("{redis}{text}")).unwrap();
    assert!(shared.warnings.is_empty(), "{:?}", shared.warnings);
}

#[test]
fn settings_that_hold_in_memory_give_no_warning() {
    for config in [
        with_limit(""),
        with_limit("store: { type: memory, keys_max: 7 }"),
        with_limit("store: { snapshot: counters }"),
        with_limit("defaults: { expected_replicas: 1, consistency: strict }"),
        with_limit("defaults: { consistency: local, match_case: exact }"),
        one_limit(&format!("{LIMIT}, consistency: strict")),
        one_limit(&format!("{LIMIT}, consistency: local")),
    ] {
        let warnings = config.unwrap().warnings;
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn local_limits_are_not_saved() {
    let config = with_limit("store: { snapshot: counters }\ndefaults: { consistency: local }");
    assert_eq!(
        config.unwrap().warnings,
        [
            "t.yaml:2:26: defaults.consistency: the snapshot does not contain `local` limits, so \
             a restart resets them; `strict` is the same with the memory store, and is saved"
        ]
    );
}

#[test]
fn a_snapshot_has_a_file_and_an_interval() {
    let snapshot = |fields: &str| {
        let config = with_limit(&format!("store: {{ {fields} }}"));
        let StoreConfig::Memory { snapshot, .. } = config.unwrap().store else {
            panic!("not a memory store")
        };
        snapshot
    };
    let expected = |seconds| {
        Some(SnapshotConfig {
            file: "/var/lib/counters".into(),
            interval: Duration::from_secs(seconds),
        })
    };

    assert_eq!(snapshot("keys_max: 5"), None);
    assert_eq!(snapshot("snapshot: /var/lib/counters"), expected(10));
    assert_eq!(
        snapshot("snapshot: /var/lib/counters, snapshot_interval: 1m"),
        expected(60)
    );
}

#[test]
fn invalid_snapshots_are_errors() {
    let redis = "type: redis, endpoints: [\"redis://h\"]";
    for (fields, expected) in [
        ("snapshot: dir/", "invalid file \"dir/\": expected the path"),
        ("snapshot: \"\"", "expected the path of a file"),
        ("snapshot: [a]", "found a list; expected the path"),
        ("snapshot_interval: 5s", "requires `snapshot`"),
        ("snapshot: a, snapshot_interval: 1ms", "between 1s and 1h"),
        (
            &format!("{redis}, snapshot: a"),
            "`snapshot` is only for the memory store; Redis saves the counters itself",
        ),
        (
            &format!("{redis}, snapshot_interval: 5s"),
            "`snapshot_interval` is only for the memory store",
        ),
    ] {
        let error = with_limit(&format!("store: {{ {fields} }}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{fields}: {error}");
    }
}
