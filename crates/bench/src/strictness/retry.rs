//! Whether retry times are correct: a client that waits exactly as long as a denial says, without
//! competition, must be admitted.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::client::{CheckRequest, Connection};
use super::limits::Limit;
use super::load::pause_until;
use crate::timing;

/// The most requests to a replica until it denies one.
const REQUESTS_MAX: usize = 500;
/// Longer retry times are not tried.
const WAIT_MAX: Duration = Duration::from_millis(1_500);

/// How many retries were admitted, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct RetryResult {
    pub(super) kept: usize,
    pub(super) of: usize,
}

#[derive(Debug, Deserialize)]
struct RetryResponse {
    allowed: bool,
    limits: Vec<RetryLimit>,
}

#[derive(Debug, Deserialize)]
struct RetryLimit {
    remaining: u64,
    retry_after_ms: Option<u64>,
}

/// Tries every replica in turn, without other load.
pub(super) fn try_retry_times(
    runtime: &Runtime,
    replicas: &[SocketAddr],
    check_request: &CheckRequest,
    limit: &Limit,
) -> io::Result<RetryResult> {
    let mut result = RetryResult::default();
    for replica in replicas {
        let connection = runtime.block_on(Connection::open(*replica))?;
        let mut probe = RetryProbe {
            runtime,
            connection,
            check_request,
            request: String::new(),
        };
        // A cost large enough that it is not refilled faster than requests can be sent.
        let cost = u32::try_from(limit.per_s() / 1_000)
            .unwrap_or(u32::MAX)
            .max(1);
        if let Some(kept) = probe.is_kept(cost)? {
            result.of += 1;
            result.kept += usize::from(kept);
        }
    }
    Ok(result)
}

struct RetryProbe<'a> {
    runtime: &'a Runtime,
    connection: Connection,
    check_request: &'a CheckRequest,
    request: String,
}

impl RetryProbe<'_> {
    /// Sends requests until one is denied, waits for the reported retry time and sends it again.
    /// Returns `None` if none is denied, or if the retry time is too long.
    fn is_kept(&mut self, cost: u32) -> io::Result<Option<bool>> {
        let Some(retry_after) = self.refusal(cost)? else {
            return Ok(None);
        };
        if retry_after > WAIT_MAX {
            return Ok(None);
        }
        pause_until(timing::now() + retry_after);
        self.ask(cost).map(|response| Some(response.allowed))
    }

    /// Takes what remains with one request, where that is known, and the rest bit by bit.
    fn refusal(&mut self, cost: u32) -> io::Result<Option<Duration>> {
        let mut next = cost;
        for _ in 0..REQUESTS_MAX {
            let response = self.ask(next)?;
            let limit = response.limits.first();
            if !response.allowed && next == cost {
                let retry_after_ms = limit.and_then(|limit| limit.retry_after_ms);
                return Ok(retry_after_ms.map(Duration::from_millis));
            }
            let left = limit.map_or(0, |limit| limit.remaining);
            let left = if response.allowed {
                u32::try_from(left).unwrap_or(cost)
            } else {
                cost
            };
            next = left.max(cost);
        }
        Ok(None)
    }

    fn ask(&mut self, cost: u32) -> io::Result<RetryResponse> {
        self.check_request.write(&mut self.request, 0, cost);
        let answer = self.runtime.block_on(self.connection.ask(&self.request))?;
        serde_json::from_slice(answer.body).map_err(io::Error::other)
    }
}
