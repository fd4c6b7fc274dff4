//! What is asked about: limits of every kind and policy, for keys that can be told apart by their
//! answers.

use std::time::Duration;

use tollgate::{Calendar, FailurePolicy, Limit, Rate};

/// How many keys there are. In a cluster of three they are on all primaries.
pub(crate) const KEYS: usize = 12;
/// How many kinds of question there are: one for each limit, and one for the ledger alone.
pub(crate) const KINDS: usize = 7;
/// The limit that every request is also charged to. It never refuses and its window does not end,
/// so that what it has used is what the store charged.
pub(crate) const LEDGER: &str = "ledger";
/// What the ledger holds.
pub(crate) const LEDGER_LIMIT: u64 = 1 << 50;
/// What the ledger of each key begins with, times its number: far apart, so that an answer shows
/// whose it is.
const APART: u64 = 1 << 30;

pub(crate) const LIMITS: [&str; KINDS - 1] =
    ["bucket", "leaky", "sliding", "log", "calendar", "flight"];

/// One kind of question about one key. A key always pays the same, so that of two questions at the
/// same moment it does not matter which one came first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Beside the ledger.
    pub(crate) limit: Option<&'static str>,
    pub(crate) key_number: usize,
    pub(crate) key: String,
    pub(crate) cost: u64,
}

/// Every limit under load. Each lets through about half of what a load asks, so that both answers
/// are always at hand.
pub(crate) fn limits() -> [Limit; KINDS] {
    use FailurePolicy::{Allow, Deny, Local};
    let rate = Rate::per_second(8);
    [
        Limit::token_bucket(LIMITS[0], 3, rate).on_store_failure(Deny),
        Limit::leaky_bucket(LIMITS[1], 3, rate).on_store_failure(Local),
        Limit::sliding_window(LIMITS[2], 4, Duration::from_millis(500)).on_store_failure(Local),
        Limit::sliding_log(LIMITS[3], 3, Duration::from_millis(400)).on_store_failure(Deny),
        Limit::calendar_window(LIMITS[4], 8, Calendar::Second).on_store_failure(Allow),
        // Nothing is released, so that each place is taken for the length of a lease.
        Limit::concurrency(LIMITS[5], 3, Duration::from_millis(400)).on_store_failure(Deny),
        Limit::fixed_window(LEDGER, LEDGER_LIMIT, Duration::from_secs(86_400))
            .on_store_failure(Allow),
    ]
}

/// Every kind of question about every key.
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

/// The place among the subjects that a caller asks about next. At any time the callers ask about
/// different keys, and each comes to all kinds of all keys.
pub(crate) fn turn(caller: usize, step: usize) -> usize {
    let key_number = (caller + step) % KEYS;
    let kind = (step + step / KEYS) % KINDS;
    key_number * KINDS + kind
}

pub(crate) fn key(number: usize) -> String {
    format!("key-{number}")
}

/// What the ledger of a key begins with.
pub(crate) fn base(key_number: usize) -> u64 {
    APART * (key_number as u64 + 1)
}

/// Whose ledger has used so much.
pub(crate) fn owner(used: u64) -> Option<usize> {
    usize::try_from(used / APART).ok()?.checked_sub(1)
}

#[test]
fn callers_ask_about_different_keys_and_come_to_all_subjects() {
    for caller in 0..KEYS {
        let mut places: Vec<usize> = (0..KEYS * KINDS).map(|step| turn(caller, step)).collect();
        places.sort_unstable();
        assert!(
            places.into_iter().eq(0..KEYS * KINDS),
            "caller {caller} leaves none out"
        );
    }
    let mut keys: Vec<usize> = (0..KEYS)
        .map(|caller| turn(caller, 1_000) / KINDS)
        .collect();
    keys.sort_unstable();
    assert!(
        keys.into_iter().eq(0..KEYS),
        "no two ask about the same key at the same time"
    );
}

#[test]
fn a_ledger_shows_whose_it_is_however_much_is_charged_to_it() {
    for key_number in 0..KEYS {
        assert_eq!(owner(base(key_number)), Some(key_number));
        assert_eq!(owner(base(key_number) + 1_000_000_000), Some(key_number));
    }
    assert_eq!(
        owner(1_000_000_000),
        None,
        "one that was forgotten is nobody's"
    );
}
