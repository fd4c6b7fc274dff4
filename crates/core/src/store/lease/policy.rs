//! How many units to lease, how long to keep them and how long to cache a denial.
//!
//! A store lends by what is left: while it has plenty, each instance that calls gets up to an equal
//! share of it for seconds ([`LeaseTerms::long`]). When little is left, an instance gets only what
//! it will spend immediately, for a fraction of a second ([`LeaseTerms::brief`]). When nothing is
//! left, the instances take turns ([`LeaseTerms::turn`]) to call again.

use crate::algorithm::Quota;
use crate::time::Micros;

/// The period over which the current rate of a key is measured.
const RATE_PERIOD: Micros = Micros::from_millis(50);
/// Leased units are returned after this time without use, at the earliest.
const IDLE_AFTER_MIN: Micros = Micros::from_millis(100);
/// Leased units are returned after a pause of this many times the mean time between two units.
const IDLE_GAPS: u64 = 8;
/// Units spent locally under eventual consistency are reported to the store after this long.
pub(super) const REPORT_AFTER: Micros = Micros::from_millis(50);
/// How often the store should call [`LeaseTable::sweep`](super::LeaseTable::sweep).
pub const SWEEP_EVERY: Micros = Micros::from_millis(25);
/// How often an entry is examined that may be removed, or whose key may have become idle sooner
/// than expected.
pub(super) const REVIEW_EVERY: Micros = Micros::from_secs(1);

/// The shortest time for which a denial is cached. Units that refill at the store meanwhile are
/// leased by the next call, so nothing is lost, and a key under attack causes few store calls.
const DENY_CACHE_MIN: Micros = Micros::from_millis(25);
/// The longest time for which an instance that calls alone caches a denial.
const DENY_CACHE_MAX: Micros = Micros::from_millis(500);
/// The longest time until the turn of an instance. Within this time every instance notices a reset,
/// a refund or a raised limit elsewhere.
pub const TURN_MAX: Micros = Micros::from_secs(5);

/// A burst of fewer units than this within [`RATE_PERIOD`] says nothing about the rate of a key.
const BURST_MIN: u64 = 4;
/// The most units that an instance leases in advance. It leases more only if it spends them within
/// [`LeaseTerms::brief`].
const WANTED_MAX: u64 = 50;
/// The most units held of one key.
const UNITS_MAX: u64 = 1 << 20;
/// The most counters with an entry.
pub(super) const KEYS_MAX: usize = 65_536;

/// The times by which a store lends the units of a quota. They are parts of the time that the
/// quota takes to refill, so that a lease never outlives its usefulness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerms {
    /// The length of a lease while plenty is left: at most a third of the window, between 2 and
    /// 16 s.
    pub long: Micros,
    /// The length of a lease when little is left: at most a quarter of the window, between 62.5 ms
    /// and 1 s.
    pub brief: Micros,
    /// The time between the turns of two instances when nothing is left: until a hundredth of the
    /// limit is refilled, but at least half a unit. An instance may miss its turn for want of
    /// requests.
    pub turn: Micros,
}

impl LeaseTerms {
    /// The longest possible lease.
    pub const LONG_MAX: Micros = Micros::from_secs(16);
    /// What the store adds to the length of a lease before it writes the lease off, in case its
    /// clock jumps ahead.
    pub const MARGIN: Micros = Micros::from_millis(100);

    /// The times for a quota.
    pub fn for_quota(quota: &Quota) -> Self {
        let window = quota.window().map_or(0, Micros::get);
        let limit = quota.limit().max(1);
        let turn_min = (window / 40).min(20_000);
        let turn = u128::from(window) * u128::from((limit / 50).max(1)) / u128::from(limit) / 2;

        Self {
            long: halved(Self::LONG_MAX, window / 3, Micros::from_secs(2)),
            brief: halved(Micros::from_secs(1), window / 4, Micros::new(62_500)),
            turn: Micros::new(
                u64::try_from(turn)
                    .unwrap_or(u64::MAX)
                    .clamp(turn_min, TURN_MAX.get()),
            ),
        }
    }
}

/// The longest length of at most `most` microseconds that halving `longest` gives, and at least
/// `shortest`. So few lengths exist that a store can group leases by their length.
fn halved(longest: Micros, most: u64, shortest: Micros) -> Micros {
    let mut length = longest.get();
    while length > most && length > shortest.get() {
        length /= 2;
    }
    Micros::new(length)
}

/// How long an instance spends a lease of this length, by its own clock. It stops in time even if
/// its clock runs a tenth too slow.
pub(super) const fn lease_life(length: Micros) -> Micros {
    Micros::new(length.get() - length.get().div_ceil(10))
}

/// The length of a lease in a window that ends in `left`: at most a third of that time, so that unused
/// units are returned while others can still use them.
pub(super) fn window_lease(length: Micros, left: Micros) -> Micros {
    length.min(Micros::new(left.get() / 3))
}

/// The realistic time until `units` are available, which the store expects after `retry_after`. A
/// large part of a limit can be leased by other instances, which return it only once it is idle.
pub(super) fn realistic_retry(quota: &Quota, units: u64, retry_after: Micros) -> Micros {
    if units > quota.limit() / 2 {
        retry_after.max(IDLE_AFTER_MIN.after(SWEEP_EVERY).after(SWEEP_EVERY))
    } else {
        retry_after
    }
}

/// How long to cache a denial that ends after `retry_after`, if the turn of this instance comes
/// after `turn_after`.
///
/// A fixed window has all of its units again when it ends, so no instance waits beyond that.
/// Otherwise the units come one by one, and until its turn they are for other instances.
pub(super) fn deny_cache_time(quota: &Quota, retry_after: Micros, turn_after: Micros) -> Micros {
    let alone = retry_after.clamp(deny_cache_min(quota), DENY_CACHE_MAX);
    let wait = alone.max(turn_after);
    match quota {
        Quota::FixedWindow(_) => wait.min(retry_after.max(alone)),
        _ => wait,
    }
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

/// The units that an instance asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchSize {
    /// What it will spend soon, and gets even if little is left.
    pub(super) needed: u64,
    /// What it gets while plenty is left; at least `needed`.
    pub(super) wanted: u64,
}

impl BatchSize {
    /// Needs at least this many units, for requests that wait.
    pub(super) fn at_least(self, units: u64) -> Self {
        Self {
            needed: self.needed.max(units),
            wanted: self.wanted.max(units),
        }
    }

    /// Asks for no more than this many units, a part of the limit that one instance may hold.
    pub(super) fn at_most(self, units: u64) -> Self {
        let most = units.min(UNITS_MAX);
        Self {
            needed: self.needed.min(most),
            wanted: self.wanted.min(most),
        }
    }
}

/// Measures the demand for the units of a key: the current rate, and the demand during the life of
/// a long lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandMeter {
    /// Units demanded in the current [`RATE_PERIOD`].
    current: u64,
    /// When the current [`RATE_PERIOD`] began.
    since: Micros,
    /// Units per second in the previous [`RATE_PERIOD`].
    rate: u64,
    /// Units demanded in the current life, without those of the current [`RATE_PERIOD`].
    life_current: u64,
    /// When the current life began.
    life_since: Micros,
    /// Units demanded in the previous life.
    life_previous: u64,
}

impl DemandMeter {
    pub(super) const fn new(now: Micros) -> Self {
        Self {
            current: 0,
            since: now,
            rate: 0,
            life_current: 0,
            life_since: now,
            life_previous: 0,
        }
    }

    /// Records a demand. `terms` are always the same.
    #[inline]
    pub(super) fn record(&mut self, units: u64, terms: &LeaseTerms, now: Micros) {
        let elapsed = now.since(self.since);
        if elapsed >= RATE_PERIOD {
            self.start_period(elapsed, lease_life(terms.long), now);
        }
        self.current = self.current.saturating_add(units);
    }

    #[cold]
    fn start_period(&mut self, elapsed: Micros, life: Micros, now: Micros) {
        self.rate = self.current.saturating_mul(1_000_000) / elapsed.get();
        self.life_current = self.life_current.saturating_add(self.current);
        (self.current, self.since) = (0, now);

        let elapsed = now.since(self.life_since);
        if elapsed >= life {
            self.life_previous = scaled(self.life_current, life, elapsed);
            (self.life_current, self.life_since) = (0, now);
        }
    }

    /// How many units to lease.
    ///
    /// Needed is the demand of half a brief lease. Wanted is twice the demand of a long lease,
    /// because demand fluctuates, and unused units are returned. `spent` units of the recorded
    /// demand need no lease any more. In a window that ends in `window_left`, leases are shorter,
    /// see [`window_lease`].
    pub(super) fn batch_size(
        &self,
        terms: &LeaseTerms,
        spent: u64,
        window_left: Micros,
    ) -> BatchSize {
        let brief = lease_life(window_lease(terms.brief, window_left));
        let soon = Micros::new(brief.get() / 2);
        let needed = scaled(self.rate_now(spent), soon, Micros::from_secs(1));

        let life = lease_life(terms.long);
        let part = lease_life(window_lease(terms.long, window_left));
        let expected = scaled(self.life_demand(spent), part, life);
        let wanted = expected.saturating_mul(2).min(WANTED_MAX).max(needed);
        BatchSize { needed, wanted }
    }

    /// The number of units below which the next batch is fetched while the rest is spent: what is
    /// demanded until it arrives, but at most a quarter of the `available` units. 0 if the next
    /// request can as well fetch it.
    pub(super) fn low_mark(&self, available: u64) -> u64 {
        let arriving = scaled(self.rate_now(0), RATE_PERIOD, Micros::from_secs(1));
        if arriving == 0 {
            0
        } else {
            arriving.min(available / 4) + 1
        }
    }

    /// How long the key must be idle until its units are returned.
    pub(super) fn idle_after(&self, terms: &LeaseTerms) -> Micros {
        let gap = lease_life(terms.long).get() / self.life_demand(0).max(1);
        Micros::new(gap * IDLE_GAPS).max(IDLE_AFTER_MIN)
    }

    /// Units per second, now.
    fn rate_now(&self, spent: u64) -> u64 {
        let burst = self.current.saturating_sub(spent);
        if burst >= BURST_MIN {
            let periods_per_second = 1_000_000 / RATE_PERIOD.get();
            self.rate.max(burst.saturating_mul(periods_per_second))
        } else {
            self.rate
        }
    }

    /// Units demanded during the life of a long lease.
    fn life_demand(&self, spent: u64) -> u64 {
        let current = self.life_current.saturating_add(self.current);
        self.life_previous.max(current.saturating_sub(spent))
    }
}

/// The units for a part of the time in which `units` are demanded.
fn scaled(units: u64, part: Micros, whole: Micros) -> u64 {
    let scaled = u128::from(units) * u128::from(part.get()) / u128::from(whole.get().max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
