//! What a counter contains, compared with what a store says of it.

use tollgate::algorithm::{CounterDetail, CounterView, ReservedUnits, WindowSpan, WindowStart};
use tollgate::{Micros, Quota};

use super::fixed::FixedCounter;
use super::fraction::Fraction;
use super::{Model, State, calendar, micros, to_micros};

impl Model {
    /// Compares what a store says of the counter with what it must contain now; an error describes
    /// the difference. The store must not lease units.
    pub fn confirm_view(&self, view: &CounterView, now: Micros) -> Result<(), String> {
        let mut current = self.clone();
        current.update(now);

        let expected = (
            current.used(now),
            current.detail(now),
            current.reserved(now),
        );
        let got = (i128::from(view.used), view.detail, view.reserved);
        let has_lockout = match (current.lockout, view.lockout) {
            (Some(_), Some(view)) => current.lock.confirm_view(view, micros(now)),
            (None, None) => true,
            _ => false,
        };
        if got == expected && (view.leased, view.held) == (None, None) && has_lockout {
            Ok(())
        } else {
            Err(format!(
                "wrong view\n  expected {expected:?}, {:?}\n  got      {view:?}",
                current.lock
            ))
        }
    }

    /// The limit less what remains: more than the limit if the counter is in debt.
    fn used(&self, now: Micros) -> i128 {
        i128::from(self.quota.limit()) - self.counter().remaining(micros(now))
    }

    fn detail(&self, now: Micros) -> CounterDetail {
        let at = micros(now);
        match &self.state {
            State::Fixed(fixed) => CounterDetail::FixedWindow {
                window: fixed_window(fixed, at),
            },
            State::Sliding(sliding) => {
                let (current, previous) = sliding.counts(at);
                CounterDetail::SlidingWindow {
                    window: span(sliding.name(at), self.length()),
                    current: to_micros(current).get(),
                    previous: to_micros(previous).get(),
                }
            }
            State::HitLog(log) => CounterDetail::SlidingLog {
                window: span((at - self.length()).max(0), self.length()),
                oldest: log.oldest().map(to_micros),
            },
            State::Bucket(bucket) => {
                let tokens = bucket.tokens(at);
                let missing = Fraction::whole(self.quota.limit()).minus(&tokens);
                let level = match self.quota {
                    Quota::TokenBucket(_) => tokens.times(1_000, 1).floor(),
                    _ => missing.times(1_000, 1).ceil(),
                };
                CounterDetail::Bucket {
                    level_thousandths: i64::try_from(level).unwrap_or(i64::MAX),
                }
            }
            State::Permits(_) => CounterDetail::Concurrency,
        }
    }

    /// The length of the window; 0 if there is none.
    fn length(&self) -> i128 {
        micros(self.quota.window().unwrap_or_default())
    }

    fn reserved(&self, now: Micros) -> ReservedUnits {
        let open = self.reservations.iter();
        let open = open.filter(|reservation| reservation.expires > micros(now));
        open.fold(ReservedUnits::default(), |sum, reservation| ReservedUnits {
            count: sum.count + 1,
            units: (sum.units + to_micros(reservation.units).get()).min(1 << 53),
        })
    }
}

/// The current window. One that begins with a hit exists only from then on.
fn fixed_window(fixed: &FixedCounter, at: i128) -> Option<WindowSpan> {
    let (is_open, end) = (fixed.seen(at).1 > 0, fixed.name(at));
    match fixed.start {
        WindowStart::FirstHit(length) => {
            is_open.then(|| span((end - micros(length)).max(0), micros(length)))
        }
        WindowStart::Clock(unit) => {
            // The beginning of the unit, or an earlier time if the unit is shorter than others.
            let mut start = end - calendar::longest(unit);
            while calendar::end_of(unit, start.max(0)) < end {
                start = calendar::end_of(unit, start.max(0));
            }
            Some(span(start.max(0), end - start.max(0)))
        }
    }
}

fn span(start: i128, length: i128) -> WindowSpan {
    WindowSpan {
        start: to_micros(start),
        length: to_micros(length),
    }
}
