//! What one central limiter that answers at once would have let through of the same requests: the embedded store, on a
//! clock set by hand to each request's moment.

use std::io;

use tollgate::{Limiter, ManualClock, MemoryStore, Micros};

use super::limits::Limit;
use super::record::Record;
use super::schedule::Shot;

/// What the ideal limiter did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ideal {
    /// Units let through.
    units: u64,
    /// When it first refused a request that could pass at another time.
    full_us: Option<u64>,
    /// Units let through from then on.
    units_full: u64,
}

/// Replays requests in the order of time, on a store's clock that shows this at the start.
pub(super) fn replay(limit: &Limit, shots: &[Shot], store_us: u64) -> io::Result<Ideal> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::new(store, [limit.embedded()]);
    let mut ideal = Ideal { units: 0, full_us: None, units_full: 0 };
    for shot in shots {
        clock.set(Micros::new(store_us + shot.at_us));
        let ask = limiter.check(limit.name, u64::from(shot.key)).cost(u64::from(shot.cost));
        let decision = ask.immediately().map_err(io::Error::other)?;
        if decision.is_allowed() {
            ideal.units += u64::from(shot.cost);
            ideal.units_full += if ideal.full_us.is_some() { u64::from(shot.cost) } else { 0 };
        } else if !decision.is_never() {
            ideal.full_us.get_or_insert(shot.at_us);
        }
    }
    Ok(ideal)
}

impl Ideal {
    /// What was let through in relation to the ideal.
    pub(super) fn utilisation(&self, records: &[Record]) -> Option<f64> {
        ratio(units(records.iter()), self.units)
    }

    /// The same from the moment at which the ideal limiter was used up: without the burst, which is easily had.
    pub(super) fn utilisation_full(&self, records: &[Record]) -> Option<f64> {
        let full_us = self.full_us?;
        ratio(units(records.iter().filter(|record| record.scheduled_us >= full_us)), self.units_full)
    }

    pub(super) const fn units(&self) -> u64 {
        self.units
    }
}

fn units<'r>(records: impl Iterator<Item = &'r Record>) -> u64 {
    records.filter(|record| record.admitted).map(|record| u64::from(record.cost)).sum()
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

    fn shots(count: u64, every_us: u64) -> Vec<Shot> {
        (0..count).map(|index| Shot { at_us: index * every_us, replica: 0, key: 0, cost: 1 }).collect()
    }

    /// The first of every `of` requests is let through.
    fn one_of(of: usize, shots: &[Shot]) -> Vec<Record> {
        let record = |(index, shot): (usize, &Shot)| Record {
            scheduled_us: shot.at_us,
            sent_us: shot.at_us,
            received_us: shot.at_us,
            key: 0,
            cost: 1,
            admitted: index.is_multiple_of(of),
            told: Told::Store,
        };
        shots.iter().enumerate().map(record).collect()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_its_rate() {
        // Twenty a second for two seconds, of a bucket of ten and ten a second.
        let shots = shots(40, 50_000);
        let ideal = replay(&PER_SECOND_10, &shots, 7).unwrap();
        assert_eq!((ideal.units, ideal.full_us), (29, Some(950_000)));
        let half = one_of(2, &shots);
        assert!((ideal.utilisation(&half).unwrap() - 20.0 / 29.0).abs() < 1e-9);
        // From then on every second one passes, as with the ideal.
        assert!((ideal.utilisation_full(&half).unwrap() - 1.0).abs() < 0.11);
    }

    #[test]
    fn windows_begin_where_the_stores_clock_says() {
        let burst = shots(600, 1);
        assert_eq!(replay(&FIXED, &burst, 5_000_000).unwrap().units, 500);
        assert_eq!(replay(&FIXED, &burst, 5_999_900).unwrap().units, 600);
    }

    #[test]
    fn what_was_never_used_up_has_no_time_after() {
        let ideal = replay(&PER_SECOND_10, &shots(5, 50_000), 0).unwrap();
        assert_eq!((ideal.units, ideal.utilisation_full(&[])), (5, None));
    }
}
