//! What is remembered of one key while a log is read.
//!
//! Events may come in any order and their spans may overlap; what is found is certain all the same.
//! It is also complete, equal to looking at every interval, when nobody overtakes: events in the
//! order in which they began and ended. Where somebody does, the worst interval may be missed by
//! what was under way at that moment.

use std::collections::VecDeque;

use tollgate::Micros;

use super::{Bound, Excess};

/// When something happened: at some moment from `from` to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Not before this.
    pub from: Micros,
    /// Not after this.
    pub to: Micros,
}

impl Span {
    /// Exactly at this moment.
    pub const fn moment(at: Micros) -> Self {
        Self { from: at, to: at }
    }
}

/// An interval that holds whole spans, and what was admitted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Where its first span begins.
    pub start: Micros,
    /// Where its last span ends.
    pub end: Micros,
    /// What was admitted in it.
    pub admitted: u128,
    /// By how much that is over what was allowed.
    pub excess: Excess,
}

/// One key.
#[derive(Clone, Debug)]
pub struct Track {
    bound: Bound,
    recent: Recent,
    worst: Option<Interval>,
}

/// What an interval that ends with the next event is made from.
#[derive(Clone, Debug)]
enum Recent {
    /// The interval that is worth most to whatever comes.
    Rate(Option<Run>),
    Window(InWindow),
}

impl Track {
    /// Nothing admitted yet. Remembers as many events as a window holds.
    pub const fn exact(bound: Bound) -> Self {
        Self::within(bound, usize::MAX)
    }

    /// The same, but remembers at most so many events. Where a window holds more, neighbours are
    /// taken as one that began when the first of them did: an excess may look smaller then, and
    /// never larger.
    pub const fn within(bound: Bound, events_max: usize) -> Self {
        let recent = match bound {
            Bound::Rate { .. } => Recent::Rate(None),
            Bound::PerWindow { .. } => Recent::Window(InWindow::new(events_max)),
        };
        Self {
            bound,
            recent,
            worst: None,
        }
    }

    /// The interval that is furthest beyond the bound, or nearest to it; `None` when there is none.
    pub const fn worst(&self) -> Option<Interval> {
        self.worst
    }

    /// So much was admitted, sometime in this span.
    pub fn admit(&mut self, span: Span, cost: u64) {
        let found = match (&mut self.recent, self.bound) {
            (
                Recent::Rate(run),
                Bound::Rate {
                    burst,
                    per,
                    period_micros,
                },
            ) => {
                let joined = Run::joined(*run, span, cost, (per, period_micros));
                let is_new = *run != Some(joined);
                *run = Some(joined);
                is_new.then(|| joined.interval(burst, (per, period_micros)))
            }
            (Recent::Window(hits), Bound::PerWindow { limit, window }) => {
                hits.add(span, cost, window);
                hits.interval(limit)
            }
            _ => None,
        };
        let is_worse = |found: &Interval| {
            self.worst
                .is_none_or(|worst| found.excess.parts().0 > worst.excess.parts().0)
        };
        if let Some(found) = found.filter(is_worse) {
            self.worst = Some(found);
        }
    }
}

/// Spans that an interval holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: Micros,
    end: Micros,
    admitted: u128,
}

impl Run {
    /// The best that can be made of the interval so far and the next event: both, the event alone,
    /// or the interval without an event that would stretch it by more time than it is worth.
    fn joined(before: Option<Self>, span: Span, cost: u64, rate: (u64, u64)) -> Self {
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

    /// What it adds to any later interval that includes it: what it admitted, less what the time
    /// since its start allows.
    fn worth(self, (per, period_micros): (u64, u64)) -> i128 {
        parts(self.admitted, period_micros).saturating_add(parts(u128::from(self.start.get()), per))
    }

    fn interval(self, burst: u64, (per, period_micros): (u64, u64)) -> Interval {
        let Self {
            start,
            end,
            admitted,
        } = self;
        let allowed = parts(u128::from(burst), period_micros)
            .saturating_add(parts(u128::from(end.since(start).get()), per));
        let excess = parts(admitted, period_micros).saturating_sub(allowed);
        Interval {
            start,
            end,
            admitted,
            excess: Excess::new(excess, period_micros),
        }
    }
}

/// The events of the window that ends with the latest of them, in the order in which they began.
#[derive(Clone, Debug)]
struct InWindow {
    hits: VecDeque<(Micros, u64)>,
    hits_max: usize,
    end: Micros,
    admitted: u128,
}

impl InWindow {
    const fn new(hits_max: usize) -> Self {
        let hits_max = if hits_max < 2 { 2 } else { hits_max };
        Self {
            hits: VecDeque::new(),
            hits_max,
            end: Micros::ZERO,
            admitted: 0,
        }
    }

    fn add(&mut self, span: Span, cost: u64, window: Micros) {
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
            self.halve();
        }
    }

    /// Makes one of every two.
    fn halve(&mut self) {
        let hits = std::mem::take(&mut self.hits);
        for (index, (from, cost)) in hits.into_iter().enumerate() {
            match self.hits.back_mut() {
                Some((_, sum)) if index % 2 == 1 => *sum = sum.saturating_add(cost),
                _ => self.hits.push_back((from, cost)),
            }
        }
    }

    fn interval(&self, limit: u64) -> Option<Interval> {
        let (start, _) = self.hits.front()?;
        let excess = parts(self.admitted, 1).saturating_sub(i128::from(limit));
        Some(Interval {
            start: *start,
            end: self.end,
            admitted: self.admitted,
            excess: Excess::new(excess, 1),
        })
    }
}

fn parts(units: u128, of_a_unit: u64) -> i128 {
    i128::try_from(units.saturating_mul(u128::from(of_a_unit))).unwrap_or(i128::MAX)
}
