//! What one central limiter that answers at once would have let through of the same requests: the
//! embedded store, on a clock set by hand to each request's moment.
//!
//! A request's moment is the one at which it was due. On a machine that cannot keep up requests are
//! sent later than that, more is refilled meanwhile, and anybody would look better than ideal; so
//! the moments of sending are replayed as well, and the ideal is whichever lets more through.

use std::io;

use tollgate::{Limiter, ManualClock, MemoryStore, Micros};

use super::limits::Limit;
use super::record::Record;

/// What the ideal limiter did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ideal {
    moment: Moment,
    /// Units let through.
    units: u64,
    /// When it first refused a request that could pass at another time.
    full_us: Option<u64>,
    /// Units let through from then on.
    units_full: u64,
}

/// Which moment of a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Due,
    Sent,
}

impl Moment {
    const fn of(self, record: &Record) -> u64 {
        match self {
            Self::Due => record.scheduled_us,
            Self::Sent => record.sent_us,
        }
    }
}

/// Has the ideal limiter decide about the same requests, on a store's clock that shows this at the
/// start.
pub(super) fn replay(limit: &Limit, records: &[Record], store_us: u64) -> io::Result<Ideal> {
    let due = replay_at(Moment::Due, limit, records, store_us)?;
    let sent = replay_at(Moment::Sent, limit, records, store_us)?;
    Ok(if sent.units > due.units { sent } else { due })
}

fn replay_at(
    moment: Moment,
    limit: &Limit,
    records: &[Record],
    store_us: u64,
) -> io::Result<Ideal> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::new(store, [limit.embedded()]);
    let mut ideal = Ideal {
        moment,
        units: 0,
        full_us: None,
        units_full: 0,
    };
    let mut in_order: Vec<&Record> = records.iter().collect();
    in_order.sort_by_key(|record| moment.of(record));
    for record in in_order {
        let at_us = moment.of(record);
        clock.set(Micros::new(store_us + at_us));
        let ask = limiter
            .check(limit.name, u64::from(record.key))
            .cost(u64::from(record.cost));
        let decision = ask.now_or_never().map_err(io::Error::other)?;
        if decision.is_allowed() {
            ideal.units += u64::from(record.cost);
            ideal.units_full += if ideal.full_us.is_some() {
                u64::from(record.cost)
            } else {
                0
            };
        } else if !decision.is_never() {
            ideal.full_us.get_or_insert(at_us);
        }
    }
    Ok(ideal)
}

impl Ideal {
    /// What was let through in relation to the ideal.
    pub(super) fn utilisation(&self, records: &[Record]) -> Option<f64> {
        ratio(units(records.iter()), self.units)
    }

    /// The same from the moment at which the ideal limiter was used up: without the burst, which is
    /// easily had.
    pub(super) fn utilisation_full(&self, records: &[Record]) -> Option<f64> {
        let full_us = self.full_us?;
        let since = records
            .iter()
            .filter(|record| self.moment.of(record) >= full_us);
        ratio(units(since), self.units_full)
    }

    pub(super) const fn units(&self) -> u64 {
        self.units
    }
}

fn units<'r>(records: impl Iterator<Item = &'r Record>) -> u64 {
    records
        .filter(|record| record.admitted)
        .map(|record| u64::from(record.cost))
        .sum()
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn ratio(had: u64, ideal: u64) -> Option<f64> {
    (ideal > 0).then(|| had as f64 / ideal as f64)
}

#[cfg(test)]
mod tests {
    use super::super::limits::{FIXED, PER_SECOND_10};
    use super::super::record::Told;
    use super::*;

    /// Requests of which the first of every `of` is let through, sent as late as they are told.
    fn records(count: u64, every_us: u64, of: u64, late_us: u64) -> Vec<Record> {
        let record = |index: u64| Record {
            scheduled_us: index * every_us,
            sent_us: index * (every_us + late_us),
            received_us: index * (every_us + late_us),
            key: 0,
            cost: 1,
            admitted: index.is_multiple_of(of),
            told: Told::Store,
        };
        (0..count).map(record).collect()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_its_rate() {
        // Twenty a second for two seconds, of a bucket of ten and ten a second.
        let half = records(40, 50_000, 2, 0);
        let ideal = replay(&PER_SECOND_10, &half, 7).unwrap();
        assert_eq!((ideal.units, ideal.full_us), (29, Some(950_000)));
        assert!((ideal.utilisation(&half).unwrap() - 20.0 / 29.0).abs() < 1e-9);
        // From then on every second one passes, as with the ideal.
        assert!((ideal.utilisation_full(&half).unwrap() - 1.0).abs() < 0.11);
    }

    #[test]
    fn a_load_that_comes_late_does_not_flatter() {
        let late = records(40, 50_000, 1, 50_000);
        let ideal = replay(&PER_SECOND_10, &late, 7).unwrap();
        assert_eq!((ideal.moment, ideal.units), (Moment::Sent, 40));
    }

    #[test]
    fn windows_begin_where_the_stores_clock_says() {
        let burst = records(600, 1, 1, 0);
        assert_eq!(replay(&FIXED, &burst, 5_000_000).unwrap().units, 500);
        assert_eq!(replay(&FIXED, &burst, 5_999_900).unwrap().units, 600);
    }

    #[test]
    fn what_was_never_used_up_has_no_time_after() {
        let ideal = replay(&PER_SECOND_10, &records(5, 50_000, 1, 0), 0).unwrap();
        assert_eq!((ideal.units, ideal.utilisation_full(&[])), (5, None));
    }
}
