//! Keys that have used most of a limit with a long window, each reported once per window.
//!
//! Decisions report a key here only when most of its limit is used, and only if that alert is
//! configured. What is remembered of reported keys is bounded: with more of them in one window, the
//! further ones are counted and not reported.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ahash::RandomState;
use parking_lot::Mutex;
use tollgate::{EncodedKey, FailurePolicy, LimitOutcome, Micros};

use super::limit::LimitMetrics;

/// Shards of the table, each with its own lock; a key always goes to the same shard.
const SHARDS: usize = 16;
/// The most reported keys in a shard.
const KEYS_MAX: usize = 640;
/// The most reports that wait to be taken.
const REPORTS_MAX: usize = 1_024;
/// A full shard is searched for expired keys at most this often.
const SWEEP_EVERY: Micros = Micros::from_secs(1);

/// How much of a limit is used, in percent, when a key is reported.
pub const USAGE_PERCENTS: [u8; 2] = [80, 100];

/// Keys that have used most of a limit.
#[derive(Debug, Default)]
pub struct UsageWatch {
    hashes: RandomState,
    shards: [Mutex<UsageShard>; SHARDS],
    reports: Mutex<VecDeque<UsageReport>>,
    /// Keys that were not reported, because there were too many.
    suppressed: AtomicU64,
}

/// A key that has used most of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageReport {
    /// The id of the limit.
    pub limit: u32,
    /// The key.
    pub key: EncodedKey,
    /// One of [`USAGE_PERCENTS`].
    pub percent: u8,
}

/// Reports keys that have used most of a limit.
#[derive(Clone, Debug)]
pub(crate) struct UsageAlert {
    watch: Arc<UsageWatch>,
    /// Of limits with at least this window.
    window_min: Duration,
}

impl UsageAlert {
    /// None if keys are not reported.
    pub(crate) fn new(window_min: Option<Duration>, watch: &Arc<UsageWatch>) -> Option<Self> {
        let watch = watch.clone();
        window_min.map(|window_min| Self { watch, window_min })
    }

    /// Reports a key if it has used most of a configured limit with a long window.
    pub(crate) fn record(
        &self,
        limit: &LimitMetrics,
        key: &EncodedKey,
        outcome: &LimitOutcome,
        now: Micros,
    ) {
        let window = outcome.window().filter(|window| *window >= self.window_min);
        let (Some(window), true) = (window, limit.is_configured() && is_measured(outcome)) else {
            return;
        };
        let is_denied = outcome.retry().is_some();
        let Some(percent) = used_percent(outcome.limit(), outcome.remaining(), is_denied) else {
            return;
        };

        // A fixed window ends when it resets; the others have no end, only a length.
        let window = Micros::from_duration_ceil(window).unwrap_or(Micros::MAX);
        let until = now.after(outcome.outcome().reset_after.min(window));
        self.watch.record(limit.id(), key, percent, now, until);
    }
}

/// Whether an outcome tells what the key has used. A block, an exemption and a failure policy that
/// does not count tell nothing.
fn is_measured(outcome: &LimitOutcome) -> bool {
    let is_asked = outcome.is_counted() && !outcome.is_blocked();
    let fallback = outcome.fallback();
    is_asked && fallback.is_none_or(|policy| policy == FailurePolicy::Local)
}

/// The highest of [`USAGE_PERCENTS`] that is reached; none if too little is used.
fn used_percent(limit: u64, remaining: u64, is_denied: bool) -> Option<u8> {
    let [most, all] = USAGE_PERCENTS;
    if is_denied || remaining == 0 {
        return Some(all);
    }
    let used = u128::from(limit.saturating_sub(remaining));
    (used * 100 >= u128::from(limit) * u128::from(most)).then_some(most)
}

#[derive(Debug, Default)]
struct UsageShard {
    /// By limit and key: what was reported, and the end of the window.
    reported: HashMap<(u32, EncodedKey), (u8, Micros), RandomState>,
    swept_at: Micros,
}

impl UsageWatch {
    /// Reports a key, unless that was done in the same window, which ends at `until`.
    fn record(&self, limit: u32, key: &EncodedKey, percent: u8, now: Micros, until: Micros) {
        let id = (limit, key.clone());
        let shard = usize::try_from(self.hashes.hash_one(&id) >> 32).unwrap_or(0) % SHARDS;
        let is_new = self.shards[shard].lock().add(id, percent, now, until);

        let mut reports = self.reports.lock();
        match is_new {
            Some(false) => {}
            Some(true) if reports.len() < REPORTS_MAX => reports.push_back(UsageReport {
                limit,
                key: key.clone(),
                percent,
            }),
            Some(true) | None => {
                self.suppressed.fetch_add(1, Relaxed);
            }
        }
    }

    /// Takes the reports since the last time.
    pub fn take(&self) -> Vec<UsageReport> {
        self.reports.lock().drain(..).collect()
    }

    /// How many reports were dropped, because there were too many.
    pub fn suppressed(&self) -> u64 {
        self.suppressed.load(Relaxed)
    }
}

impl UsageShard {
    /// Remembers a key. Returns whether it is to be reported; none if there is no room for it.
    fn add(
        &mut self,
        id: (u32, EncodedKey),
        percent: u8,
        now: Micros,
        until: Micros,
    ) -> Option<bool> {
        if let Some((reported, window_end)) = self.reported.get_mut(&id) {
            if *window_end > now {
                let is_more = percent > *reported;
                *reported = percent.max(*reported);
                return Some(is_more);
            }
            (*reported, *window_end) = (percent, until);
            return Some(true);
        }

        if self.reported.len() >= KEYS_MAX && now.since(self.swept_at) >= SWEEP_EVERY {
            self.swept_at = now;
            self.reported.retain(|_, (_, window_end)| *window_end > now);
        }
        if self.reported.len() >= KEYS_MAX {
            return None;
        }
        self.reported.insert(id, (percent, until));
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Micros = Micros::from_secs(1_000);
    const HOUR: Micros = Micros::from_secs(3_600);

    fn key(name: &str) -> EncodedKey {
        EncodedKey::new(name).expect("a key")
    }

    fn percents(watch: &UsageWatch) -> Vec<u8> {
        watch.take().iter().map(|report| report.percent).collect()
    }

    #[test]
    fn a_key_is_reported_once_per_level_and_window() {
        let (watch, ann) = (UsageWatch::default(), key("ann"));
        let end = START.after(HOUR);
        for (percent, expected) in [(80, vec![80]), (80, vec![]), (100, vec![100]), (80, vec![])] {
            watch.record(1, &ann, percent, START, end);
            assert_eq!(percents(&watch), expected);
        }
        watch.record(2, &ann, 80, START, end);
        watch.record(1, &key("bob"), 100, START, end);
        assert_eq!(percents(&watch), [80, 100], "another limit, another key");

        watch.record(1, &ann, 80, end, end.after(HOUR));
        assert_eq!(percents(&watch), [80], "the next window");
    }

    #[test]
    fn memory_is_bounded_and_room_is_made_by_expired_keys() {
        let watch = UsageWatch::default();
        let end = START.after(HOUR);
        let keys = 2 * SHARDS * KEYS_MAX;
        for index in 0..keys {
            watch.record(1, &key(&format!("{index}")), 80, START, end);
            watch.take();
        }
        let known: usize = watch
            .shards
            .iter()
            .map(|shard| shard.lock().reported.len())
            .sum();
        assert_eq!(known, SHARDS * KEYS_MAX);
        assert_eq!(watch.suppressed(), keys as u64 - known as u64);

        for index in 0..REPORTS_MAX + 5 {
            watch.record(1, &key(&format!("late {index}")), 80, end, end.after(HOUR));
        }
        assert_eq!(watch.take().len(), REPORTS_MAX);
        assert_eq!(watch.suppressed(), keys as u64 - known as u64 + 5);
    }

    #[test]
    fn most_of_a_limit_is_four_fifths() {
        let percent = used_percent;
        assert_eq!(percent(100, 21, false), None);
        assert_eq!(percent(100, 20, false), Some(80));
        assert_eq!(percent(100, 0, false), Some(100));
        assert_eq!(
            percent(100, 3, true),
            Some(100),
            "a request that no longer fits"
        );
        assert_eq!(percent(u64::MAX, u64::MAX, false), None);
        assert_eq!(percent(10, 50, false), None, "a limit that was lowered");
    }
}
