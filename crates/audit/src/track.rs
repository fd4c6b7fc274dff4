//! Tracks the admissions of one key.
//!
//! Events may arrive in any order and their spans may overlap. An excess that is found is always
//! certain. The result equals that of examining every interval if events arrive in the order in
//! which they end, and none of them is overtaken by more events than the track remembers.
//! Otherwise an excess may be missed.

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
    events_max: usize,
    /// The latest events, in the order in which their spans start. For aligned windows, the
    /// latest window and the one before it.
    recent: VecDeque<Run>,
    /// The sum of `recent`, for windows.
    admitted: u128,
    /// Of the events before these, those that contribute most to an interval that ends later.
    older: Option<Run>,
    /// The end of the last span.
    end: Micros,
    worst: Option<AuditInterval>,
}

/// Units that were admitted at `start` or later.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: Micros,
    admitted: u128,
}

impl Run {
    fn and(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            admitted: self.admitted + other.admitted,
        }
    }

    /// Its contribution to the excess of an interval that starts with it: what was admitted, minus
    /// what the time since its start allows.
    fn worth(self, (per, period_micros): (u64, u64)) -> i128 {
        parts(self.admitted, period_micros).saturating_add(parts(self.start.get().into(), per))
    }
}

impl AdmissionTrack {
    /// An empty track for events that start and end in the same order. It remembers all events of a
    /// window, however many these are, and joins those of a rate at once.
    pub const fn new(bound: Bound) -> Self {
        let events_max = match bound {
            Bound::Rate { .. } => 0,
            Bound::PerWindow { .. } | Bound::AlignedWindow { .. } => usize::MAX,
        };
        Self::with_events_max(bound, events_max)
    }

    /// An empty track that remembers at most `events_max` events one by one. For a rate, older ones
    /// are joined to one interval. If a window has more, neighbors are merged into one that starts
    /// with the first of them. Both may understate an excess, but never overstate it.
    pub const fn with_events_max(bound: Bound, events_max: usize) -> Self {
        Self {
            bound,
            events_max,
            recent: VecDeque::new(),
            admitted: 0,
            older: None,
            end: Micros::ZERO,
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
        self.end = self.end.max(span.to);
        let event = Run {
            start: span.from,
            admitted: cost.into(),
        };
        let interval = match self.bound {
            Bound::Rate {
                burst,
                per,
                period_micros,
            } => Some(self.admit_at_rate(event, burst, (per, period_micros))),
            Bound::PerWindow { limit, window } => self.admit_in_window(event, limit, window),
            Bound::AlignedWindow {
                limit,
                window,
                is_sliding,
            } => self.admit_in_aligned(event, span.to, limit, (window, is_sliding)),
        };

        let is_worse = |interval: &AuditInterval| {
            self.worst
                .is_none_or(|worst| interval.excess.parts().0 > worst.excess.parts().0)
        };
        self.worst = interval.filter(is_worse).or(self.worst);
    }

    /// Inserts an event in the order of starts.
    fn insert(&mut self, event: Run) {
        let later = self.recent.iter().rev();
        let later = later.take_while(|run| run.start > event.start).count();
        self.recent.insert(self.recent.len() - later, event);
    }

    /// The worst interval that ends now starts with one of the recent events, or contains all of
    /// them and the best of the older ones.
    fn admit_at_rate(&mut self, event: Run, burst: u64, rate: (u64, u64)) -> AuditInterval {
        self.insert(event);
        let mut all = Run {
            admitted: 0,
            ..event
        };
        let mut worst = (i128::MIN, all);
        for run in self.recent.iter().rev().chain(&self.older) {
            all = all.and(*run);
            let worth = all.worth(rate);
            if worth > worst.0 {
                worst = (worth, all);
            }
        }
        let (_, worst) = worst;

        // Continue the older interval, start a new one, or pass over an event that would lengthen
        // the interval by more than it adds.
        if self.recent.len() > self.events_max {
            let first = self.recent.pop_front();
            let both = self.older.zip(first).map(|(older, first)| older.and(first));
            let choices = [self.older, both, first];
            self.older = choices
                .into_iter()
                .flatten()
                .max_by_key(|run| run.worth(rate));
        }

        let (per, period_micros) = rate;
        let length = self.end.since(worst.start);
        let allowed =
            parts(burst.into(), period_micros).saturating_add(parts(length.get().into(), per));
        let excess = parts(worst.admitted, period_micros).saturating_sub(allowed);
        self.interval(worst, Excess::new(excess, period_micros))
    }

    /// The worst interval that ends now contains all events of the last `window`.
    fn admit_in_window(&mut self, event: Run, limit: u64, window: Micros) -> Option<AuditInterval> {
        self.insert(event);
        self.admitted += event.admitted;
        let end = self.end;
        while let Some(past) = self
            .recent
            .pop_front_if(|run| run.start.after(window) <= end)
        {
            self.admitted -= past.admitted;
        }

        if self.recent.len() > self.events_max.max(2) {
            let events = std::mem::take(&mut self.recent);
            for (index, event) in events.into_iter().enumerate() {
                match self.recent.back_mut() {
                    Some(last) if index % 2 == 1 => *last = last.and(event),
                    _ => self.recent.push_back(event),
                }
            }
        }

        let all = Run {
            start: self.recent.front()?.start,
            admitted: self.admitted,
        };
        Some(self.interval(all, whole(all.admitted, limit)))
    }

    /// An event counts only if it certainly happened in one window. In a sliding window, the share
    /// of the previous one is at least what it is at the end of the event; it is rounded down.
    fn admit_in_aligned(
        &mut self,
        event: Run,
        to: Micros,
        limit: u64,
        (window, is_sliding): (Micros, bool),
    ) -> Option<AuditInterval> {
        let start_of = |at: Micros| at.get() - at.get() % window.get().max(1);
        let start = Micros::new(start_of(to));
        if start_of(event.start) < start.get() {
            return None;
        }

        let event = Run { start, ..event };
        match self.recent.iter_mut().find(|run| run.start == start) {
            Some(run) => *run = run.and(event),
            None => self.insert(event),
        }
        if self.recent.len() > 2 {
            self.recent.pop_front();
        }

        let at = |start: Micros| self.recent.iter().find(|run| run.start == start).copied();
        let current = at(start)?;
        let previous = at(start.since(window)).filter(|_| is_sliding && start >= window);
        let left = start.after(window).since(to).get();
        let share = previous.map_or(0, |run| {
            run.admitted * u128::from(left) / u128::from(window.get())
        });
        Some(self.interval(current, whole(current.admitted + share, limit)))
    }

    const fn interval(&self, run: Run, excess: Excess) -> AuditInterval {
        AuditInterval {
            start: run.start,
            end: self.end,
            admitted: run.admitted,
            excess,
        }
    }
}

/// An excess in whole units.
fn whole(admitted: u128, limit: u64) -> Excess {
    Excess::new(parts(admitted, 1).saturating_sub(limit.into()), 1)
}

/// Units in parts of a unit, saturating.
fn parts(units: u128, parts_per_unit: u64) -> i128 {
    // Two numbers of 64 bits are multiplied faster, and never overflow.
    let units = u64::try_from(units).map_or(u128::MAX, |units| {
        u128::from(units) * u128::from(parts_per_unit)
    });
    i128::try_from(units).unwrap_or(i128::MAX)
}
