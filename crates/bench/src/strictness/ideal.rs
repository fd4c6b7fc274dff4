//! What an ideal limiter would have admitted of the same requests: one central limiter without
//! latency, which is the embedded store on a manual clock set to the time of each request.
//!
//! The time of a request is the time at which it was due. On a machine that cannot keep up,
//! requests are sent later than that and more units are refilled in between, so a real limiter
//! could look better than the ideal one. Therefore the send times are replayed as well, and the
//! ideal is the replay that admits more.

use std::io;

use tollgate::{Limit, Limiter, ManualClock, MemoryStore, Micros};
use tollgate_load::TracedRequest;

use super::limits;

/// The result of the ideal limiter, and how much was admitted compared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct IdealResult {
    /// Units admitted by the ideal limiter.
    pub(super) units: u64,
    /// Units admitted, relative to that.
    pub(super) utilisation: Option<f64>,
    /// The same from the time at which the ideal limiter first denied a request that could be
    /// admitted at another time. This excludes the burst, which is easy to admit.
    pub(super) utilisation_full: Option<f64>,
}

/// Replays a trace with the ideal limiter, on a store clock that shows `epoch_us` at the start.
pub(super) fn replay(
    limit: &str,
    trace: &[TracedRequest],
    epoch_us: u64,
) -> io::Result<IdealResult> {
    let due = replay_at(|traced| traced.request.due_us, limit, trace, epoch_us)?;
    let sent_us = |traced: &TracedRequest| match traced.decision {
        Some(decision) => decision.sent_us,
        None => traced.request.due_us,
    };
    let sent = replay_at(sent_us, limit, trace, epoch_us)?;
    Ok(if sent.units > due.units { sent } else { due })
}

fn replay_at(
    time_us: fn(&TracedRequest) -> u64,
    limit: &str,
    trace: &[TracedRequest],
    epoch_us: u64,
) -> io::Result<IdealResult> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let rule = Limit::new(limit, limits::quota(limit));
    let limiter = Limiter::new(store, [rule]).map_err(io::Error::other)?;
    let mut in_order: Vec<&TracedRequest> = trace.iter().collect();
    in_order.sort_by_key(|traced| time_us(traced));

    // Units of the trace and of the ideal limiter: all, and those since it was used up.
    let (mut all, mut since_full, mut is_full) = ([0; 2], [0; 2], false);
    for traced in in_order {
        let params = traced.request.params;
        let cost = params.cost.unwrap_or(1);
        clock.set(Micros::new(epoch_us + time_us(traced)));
        let check = limiter.check(limit, u64::from(params.key)).cost(cost);
        let decision = check.try_now().map_err(io::Error::other)?;

        is_full |= !decision.is_allowed() && !decision.is_never();
        let was_allowed = traced.decision.is_some_and(|decision| decision.is_allowed);
        for (index, is_allowed) in [was_allowed, decision.is_allowed()].into_iter().enumerate() {
            all[index] += cost * u64::from(is_allowed);
            since_full[index] += cost * u64::from(is_allowed && is_full);
        }
    }
    Ok(IdealResult {
        units: all[1],
        utilisation: ratio(all),
        utilisation_full: ratio(since_full),
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown to a few digits")]
fn ratio([had, ideal]: [u64; 2]) -> Option<f64> {
    (ideal > 0).then(|| had as f64 / ideal as f64)
}

#[cfg(test)]
mod tests {
    use tollgate_load::{DecisionSource, RequestParams, ScheduledRequest, TracedDecision};

    use super::*;

    /// Requests of which the first of every `of` is admitted, each sent `late_us` later than the
    /// one before.
    fn trace(count: u64, every_us: u64, of: u64, late_us: u64) -> Vec<TracedRequest> {
        let traced = |index: u64| TracedRequest {
            request: ScheduledRequest {
                due_us: index * every_us,
                replica: 0,
                params: RequestParams {
                    key: 0,
                    address: 0,
                    cost: Some(1),
                },
            },
            decision: Some(TracedDecision {
                sent_us: index * (every_us + late_us),
                received_us: index * (every_us + late_us),
                is_allowed: index.is_multiple_of(of),
                source: DecisionSource::Store,
            }),
        };
        (0..count).map(traced).collect()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_its_rate() {
        // Twenty requests a second for two seconds, on a bucket of ten units that refills ten a
        // second.
        let ideal = replay("10-per-s", &trace(40, 50_000, 2, 0), 7).unwrap();
        assert_eq!(ideal.units, 29);
        assert!((ideal.utilisation.unwrap() - 20.0 / 29.0).abs() < 1e-9);
        // Once it is used up, every second request is admitted, as with the ideal limiter.
        assert!((ideal.utilisation_full.unwrap() - 1.0).abs() < 0.11);
    }

    #[test]
    fn a_late_load_does_not_improve_the_result() {
        let late = replay("10-per-s", &trace(40, 50_000, 1, 50_000), 7).unwrap();
        assert_eq!((late.units, late.utilisation), (40, Some(1.0)));
    }

    #[test]
    fn windows_begin_where_the_stores_clock_says() {
        let burst = trace(600, 1, 1, 0);
        assert_eq!(replay("fixed-500", &burst, 5_000_000).unwrap().units, 500);
        assert_eq!(replay("fixed-500", &burst, 5_999_900).unwrap().units, 600);
    }

    #[test]
    fn a_limit_that_was_never_used_up_has_no_second_figure() {
        let ideal = replay("10-per-s", &trace(5, 50_000, 1, 0), 0).unwrap();
        assert_eq!((ideal.units, ideal.utilisation_full), (5, None));
    }
}
