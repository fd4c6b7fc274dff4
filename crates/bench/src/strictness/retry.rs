//! Whether retry times are correct: a client that waits exactly as long as a denial says, without
//! competition, must be admitted.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;

use super::cells::Cell;
use super::fleet::check;
use super::limits::{self, SECOND_US};
use crate::harness::{Figures, float, timing};

/// The most requests to a replica until it denies one.
const REQUESTS_MAX: usize = 500;
/// Longer retry times are not tried.
const WAIT_MAX: Duration = Duration::from_millis(1_500);

/// How many retries were sent, and how many of them were admitted.
pub(super) const RETRIES: &str = "retries";
pub(super) const KEPT: &str = "retries_kept";

#[derive(Debug, Deserialize)]
struct RetryResponse {
    allowed: bool,
    limits: [RetryLimit; 1],
}

#[derive(Debug, Deserialize)]
struct RetryLimit {
    remaining: u64,
    retry_after_ms: Option<u64>,
}

/// Tries every replica in turn, without other load. On each, sends requests until one is denied,
/// waits for the reported retry time and sends it again.
pub(super) fn try_retry_times(
    replicas: impl Iterator<Item = SocketAddr>,
    cell: &Cell,
    user: &str,
) -> Result<Figures> {
    // A cost large enough that it is not refilled faster than requests can be sent.
    let cost = (limits::refilled(&limits::quota(cell.limit), SECOND_US) / 100).max(1);
    let (mut retries, mut kept) = (0, 0);
    for replica in replicas {
        let send = |cost| -> Result<RetryResponse> {
            let response = check(replica, "/v1/check", user, cell.limit, cost);
            Ok(serde_json::from_slice(&response.body)?)
        };
        if let Some(wait) = retry_time(cost, send)?.filter(|wait| *wait <= WAIT_MAX) {
            pause(wait);
            retries += 1;
            kept += u64::from(send(cost)?.allowed);
        }
    }
    Ok(Figures::from([
        (RETRIES, float(retries)),
        (KEPT, float(kept)),
    ]))
}

/// Takes what remains with one request, where that is known, and the rest bit by bit. Returns the
/// retry time of the first denial of `cost` units.
fn retry_time(cost: u64, send: impl Fn(u64) -> Result<RetryResponse>) -> Result<Option<Duration>> {
    let mut next = cost;
    for _ in 0..REQUESTS_MAX {
        let RetryResponse {
            allowed,
            limits: [limit],
        } = send(next)?;
        if !allowed && next == cost {
            return Ok(limit.retry_after_ms.map(Duration::from_millis));
        }
        next = if allowed {
            limit.remaining.max(cost)
        } else {
            cost
        };
    }
    Ok(None)
}

/// Waits on this thread.
pub(super) fn pause(length: Duration) {
    let end = timing::now() + length;
    let left = || end.saturating_duration_since(timing::now());
    while !left().is_zero() {
        thread::park_timeout(left());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_first_denial_of_the_cost_has_the_retry_time() {
        // 30 units, of which the first response knows 7.
        let left = Cell::new(30_u64);
        let sent = |cost| {
            let allowed = cost <= left.get();
            if allowed {
                left.set(left.get() - cost);
            }
            let remaining = left.get().min(7);
            let retry_after_ms = Some(cost);
            Ok(RetryResponse {
                allowed,
                limits: [RetryLimit {
                    remaining,
                    retry_after_ms,
                }],
            })
        };
        let found = retry_time(2, sent).unwrap();
        assert_eq!((found, left.get()), (Some(Duration::from_millis(2)), 0));
    }
}
