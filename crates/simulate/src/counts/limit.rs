//! The counters of one limit.

use tollgate::{EncodedKey, Micros, Verdict};

use super::KeyTable;
use crate::report::SimulatedLimitReport;

const MINUTE: u64 = 60_000_000;

/// The counters of one limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedLimitCounts {
    /// The numbers of requests so far. The rest is added at the end.
    pub(crate) report: SimulatedLimitReport,
    /// The longest wait in the queue.
    pub(crate) wait_max: Micros,
    /// Time of the first denial.
    pub(crate) first: Option<Micros>,
    /// Time of the last denial.
    pub(crate) last: Option<Micros>,
    current_minute: MinuteCount,
    worst_minute: MinuteCount,
    pub(crate) keys: KeyTable,
}

/// The denials in one minute.
#[derive(Clone, Copy, Debug, Default)]
struct MinuteCount {
    /// Its start, in microseconds since 1970.
    start: u64,
    denied: u64,
}

impl SimulatedLimitCounts {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            keys: KeyTable::new(keys_max),
            ..Self::default()
        }
    }

    fn record_denial(&mut self, at: Micros) {
        self.report.denied += 1;
        self.first.get_or_insert(at);
        self.last = Some(at);

        let start = at.get() - at.get() % MINUTE;
        if start != self.current_minute.start {
            self.current_minute = MinuteCount { start, denied: 0 };
        }
        self.current_minute.denied += 1;
        if self.current_minute.denied > self.worst_minute.denied {
            self.worst_minute = self.current_minute;
        }
    }

    /// Counts a request and the verdict of the limit. Returns whether it allows the request. The
    /// times must never go back.
    #[inline]
    pub(crate) fn record(&mut self, verdict: Verdict, key: &EncodedKey, at: Micros) -> bool {
        self.report.requests += 1;
        match verdict {
            Verdict::Allow { wait: Micros::ZERO } => {}
            Verdict::Allow { wait } => {
                self.report.queued += 1;
                self.wait_max = self.wait_max.max(wait);
            }
            Verdict::Deny { .. } | Verdict::Never => {
                self.keys.count(key, at);
                self.record_denial(at);
            }
        }
        verdict.is_allowed()
    }

    /// The start of the clock minute with the most denials, and their number.
    pub(crate) fn worst_minute(&self) -> Option<(Micros, u64)> {
        let MinuteCount { start, denied } = self.worst_minute;
        (denied > 0).then(|| (Micros::new(start), denied))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_minute_is_the_first_with_the_most_denials() {
        let mut counts = SimulatedLimitCounts::new(2);
        assert_eq!(counts.worst_minute(), None);
        for secs in [59, 60, 61, 119, 120, 121, 122, 600] {
            counts.record_denial(Micros::from_secs(secs));
        }
        assert_eq!(counts.worst_minute(), Some((Micros::from_secs(60), 3)));
        assert_eq!(
            (counts.first, counts.last),
            (Some(Micros::from_secs(59)), Some(Micros::from_secs(600)))
        );
        assert_eq!(counts.report.denied, 8);
    }
}
