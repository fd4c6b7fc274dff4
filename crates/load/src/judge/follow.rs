//! One counter: what it let through, on the timelines on which that is limited.

use tollgate::Micros;
use tollgate_audit::{Bound, Interval, Span, Track};

use super::charge::Promised;
use crate::draw::Draw;

/// The most admissions that are remembered on a timeline.
const HITS_MAX: usize = 256;
/// Clocks that are kept in step may still go a thousandth apart while they are being set.
const CLOCKS_MILLIONTHS: u32 = 1_000;

/// One counter.
#[derive(Debug)]
pub(super) struct Followed {
    /// Of which limit.
    pub(super) limit: usize,
    /// The request that met it first.
    pub(super) draw: Draw,
    /// What the service calls the limit. Other numbers would be another bound.
    told: u64,
    moments: Vec<Track>,
    ends: Option<Ends>,
}

/// The windows of a fixed window, each known by its end, as answers tell it.
///
/// Two windows of one counter end at least a window's length apart. So what ends within less
/// belongs to one window, and the same arithmetic that counts admissions in an interval of time
/// counts those in one window, on a timeline of ends.
#[derive(Debug)]
struct Ends {
    track: Track,
    window: Micros,
}

impl Followed {
    pub(super) fn new(limit: usize, draw: Draw, told: u64, promised: Promised) -> Self {
        let track =
            |bound: Bound, millionths| Track::within(bound.by_another_clock(millionths), HITS_MAX);
        let moments = [Some(promised.any), promised.long].into_iter().flatten();
        let ends = promised.each.map(|(limit, window)| {
            // An end is told by one clock and added to the time of another, once for each of two
            // windows.
            Ends {
                track: track(Bound::PerWindow { limit, window }, 2 * CLOCKS_MILLIONTHS),
                window,
            }
        });
        let moments = moments
            .map(|bound| track(bound, CLOCKS_MILLIONTHS))
            .collect();
        Self {
            limit,
            draw,
            told,
            moments,
            ends,
        }
    }

    /// Whether the limit is still called the same.
    pub(super) const fn is_told(&self, limit: u64) -> bool {
        self.told == limit
    }

    /// So much was let through, sometime in this span, and the budget is full again so long after
    /// that. Whether that is too much.
    pub(super) fn admit(&mut self, span: Span, reset_after_ms: Option<u64>, cost: u64) -> bool {
        self.moments
            .iter_mut()
            .for_each(|track| track.admit(span, cost));
        if let (Some(ends), Some(reset_after_ms)) = (&mut self.ends, reset_after_ms) {
            // It was rounded up to a millisecond.
            let from = Micros::from_millis(reset_after_ms.saturating_sub(1));
            let to = Micros::from_millis(reset_after_ms);
            ends.track.admit(
                Span {
                    from: span.from.after(from),
                    to: span.to.after(to),
                },
                cost,
            );
        }
        self.worst().is_some_and(|worst| worst.excess.is_over())
    }

    /// The interval that is furthest beyond what is allowed, or nearest to it.
    pub(super) fn worst(&self) -> Option<Interval> {
        let of_moments = self.moments.iter().filter_map(Track::worst);
        let of_ends = self.ends.iter().filter_map(|ends| {
            let worst = ends.track.worst()?;
            Some(Interval {
                start: worst.start.since(ends.window),
                ..worst
            })
        });
        let all = of_moments.chain(of_ends);
        all.max_by(|a, b| a.excess.units().total_cmp(&b.excess.units()))
    }
}
