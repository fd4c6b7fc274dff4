//! How many units to lease, how long to keep them and how long to cache a denial.

use crate::algorithm::Quota;
use crate::time::Micros;

/// A batch covers the expected demand of a key for this long.
pub(super) const BATCH_HORIZON: Micros = Micros::from_millis(50);
/// Leased units that were not used for this long are returned.
pub(super) const IDLE_AFTER: Micros = Micros::from_millis(100);
/// The longest time an instance spends a lease, by its own clock. The store counts the units as
/// lent for at least a second, so the instance stops in time even if its clock runs a tenth too
/// slow.
pub(super) const LEASE_LIFE: Micros = Micros::from_millis(900);
/// Units spent locally under eventual consistency are reported to the store after this long.
pub(super) const REPORT_AFTER: Micros = Micros::from_millis(50);
/// How often the store should call [`LeaseTable::sweep`](super::LeaseTable::sweep).
pub const SWEEP_EVERY: Micros = Micros::from_millis(25);
/// An entry that holds no units and no valid denial is removed after this long without use.
pub(super) const REMOVE_AFTER: Micros = Micros::from_secs(1);

/// The shortest time for which a denial is cached. Units that refill at the store meanwhile are
/// leased by the next call, so nothing is lost, and a key under attack causes few store calls.
const DENY_CACHE_MIN: Micros = Micros::from_millis(25);
/// The longest time for which a denial is cached. Within this time an instance notices a reset, a
/// refund or a raised limit elsewhere.
pub const DENY_CACHE_MAX: Micros = Micros::from_millis(500);

/// The smallest batch. A key that needs fewer units per [`BATCH_HORIZON`] is decided by the store,
/// request by request.
const BATCH_MIN: u64 = 4;
/// The most units held of one key.
const UNITS_MAX: u64 = 1 << 20;
/// The most counters with an entry.
pub(super) const KEYS_MAX: usize = 65_536;

/// The realistic time until `units` are available, which the store expects after `retry_after`. A
/// large part of a limit can be leased by other instances, which return it only once it is idle.
pub(super) fn realistic_retry(quota: &Quota, units: u64, retry_after: Micros) -> Micros {
    if units > quota.limit() / 2 {
        retry_after.max(IDLE_AFTER.after(SWEEP_EVERY).after(SWEEP_EVERY))
    } else {
        retry_after
    }
}

/// How long to cache a denial that ends after `retry_after`.
pub(super) fn deny_cache_time(quota: &Quota, retry_after: Micros) -> Micros {
    retry_after.clamp(deny_cache_min(quota), DENY_CACHE_MAX)
}

/// The shortest time for which to cache a denial; never so long that a good part of the limit would
/// refill unused.
fn deny_cache_min(quota: &Quota) -> Micros {
    let part = quota
        .window()
        .map_or(DENY_CACHE_MIN, |window| Micros::new(window.get() / 40));
    DENY_CACHE_MIN.min(part)
}

/// How many units an instance may have allowed without reporting them to the store yet, where
/// `replicas` share a limit. All replicas together stay within a tenth of the limit.
pub fn quantum(limit: u64, replicas: u32) -> u64 {
    (limit / (10 * u64::from(replicas))).clamp(1, UNITS_MAX)
}

/// Measures how many units of a key are demanded per [`BATCH_HORIZON`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DemandRate {
    /// Units demanded in the current period.
    current: u64,
    /// When the current period began.
    since: Micros,
    /// Units demanded per [`BATCH_HORIZON`] in the previous period.
    previous: u64,
}

impl DemandRate {
    #[inline]
    pub(super) fn record(&mut self, units: u64, now: Micros) {
        let elapsed = now.since(self.since);
        if elapsed >= BATCH_HORIZON {
            self.start_period(now, elapsed);
        }
        self.current = self.current.saturating_add(units);
    }

    #[cold]
    fn start_period(&mut self, now: Micros, elapsed: Micros) {
        self.previous = self.current.saturating_mul(BATCH_HORIZON.get()) / elapsed.get();
        (self.current, self.since) = (0, now);
    }

    /// How many units to lease.
    ///
    /// This is the demand of one [`BATCH_HORIZON`], but at most a quarter of the limit, so that no
    /// instance holds all of it. `spent` units of the recorded demand need no lease any more. A
    /// window that ends sooner than the horizon, in `window_left`, needs less.
    pub(super) fn batch_size(&self, limit: u64, spent: u64, window_left: Micros) -> u64 {
        let needed = self.previous.max(self.current.saturating_sub(spent));
        let part = u128::from(window_left.min(BATCH_HORIZON).get());
        let needed = u128::from(needed) * part / u128::from(BATCH_HORIZON.get());

        let batch = u64::try_from(needed)
            .unwrap_or(u64::MAX)
            .min(limit / 4)
            .min(UNITS_MAX);
        if batch < BATCH_MIN { 0 } else { batch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Rate, TokenBucket};
    use std::time::Duration;

    fn bucket(capacity: u64, per_second: u64) -> Quota {
        TokenBucket::new(capacity, Rate::new(per_second, Duration::from_secs(1)))
            .unwrap()
            .into()
    }

    #[test]
    fn a_batch_follows_the_demand_rate() {
        let mut rate = DemandRate::default();
        let at = |millis: u64| Micros::from_millis(1_000_000 + millis);

        // 2,500 units per second.
        (0..1_000u64).for_each(|hit| rate.record(1, Micros::new(at(0).get() + hit * 400)));
        let batch = rate.batch_size(20_000, 0, Micros::MAX);
        assert!((120..=130).contains(&batch), "{batch}");
        assert_eq!(
            rate.batch_size(100, 0, Micros::MAX),
            25,
            "a quarter of the limit at most"
        );
        assert_eq!(
            rate.batch_size(20_000, 0, Micros::from_millis(5)),
            batch / 10,
            "no more than the window needs"
        );

        // Then one unit per second.
        rate.record(1, at(3_000));
        rate.record(1, at(4_000));
        assert_eq!(
            rate.batch_size(20_000, 0, Micros::MAX),
            0,
            "a key with little demand is decided request by request"
        );
    }

    #[test]
    fn a_new_key_leases_nothing() {
        let mut rate = DemandRate::default();
        rate.record(1, Micros::from_secs(1));
        assert_eq!(rate.batch_size(1_000, 1, Micros::MAX), 0);
        rate.record(7, Micros::from_secs(1));
        assert_eq!(
            rate.batch_size(1_000, 1, Micros::MAX),
            7,
            "as many units as were demanded"
        );
    }

    #[test]
    fn a_denial_is_cached_for_tens_of_milliseconds() {
        let cached = |quota, retry_after| deny_cache_time(&quota, Micros::new(retry_after));

        assert_eq!(cached(bucket(1_000, 1_000), 1_000), Micros::from_millis(25));
        assert_eq!(
            cached(bucket(10, 1), 300_000),
            Micros::from_millis(300),
            "until the denial ends"
        );
        assert_eq!(
            cached(bucket(10, 1), 3_000_000),
            Micros::from_millis(500),
            "no longer than the maximum"
        );
        assert_eq!(
            cached(bucket(100, 10_000), 100),
            Micros::new(250),
            "a fortieth of the time that fills the bucket"
        );
    }

    #[test]
    fn a_quantum_is_a_tenth_of_the_share() {
        assert_eq!(
            (quantum(1_000, 4), quantum(10, 4), quantum(1 << 53, 1)),
            (25, 1, 1 << 20)
        );
    }
}
