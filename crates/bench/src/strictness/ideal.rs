//! What an ideal limiter would have admitted of the same requests: one central limiter without
//! latency, which is the embedded store on a manual clock set to the time of each request.
//!
//! The time of a request is the time at which it was due. On a machine that cannot keep up,
//! requests are sent later than that and more units are refilled in between, so a real limiter
//! could look better than the ideal one. Therefore the send times are replayed as well, and the
//! ideal is the replay that admits more.

use std::io;

use tollgate::{Limiter, ManualClock, MemoryStore, Micros};

use super::limits::Limit;
use super::record::Record;

/// The result of the ideal limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdealResult {
    replay_time: ReplayTime,
    /// Units admitted.
    units: u64,
    /// When it first denied a request that could be admitted at another time.
    full_us: Option<u64>,
    /// Units admitted from `full_us` on.
    units_full: u64,
}

/// Which time of a request is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplayTime {
    Due,
    Sent,
}

impl ReplayTime {
    const fn of_record(self, record: &Record) -> u64 {
        match self {
            Self::Due => record.scheduled_us,
            Self::Sent => record.sent_us,
        }
    }
}

/// Replays the same requests with the ideal limiter, on a store clock that shows `store_us` at the
/// start.
pub(super) fn replay(limit: &Limit, records: &[Record], store_us: u64) -> io::Result<IdealResult> {
    let due = replay_at(ReplayTime::Due, limit, records, store_us)?;
    let sent = replay_at(ReplayTime::Sent, limit, records, store_us)?;
    Ok(if sent.units > due.units { sent } else { due })
}

fn replay_at(
    replay_time: ReplayTime,
    limit: &Limit,
    records: &[Record],
    store_us: u64,
) -> io::Result<IdealResult> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::new(store, [limit.embedded()]).expect("valid limits");
    let mut ideal = IdealResult {
        replay_time,
        units: 0,
        full_us: None,
        units_full: 0,
    };
    let mut in_order: Vec<&Record> = records.iter().collect();
    in_order.sort_by_key(|record| replay_time.of_record(record));
    for record in in_order {
        let at_us = replay_time.of_record(record);
        clock.set(Micros::new(store_us + at_us));
        let ask = limiter
            .check(limit.name, u64::from(record.key))
            .cost(u64::from(record.cost));
        let decision = ask.try_now().map_err(io::Error::other)?;
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

impl IdealResult {
    /// Units admitted, relative to the ideal.
    pub(super) fn utilisation(&self, records: &[Record]) -> Option<f64> {
        ratio(units(records.iter()), self.units)
    }

    /// Units admitted from the time at which the ideal limiter was used up, relative to the ideal.
    /// This excludes the burst, which is easy to admit.
    pub(super) fn utilisation_full(&self, records: &[Record]) -> Option<f64> {
        let full_us = self.full_us?;
        let since = records
            .iter()
            .filter(|record| self.replay_time.of_record(record) >= full_us);
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
    use super::super::record::DecisionSource;
    use super::*;

    /// Requests of which the first of every `of` is admitted, each sent `late_us` late.
    fn records(count: u64, every_us: u64, of: u64, late_us: u64) -> Vec<Record> {
        let record = |index: u64| Record {
            scheduled_us: index * every_us,
            sent_us: index * (every_us + late_us),
            received_us: index * (every_us + late_us),
            key: 0,
            cost: 1,
            admitted: index.is_multiple_of(of),
            source: DecisionSource::Store,
        };
        (0..count).map(record).collect()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_its_rate() {
        // Twenty requests a second for two seconds, on a bucket of ten units that refills ten a
        // second.
        let half = records(40, 50_000, 2, 0);
        let ideal = replay(&PER_SECOND_10, &half, 7).unwrap();
        assert_eq!((ideal.units, ideal.full_us), (29, Some(950_000)));
        assert!((ideal.utilisation(&half).unwrap() - 20.0 / 29.0).abs() < 1e-9);
        // From then on every second request is admitted, as with the ideal limiter.
        assert!((ideal.utilisation_full(&half).unwrap() - 1.0).abs() < 0.11);
    }

    #[test]
    fn a_late_load_does_not_improve_the_result() {
        let late = records(40, 50_000, 1, 50_000);
        let ideal = replay(&PER_SECOND_10, &late, 7).unwrap();
        assert_eq!((ideal.replay_time, ideal.units), (ReplayTime::Sent, 40));
    }

    #[test]
    fn windows_begin_where_the_stores_clock_says() {
        let burst = records(600, 1, 1, 0);
        assert_eq!(replay(&FIXED, &burst, 5_000_000).unwrap().units, 500);
        assert_eq!(replay(&FIXED, &burst, 5_999_900).unwrap().units, 600);
    }

    #[test]
    fn a_limit_that_was_never_used_up_has_no_second_figure() {
        let ideal = replay(&PER_SECOND_10, &records(5, 50_000, 1, 0), 0).unwrap();
        assert_eq!((ideal.units, ideal.utilisation_full(&[])), (5, None));
    }
}
