//! The limits and keys that a load checks: limits of every algorithm and failure policy, and keys
//! that can be identified by the replies.

use std::time::Duration;

use tollgate::{Calendar, FailurePolicy, Limit, Rate};

/// Number of keys. In a cluster with three primaries, each of them has some.
pub(crate) const KEYS: usize = 12;
/// Number of kinds of checks: one for each limit, and one for the ledger alone.
pub(crate) const KINDS: usize = 7;
/// The limit that every check also charges. It never denies, and its window does not end, so its
/// usage is the number of units that the store has charged.
pub(crate) const LEDGER: &str = "ledger";
/// The limit of the ledger, in units.
pub(crate) const LEDGER_LIMIT: u64 = 1 << 50;
/// Distance between the initial usages of two keys' ledgers. They are far apart, so that a reply
/// shows which key it is about.
const BASE_STEP: u64 = 1 << 30;

pub(crate) const LIMITS: [&str; KINDS - 1] =
    ["bucket", "leaky", "sliding", "log", "calendar", "flight"];

/// One kind of check of one key. All checks of a key have the same cost, so the order of two checks
/// at the same time does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The limit that is checked together with the ledger.
    pub(crate) limit: Option<&'static str>,
    pub(crate) key_number: usize,
    pub(crate) key: String,
    pub(crate) cost: u64,
}

/// All limits under load. Each allows about half of the checks of a load, so that there are always
/// both verdicts.
pub(crate) fn limits() -> [Limit; KINDS] {
    use FailurePolicy::{Allow, Deny, Local};
    let rate = Rate::per_second(8);
    [
        Limit::token_bucket(LIMITS[0], 3, rate).on_store_failure(Deny),
        Limit::leaky_bucket(LIMITS[1], 3, rate).on_store_failure(Local),
        Limit::sliding_window(LIMITS[2], 4, Duration::from_millis(500)).on_store_failure(Local),
        Limit::sliding_log(LIMITS[3], 3, Duration::from_millis(400)).on_store_failure(Deny),
        Limit::calendar_window(LIMITS[4], 8, Calendar::Second).on_store_failure(Allow),
        // Permits are never released, so each is held for its permit timeout.
        Limit::concurrency(LIMITS[5], 3, Duration::from_millis(400)).on_store_failure(Deny),
        Limit::fixed_window(LEDGER, LEDGER_LIMIT, Duration::from_secs(86_400))
            .on_store_failure(Allow),
    ]
}

/// All kinds of checks of all keys.
pub(crate) fn subjects() -> Vec<Subject> {
    let of_key = |key_number: usize| {
        let limits = LIMITS.into_iter().map(Some).chain([None]);
        limits.map(move |limit| {
            let cost = if key_number.is_multiple_of(4) { 2 } else { 1 };
            Subject {
                limit,
                key_number,
                key: key(key_number),
                cost,
            }
        })
    };
    (0..KEYS).flat_map(of_key).collect()
}

/// The index of the subject that a caller checks in a step. In each step the callers check
/// different keys, and over time each caller checks all subjects.
pub(crate) fn subject_index(caller: usize, step: usize) -> usize {
    let key_number = (caller + step) % KEYS;
    let kind = (step + step / KEYS) % KINDS;
    key_number * KINDS + kind
}

pub(crate) fn key(number: usize) -> String {
    format!("key-{number}")
}

/// The initial usage of a key's ledger.
pub(crate) fn base(key_number: usize) -> u64 {
    BASE_STEP * (key_number as u64 + 1)
}

/// The key whose ledger has this usage.
pub(crate) fn owner(used: u64) -> Option<usize> {
    usize::try_from(used / BASE_STEP).ok()?.checked_sub(1)
}

#[test]
fn callers_check_different_keys_and_all_subjects() {
    for caller in 0..KEYS {
        let mut indexes: Vec<usize> = (0..KEYS * KINDS)
            .map(|step| subject_index(caller, step))
            .collect();
        indexes.sort_unstable();
        assert!(
            indexes.into_iter().eq(0..KEYS * KINDS),
            "caller {caller} checks all subjects"
        );
    }
    let mut keys: Vec<usize> = (0..KEYS)
        .map(|caller| subject_index(caller, 1_000) / KINDS)
        .collect();
    keys.sort_unstable();

    assert!(
        keys.into_iter().eq(0..KEYS),
        "no two callers check the same key at the same time"
    );
}

#[test]
fn the_usage_of_a_ledger_identifies_its_key() {
    for key_number in 0..KEYS {
        assert_eq!(owner(base(key_number)), Some(key_number));
        assert_eq!(owner(base(key_number) + 1_000_000_000), Some(key_number));
    }
    assert_eq!(
        owner(1_000_000_000),
        None,
        "a ledger that was lost has no owner"
    );
}
