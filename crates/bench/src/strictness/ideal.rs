//! What an ideal limiter would have admitted of the same requests: one central limiter without
//! latency, which is the embedded store on a manual clock set to the time of each request.
//!
//! The time of a request is the time at which it was due. On a machine that cannot keep up,
//! requests are sent later than that and more units are refilled in between, so a real limiter
//! could look better than the ideal one. Therefore the send times are replayed as well, and the
//! ideal is the replay that admits more.

use std::collections::HashSet;

use anyhow::Result;
use tollgate::{Limit, Limiter, ManualClock, MemoryStore, Micros};
use tollgate_load::{DecisionSource, TracedRequest};

use super::limits;
use crate::harness::{Figures, float, per};

/// Units admitted by the ideal limiter.
pub(super) const UNITS: &str = "ideal_units";
/// Units admitted, relative to that.
pub(super) const UTILISATION: &str = "utilisation";
/// The same from the time at which the ideal limiter first denied a request that could be admitted
/// at another time. This excludes the burst, which is easy to admit.
const UTILISATION_FULL: &str = "utilisation_full";
/// The lower of the two.
pub(super) const UTILISATION_LOWEST: &str = "utilisation_lowest";
/// Denials of keys that stayed within their limit: the ideal limiter never denies them.
const FALSE_DENIALS: &str = "false_denials";

/// Replays a trace with the ideal limiter, on a store clock that shows `epoch_us` at the start.
pub(super) fn replay(limit: &str, trace: &[TracedRequest], epoch_us: u64) -> Result<Figures> {
    let due = replay_at(|traced| traced.request.due_us, limit, trace, epoch_us)?;
    let sent_us = |traced: &TracedRequest| match traced.decision {
        Some(decision) => decision.sent_us,
        None => traced.request.due_us,
    };
    let sent = replay_at(sent_us, limit, trace, epoch_us)?;
    Ok(if sent[UNITS] > due[UNITS] { sent } else { due })
}

fn replay_at(
    time_us: fn(&TracedRequest) -> u64,
    limit: &str,
    trace: &[TracedRequest],
    epoch_us: u64,
) -> Result<Figures> {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let rule = Limit::new(limit, limits::quota(limit));
    let limiter = Limiter::new(store, [rule])?;
    let mut in_order: Vec<&TracedRequest> = trace.iter().collect();
    in_order.sort_by_key(|traced| time_us(traced));

    // Units of the trace and of the ideal limiter: all, and those since it was used up.
    let (mut all, mut since_full, mut is_full) = ([0; 2], [0; 2], false);
    let mut exhausted_keys = HashSet::new();
    for traced in in_order {
        let params = traced.request.params;
        let cost = params.cost.unwrap_or(1);
        clock.set(Micros::new(epoch_us + time_us(traced)));
        let check = limiter.check(limit, u64::from(params.key)).cost(cost);
        let decision = check.try_now()?;

        is_full |= !decision.is_allowed() && !decision.is_never();
        if !decision.is_allowed() {
            exhausted_keys.insert(params.key);
        }
        let was_allowed = traced.decision.is_some_and(|decision| decision.is_allowed);
        for (index, is_allowed) in [was_allowed, decision.is_allowed()].into_iter().enumerate() {
            all[index] += cost * u64::from(is_allowed);
            since_full[index] += cost * u64::from(is_allowed && is_full);
        }
    }
    let [utilisation, full] = [all, since_full].map(|[had, ideal]| per(had, ideal));
    Ok(Figures::from([
        (UNITS, float(all[1])),
        (UTILISATION, utilisation),
        (UTILISATION_FULL, full),
        (FALSE_DENIALS, false_denials(trace, &exhausted_keys)),
        // The other one if one of them is not a number.
        (UTILISATION_LOWEST, utilisation.min(full)),
    ]))
}

/// How many requests were denied by the store or by a remembered denial, of keys other than these.
fn false_denials(trace: &[TracedRequest], exhausted_keys: &HashSet<u32>) -> f64 {
    let is_false = |traced: &&TracedRequest| {
        let is_denied = traced.decision.is_some_and(|decision| {
            !decision.is_allowed && decision.source != DecisionSource::Fallback
        });
        is_denied && !exhausted_keys.contains(&traced.request.params.key)
    };
    float(trace.iter().filter(is_false).count() as u64)
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

    fn units(figures: &Figures) -> String {
        figures[UNITS].to_string()
    }

    #[test]
    fn a_bucket_gives_its_burst_and_its_rate() {
        // Twenty requests a second for two seconds, on a bucket of ten units that refills ten a
        // second.
        let ideal = replay("10-per-s", &trace(40, 50_000, 2, 0), 7).unwrap();
        assert_eq!(units(&ideal), "29");
        assert!((ideal[UTILISATION] - 20.0 / 29.0).abs() < 1e-9);
        // Once it is used up, every second request is admitted, as with the ideal limiter.
        assert!((ideal[UTILISATION_FULL] - 1.0).abs() < 0.11);
        assert!((ideal[UTILISATION_LOWEST] - 20.0 / 29.0).abs() < 1e-9);
    }

    #[test]
    fn a_late_load_does_not_improve_the_result() {
        let late = replay("10-per-s", &trace(40, 50_000, 1, 50_000), 7).unwrap();
        assert_eq!(units(&late), "40");
        assert!((late[UTILISATION] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn windows_begin_where_the_stores_clock_says() {
        let burst = trace(600, 1, 1, 0);
        let units_from = |epoch_us| units(&replay("fixed-500", &burst, epoch_us).unwrap());
        assert_eq!(units_from(5_000_000), "500");
        assert_eq!(units_from(5_999_900), "600");
    }

    #[test]
    fn a_denial_is_false_if_its_key_stayed_within_the_limit() {
        let false_denials = |requests| {
            let replayed = replay("10-per-s", &trace(requests, 50_000, 2, 0), 0).unwrap();
            replayed[FALSE_DENIALS].to_string()
        };
        assert_eq!(false_denials(10), "5");
        assert_eq!(false_denials(40), "0");
    }

    #[test]
    fn a_limit_that_was_never_used_up_has_no_second_figure() {
        let ideal = replay("10-per-s", &trace(5, 50_000, 1, 0), 0).unwrap();
        assert_eq!(units(&ideal), "5");
        assert!(ideal[UTILISATION_FULL].is_nan() && !ideal[UTILISATION_LOWEST].is_nan());
    }
}
