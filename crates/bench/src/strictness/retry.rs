//! Whether what a denial says about the time is true: who waits exactly so long, alone, must pass.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::client::{Connection, Question};
use super::limits::Limit;
use super::load::pause_until;
use crate::timing;

/// How often a replica is asked until it refuses.
const ASKED_MAX: usize = 500;
/// What takes longer is not waited for.
const WAIT_MAX: Duration = Duration::from_millis(1_500);

/// How many of those who waited passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Truth {
    pub(super) kept: usize,
    pub(super) of: usize,
}

#[derive(Debug, Deserialize)]
struct Told {
    allowed: bool,
    limits: Vec<LimitTold>,
}

#[derive(Debug, Deserialize)]
struct LimitTold {
    remaining: u64,
    retry_after_ms: Option<u64>,
}

/// Tries every replica in turn, with nobody else asking.
pub(super) fn truth(
    runtime: &Runtime,
    replicas: &[SocketAddr],
    question: &Question,
    limit: &Limit,
) -> io::Result<Truth> {
    let mut truth = Truth::default();
    for replica in replicas {
        let connection = runtime.block_on(Connection::open(*replica))?;
        let mut asker = Asker {
            runtime,
            connection,
            question,
            request: String::new(),
        };
        // So much that it does not come back faster than one can ask.
        let cost = u32::try_from(limit.per_s() / 1_000)
            .unwrap_or(u32::MAX)
            .max(1);
        if let Some(kept) = asker.is_kept(cost)? {
            truth.of += 1;
            truth.kept += usize::from(kept);
        }
    }
    Ok(truth)
}

struct Asker<'a> {
    runtime: &'a Runtime,
    connection: Connection,
    question: &'a Question,
    request: String,
}

impl Asker<'_> {
    /// Asks until it is refused, waits as long as it is told and asks again. Nothing if it is not
    /// refused, or for long.
    fn is_kept(&mut self, cost: u32) -> io::Result<Option<bool>> {
        let Some(retry_after) = self.refusal(cost)? else {
            return Ok(None);
        };
        if retry_after > WAIT_MAX {
            return Ok(None);
        }
        pause_until(timing::now() + retry_after);
        self.ask(cost).map(|told| Some(told.allowed))
    }

    /// Takes what is left at once, where that is known, and the rest bit by bit.
    fn refusal(&mut self, cost: u32) -> io::Result<Option<Duration>> {
        let mut next = cost;
        for _ in 0..ASKED_MAX {
            let told = self.ask(next)?;
            let limit = told.limits.first();
            if !told.allowed && next == cost {
                let retry_after_ms = limit.and_then(|limit| limit.retry_after_ms);
                return Ok(retry_after_ms.map(Duration::from_millis));
            }
            let left = limit.map_or(0, |limit| limit.remaining);
            let left = if told.allowed {
                u32::try_from(left).unwrap_or(cost)
            } else {
                cost
            };
            next = left.max(cost);
        }
        Ok(None)
    }

    fn ask(&mut self, cost: u32) -> io::Result<Told> {
        self.question.write(&mut self.request, 0, cost);
        let answer = self.runtime.block_on(self.connection.ask(&self.request))?;
        serde_json::from_slice(answer.body).map_err(io::Error::other)
    }
}
