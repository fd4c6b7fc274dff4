//! Tracks the admissions of one key.
//!
//! Events may arrive in any order and their spans may overlap. An excess that is found is always
//! certain. The result equals that of examining every interval if events start and end in the same
//! order. If some overtake others, an excess may be missed, up to what was in flight at that time.

use std::collections::VecDeque;

use tollgate::Micros;

use super::{Bound, Excess};

/// The time span in which an event happened, at an unknown time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// The earliest possible time.
    pub from: Micros,
    /// The latest possible time.
    pub to: Micros,
}

impl TimeSpan {
    /// A span for an exact time.
    pub const fn exact(at: Micros) -> Self {
        Self { from: at, to: at }
    }
}

/// An interval that contains whole spans, and what was admitted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditInterval {
    /// The start of its first span.
    pub start: Micros,
    /// The end of its last span.
    pub end: Micros,
    /// Units admitted in it.
    pub admitted: u128,
    /// Units above what the bound allows; below zero if it held.
    pub excess: Excess,
}

/// The admissions of one key, and its worst interval so far.
#[derive(Clone, Debug)]
pub struct AdmissionTrack {
    bound: Bound,
    recent: RecentAdmissions,
    worst: Option<AuditInterval>,
}

/// The state from which the worst interval ending with the next event is computed.
#[derive(Clone, Debug)]
enum RecentAdmissions {
    /// The interval that contributes most to an interval that ends later.
    Rate(Option<AdmittedRun>),
    Window(WindowEvents),
}

impl AdmissionTrack {
    /// An empty track. It remembers all events of a window, however many these are.
    pub const fn new(bound: Bound) -> Self {
        Self::with_events_max(bound, usize::MAX)
    }

    /// An empty track that remembers at most `events_max` events. If a window has more, neighbors
    /// are merged into one that starts with the first of them. This may understate an excess, but
    /// never overstates it.
    pub const fn with_events_max(bound: Bound, events_max: usize) -> Self {
        let recent = match bound {
            Bound::Rate { .. } => RecentAdmissions::Rate(None),
            Bound::PerWindow { .. } => RecentAdmissions::Window(WindowEvents::new(events_max)),
        };
        Self {
            bound,
            recent,
            worst: None,
        }
    }

    /// The interval with the largest excess, or the one closest to it if the bound held. `None`
    /// without admissions.
    pub const fn worst(&self) -> Option<AuditInterval> {
        self.worst
    }

    /// Adds an admission at some time in `span`.
    pub fn admit(&mut self, span: TimeSpan, cost: u64) {
        let interval = match (&mut self.recent, self.bound) {
            (
                RecentAdmissions::Rate(run),
                Bound::Rate {
                    burst,
                    per,
                    period_micros,
                },
            ) => {
                let joined = AdmittedRun::joined(*run, span, cost, (per, period_micros));
                let is_new = *run != Some(joined);
                *run = Some(joined);
                is_new.then(|| joined.interval(burst, (per, period_micros)))
            }
            (RecentAdmissions::Window(hits), Bound::PerWindow { limit, window }) => {
                hits.add(span, cost, window);
                hits.interval(limit)
            }
            _ => None,
        };

        let is_worse = |interval: &AuditInterval| {
            self.worst
                .is_none_or(|worst| interval.excess.parts().0 > worst.excess.parts().0)
        };
        if let Some(interval) = interval.filter(is_worse) {
            self.worst = Some(interval);
        }
    }
}

/// An interval with the units admitted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AdmittedRun {
    start: Micros,
    end: Micros,
    admitted: u128,
}

impl AdmittedRun {
    /// The best of three intervals: the one so far extended by the next event, the event alone, or
    /// the one so far without the event, if including it would cost more time than it adds.
    fn joined(before: Option<Self>, span: TimeSpan, cost: u64, rate: (u64, u64)) -> Self {
        let alone = Self {
            start: span.from,
            end: span.to,
            admitted: u128::from(cost),
        };
        let Some(before) = before else { return alone };

        let both = Self {
            start: before.start.min(span.from),
            end: before.end.max(span.to),
            admitted: before.admitted + u128::from(cost),
        };

        let of_two = if alone.worth(rate) >= both.worth(rate) {
            alone
        } else {
            both
        };
        if before.worth(rate) > of_two.worth(rate) {
            before
        } else {
            of_two
        }
    }

    /// Its contribution to the excess of a later interval that includes it: what was admitted in
    /// it, minus what the time since its start allows.
    fn worth(self, (per, period_micros): (u64, u64)) -> i128 {
        parts(self.admitted, period_micros).saturating_add(parts(u128::from(self.start.get()), per))
    }

    fn interval(self, burst: u64, (per, period_micros): (u64, u64)) -> AuditInterval {
        let Self {
            start,
            end,
            admitted,
        } = self;

        let allowed = parts(u128::from(burst), period_micros)
            .saturating_add(parts(u128::from(end.since(start).get()), per));
        let excess = parts(admitted, period_micros).saturating_sub(allowed);

        AuditInterval {
            start,
            end,
            admitted,
            excess: Excess::new(excess, period_micros),
        }
    }
}

/// The events in the window that ends with the latest one, ordered by the start of their spans.
#[derive(Clone, Debug)]
struct WindowEvents {
    hits: VecDeque<(Micros, u64)>,
    hits_max: usize,
    end: Micros,
    admitted: u128,
}

impl WindowEvents {
    const fn new(hits_max: usize) -> Self {
        let hits_max = if hits_max < 2 { 2 } else { hits_max };
        Self {
            hits: VecDeque::new(),
            hits_max,
            end: Micros::ZERO,
            admitted: 0,
        }
    }

    fn add(&mut self, span: TimeSpan, cost: u64, window: Micros) {
        self.end = self.end.max(span.to);

        let later = self
            .hits
            .iter()
            .rev()
            .take_while(|(from, _)| *from > span.from)
            .count();
        self.hits.insert(self.hits.len() - later, (span.from, cost));
        self.admitted += u128::from(cost);

        let end = self.end;
        while let Some((_, gone)) = self
            .hits
            .pop_front_if(|(from, _)| from.after(window) <= end)
        {
            self.admitted -= u128::from(gone);
        }
        if self.hits.len() > self.hits_max {
            self.merge_pairs();
        }
    }

    /// Merges pairs of events.
    fn merge_pairs(&mut self) {
        let hits = std::mem::take(&mut self.hits);
        for (index, (from, cost)) in hits.into_iter().enumerate() {
            match self.hits.back_mut() {
                Some((_, sum)) if index % 2 == 1 => *sum = sum.saturating_add(cost),
                _ => self.hits.push_back((from, cost)),
            }
        }
    }

    fn interval(&self, limit: u64) -> Option<AuditInterval> {
        let (start, _) = self.hits.front()?;
        let excess = parts(self.admitted, 1).saturating_sub(i128::from(limit));
        Some(AuditInterval {
            start: *start,
            end: self.end,
            admitted: self.admitted,
            excess: Excess::new(excess, 1),
        })
    }
}

/// Units in parts of a unit, saturating.
fn parts(units: u128, parts_per_unit: u64) -> i128 {
    i128::try_from(units.saturating_mul(u128::from(parts_per_unit))).unwrap_or(i128::MAX)
}
