//! What is remembered of one key while a log is read.

use std::collections::VecDeque;

use tollgate::Micros;

use super::Bound;

/// An interval by its first and last event. The excess is in parts of a unit, as many as the bound's denominator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) start: Micros,
    pub(super) end: Micros,
    pub(super) admitted: u128,
    pub(super) excess: i128,
}

#[derive(Clone, Debug)]
pub(super) struct Track {
    ending_here: EndingHere,
    last: Micros,
    worst: Interval,
}

/// What the worst interval that ends with the present event is made from.
#[derive(Clone, Debug)]
enum EndingHere {
    /// The largest value of admitted * period - per * length, and the interval that has it.
    Rate { burst: u64, per: u64, period_micros: u64, value: i128, start: Micros, admitted: u128 },
    /// The events of the window that ends here.
    Window { limit: u64, window: Micros, events: VecDeque<(Micros, u64)>, admitted: u128 },
}

impl Track {
    pub(super) fn new(bound: Bound) -> Self {
        let ending_here = match bound {
            Bound::Rate { burst, per, period_micros } => {
                EndingHere::Rate { burst, per, period_micros, value: 0, start: Micros::ZERO, admitted: 0 }
            }
            Bound::PerWindow { limit, window } => {
                EndingHere::Window { limit, window, events: VecDeque::new(), admitted: 0 }
            }
        };
        let nothing = Interval { start: Micros::ZERO, end: Micros::ZERO, admitted: 0, excess: i128::MIN };
        Self { ending_here, last: Micros::ZERO, worst: nothing }
    }

    pub(super) fn worst(&self) -> Interval {
        self.worst
    }

    pub(super) fn admit(&mut self, at: Micros, cost: u64) {
        assert!(self.last <= at, "a log is read in the order of time: {:?} came after {at:?}", self.last);
        let interval = self.ending_here.extend(self.last, at, cost);
        self.last = at;
        if interval.excess > self.worst.excess {
            self.worst = interval;
        }
    }
}

impl EndingHere {
    /// The worst interval that ends with this event.
    fn extend(&mut self, last: Micros, at: Micros, cost: u64) -> Interval {
        match self {
            Self::Rate { burst, per, period_micros, value, start, admitted } => {
                // What came before is worth taking along as long as it adds more than the time since then allows.
                *value -= product(*per, at.since(last).get());
                if *value <= 0 {
                    (*value, *start, *admitted) = (0, at, 0);
                }
                *value += product(cost, *period_micros);
                *admitted += u128::from(cost);
                let excess = *value - product(*burst, *period_micros);
                Interval { start: *start, end: at, admitted: *admitted, excess }
            }
            Self::Window { limit, window, events, admitted } => {
                events.push_back((at, cost));
                *admitted += u128::from(cost);
                while let Some((_, gone)) = events.pop_front_if(|(then, _)| then.after(*window) <= at) {
                    *admitted -= u128::from(gone);
                }
                let start = events.front().map_or(at, |(first, _)| *first);
                Interval { start, end: at, admitted: *admitted, excess: difference(*admitted, *limit) }
            }
        }
    }
}

fn product(a: u64, b: u64) -> i128 {
    i128::try_from(u128::from(a) * u128::from(b)).expect("costs and periods stay far below 2^63")
}

fn difference(admitted: u128, limit: u64) -> i128 {
    i128::try_from(admitted).expect("no log admits 2^127 units") - i128::from(limit)
}
