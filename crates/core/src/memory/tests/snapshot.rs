//! Snapshots: what is restored, at which time, and what is rejected.

use std::io;
use std::time::Duration;

use super::{remaining, rule, spend, store};
use crate::algorithm::{PermitId, Rate};
use crate::clock::{Clock as _, ManualClock};
use crate::demand::DemandBuf;
use crate::limit::{Limit, Rule};
use crate::memory::{MemoryStore, SnapshotError};
use crate::store::{Store as _, StoreFuture};
use crate::time::Micros;

/// One limit of each kind of state, 10 units each. All of them are free again after two minutes.
fn rules() -> [Rule; 6] {
    [
        Limit::fixed_window("fixed", 10, Duration::from_secs(60)),
        Limit::sliding_window("sliding", 10, Duration::from_secs(60)),
        Limit::sliding_log("log", 10, Duration::from_secs(60)),
        Limit::token_bucket("bucket", 10, Rate::per_minute(7)),
        Limit::queue("queue", 10, Rate::per_minute(7)),
        Limit::concurrency("flight", 10, Duration::from_secs(60)),
    ]
    .map(|limit| rule(&limit))
}

fn all_remaining(store: &MemoryStore) -> [u64; 6] {
    rules().map(|rule| remaining(store, &rule, "ann"))
}

/// A store that has spent 5 units of each limit.
fn used_store() -> (MemoryStore, ManualClock) {
    let (store, clock) = store(1_000);
    for rule in &rules() {
        spend(&store, rule, "ann", 2);
        clock.advance(Duration::from_millis(300));
        spend(&store, rule, "ann", 3);
    }
    (store, clock)
}

fn restore(snapshot: &[u8], clock: &ManualClock) -> MemoryStore {
    let builder = MemoryStore::builder().clock(clock.clone());
    builder.restore(snapshot).unwrap()
}

/// Saves every kind of state, restores it in another store and compares the outcomes.
#[test]
fn a_snapshot_restores_every_kind_of_state() {
    let (store, clock) = used_store();
    let restored = restore(&store.snapshot(), &clock);

    assert_eq!(all_remaining(&store), all_remaining(&restored));
    assert_eq!(all_remaining(&restored), [5, 5, 5, 5, 5, 5]);

    let demand = DemandBuf::new(&rules()[5], "ann", 1).unwrap();
    assert!(matches!(
        restored.release(&demand.as_demand(), PermitId::new(1)),
        StoreFuture::Ready(Some(Ok(true)))
    ));
}

#[test]
fn the_time_between_saving_and_restoring_counts_as_elapsed() {
    let (store, clock) = used_store();
    let snapshot = store.snapshot();

    for pause_ms in [1, 700, 9_000, 45_000, 58_400, 61_000, 3_600_000] {
        clock.advance(Duration::from_millis(pause_ms));
        let restored = restore(&snapshot, &clock);
        assert_eq!(
            all_remaining(&store),
            all_remaining(&restored),
            "after {pause_ms} ms more"
        );
    }
    assert_eq!(all_remaining(&store), [10; 6]);
}

/// The wall clock may be set back while the process is down.
#[test]
fn an_earlier_clock_neither_refills_nor_locks_out() {
    let (store, clock) = used_store();
    let (before, snapshot) = (all_remaining(&store), store.snapshot());

    for back_s in [1, 2, 30, 59, 61, 3_600, 900_000] {
        let earlier = ManualClock::new(clock.now().since(Micros::from_secs(back_s)));
        let restored = restore(&snapshot, &earlier);
        let now = all_remaining(&restored);
        assert!(
            now.iter().zip(&before).all(|(now, before)| now <= before),
            "refilled {back_s} s earlier: {now:?}"
        );

        // What was used is given back as if it had been used now, at the latest.
        earlier.advance(Duration::from_secs(121 + back_s.min(60)));
        let freed = all_remaining(&restored);
        assert_eq!(freed, [10; 6], "locked out {back_s} s earlier");
    }
}

/// Counters come in the order of their homes. In a table that grows with them, each would be
/// searched for behind all others: four million took 21 seconds.
#[test]
fn restoring_reserves_room_for_all_counters() {
    let (store, clock) = store(1_000);
    for key in 0..900 {
        spend(&store, &rules()[0], &format!("key:{key}"), 1);
    }
    let snapshot = store.snapshot();

    let builder = || MemoryStore::builder().keys_max(1_000).clock(clock.clone());
    let restored = builder().restore(&snapshot).unwrap();
    let reserved = builder().build();
    reserved.counters().make_space(snapshot.len() / 40);
    assert_eq!(restored.keys(), 900);
    assert_eq!(restored.table_bytes(), reserved.table_bytes());
    assert!(restored.table_bytes() < 900 * 100);
}

#[test]
fn a_snapshot_that_cannot_be_written_is_an_error() {
    struct FullDisk(usize);

    impl io::Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let (store, _) = used_store();
    let length = store.snapshot().len();
    let write = |room| store.write_snapshot(&mut FullDisk(room)).is_ok();
    assert_eq!(
        (write(length), write(length - 1), write(0)),
        (true, false, false)
    );
}

#[test]
fn restoring_leaves_out_expired_counters_and_respects_the_cap() {
    let (store, clock) = store(1_000);
    let (short, long) = (
        rule(&Limit::fixed_window("short", 5, Duration::from_secs(1))),
        rule(&Limit::fixed_window("long", 5, Duration::from_secs(60))),
    );

    for key in 0..100 {
        spend(&store, &short, &format!("key:{key}"), 1);
        spend(
            &store,
            &long,
            &format!("key:{key}"),
            1 + u64::from(key < 10) * 4,
        );
    }

    let snapshot = store.snapshot();
    clock.advance(Duration::from_secs(2));
    let restored = restore(&snapshot, &clock);
    assert_eq!(restored.keys(), 100);

    let smaller = MemoryStore::builder()
        .keys_max(20)
        .clock(clock)
        .restore(&snapshot)
        .unwrap();
    assert!(smaller.keys() <= 20);
    for key in 0..10 {
        assert_eq!(
            remaining(&smaller, &long, &format!("key:{key}")),
            0,
            "an exhausted key was not restored"
        );
    }
}

#[test]
fn damaged_and_foreign_snapshots_are_rejected() {
    let (store, _) = store(100);
    let log = rule(&Limit::sliding_log("log", 50, Duration::from_secs(60)));
    spend(&store, &log, "ann", 1);
    let snapshot = store.snapshot();

    let error = |bytes: &[u8]| MemoryStore::restore(bytes).unwrap_err();
    assert_eq!(error(b""), SnapshotError::NotASnapshot);
    assert_eq!(error(&[0; 200]), SnapshotError::NotASnapshot);

    for cut in 48..snapshot.len() {
        assert_eq!(
            error(&snapshot[..cut]),
            SnapshotError::Damaged,
            "cut to {cut} bytes"
        );
    }

    for (at, _) in snapshot.iter().enumerate().skip(16) {
        let mut changed = snapshot.clone();
        changed[at] ^= 1;
        assert_eq!(error(&changed), SnapshotError::Damaged, "byte {at} changed");
    }

    let mut newer = snapshot.clone();
    newer[8] = 9;
    assert_eq!(
        error(&newer),
        SnapshotError::UnsupportedVersion { found: 9 }
    );
}
