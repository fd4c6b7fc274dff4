//! Tracks the admissions of one counter against its bounds.

use tollgate::Micros;
use tollgate_audit::{AdmissionTrack, AuditInterval, Bound, TimeSpan};

use super::resolve::LimitBounds;
use crate::generator::RequestParams;

/// The maximum number of admissions that a track remembers.
const EVENTS_MAX: usize = 256;
/// The clocks of the load and of the service may differ in pace by 0.1 %, for example while one of
/// them is being adjusted.
const CLOCK_DRIFT_PPM: u32 = 1_000;

/// The admissions of one counter.
#[derive(Debug)]
pub(super) struct CounterTrack {
    /// Index of its limit.
    pub(super) limit_index: usize,
    /// The request that was first admitted.
    pub(super) params: RequestParams,
    /// The limit that responses reported. Another value would mean another bound.
    pub(super) reported_limit: u64,
    /// Admissions by time, against each bound.
    tracks: Vec<AdmissionTrack>,
    window_ends: Option<WindowEndTrack>,
}

/// Admissions of a fixed window, by the end of their window as responses report it.
///
/// Two windows of one counter end at least a window's length apart. So admissions whose reported
/// ends are closer belong to the same window. A track over these ends, instead of over the times of
/// admission, therefore counts the admissions of each window.
#[derive(Debug)]
struct WindowEndTrack {
    track: AdmissionTrack,
    window: Micros,
}

impl CounterTrack {
    pub(super) fn new(
        limit_index: usize,
        params: RequestParams,
        reported_limit: u64,
        bounds: &LimitBounds,
    ) -> Self {
        let new_track = |bound: Bound, drift_ppm| {
            AdmissionTrack::with_events_max(bound.with_clock_drift(drift_ppm), EVENTS_MAX)
        };

        let tracks = [Some(bounds.any_interval), bounds.long_run]
            .into_iter()
            .flatten()
            .map(|bound| new_track(bound, CLOCK_DRIFT_PPM))
            .collect();
        let window_ends = bounds.per_window.map(|(limit, window)| {
            // An end is a duration by the service's clock added to a time by this one's, and the
            // distance of two ends has this error twice.
            WindowEndTrack {
                track: new_track(Bound::PerWindow { limit, window }, 2 * CLOCK_DRIFT_PPM),
                window,
            }
        });

        Self {
            limit_index,
            params,
            reported_limit,
            tracks,
            window_ends,
        }
    }

    /// Adds an admission at some time during `span`, with the reset time of its response. Returns
    /// whether the limit is exceeded.
    pub(super) fn admit(&mut self, span: TimeSpan, reset_after_ms: Option<u64>, cost: u64) -> bool {
        self.tracks
            .iter_mut()
            .for_each(|track| track.admit(span, cost));

        if let (Some(ends), Some(reset_after_ms)) = (&mut self.window_ends, reset_after_ms) {
            // The reset time was rounded up to a millisecond.
            let from = Micros::from_millis(reset_after_ms.saturating_sub(1));
            let to = Micros::from_millis(reset_after_ms);
            let end = TimeSpan {
                from: span.from.after(from),
                to: span.to.after(to),
            };
            ends.track.admit(end, cost);
        }

        self.worst().is_some_and(|worst| worst.excess.is_over())
    }

    /// The interval with the largest excess, or that came closest to one.
    pub(super) fn worst(&self) -> Option<AuditInterval> {
        let by_time = self.tracks.iter().filter_map(AdmissionTrack::worst);
        let by_window = self.window_ends.iter().filter_map(|ends| {
            let worst = ends.track.worst()?;
            Some(AuditInterval {
                start: worst.start.since(ends.window),
                ..worst
            })
        });

        by_time
            .chain(by_window)
            .max_by(|a, b| a.excess.units().total_cmp(&b.excess.units()))
    }
}
