//! Strict limits: tasks that wait for the store, and share its round trips.

use std::io;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate::{Consistency, Limiter, Source};

use super::case::{Case, LIMIT};
use super::entrant::{Entrant, Load, float};
use super::report::Round;
use super::subjects::{STRICT, SharedLimiter};
use crate::timing::now;

const KEY: &str = "user-000000000042";

/// Callers that share one store.
pub(super) struct StrictCallers {
    shared: SharedLimiter,
    case: Case,
    callers: u32,
}

impl StrictCallers {
    pub(super) fn connect(url: &str, prefix: &str, case: Case, callers: u32) -> io::Result<Self> {
        let shared = SharedLimiter::connect(
            url,
            prefix,
            case.limit().consistency(Consistency::Strict),
            1,
        )?;
        shared.runtime.block_on(async {
            while is_allowed(&shared.limiter).await? && case == Case::Denied {}
            Ok::<_, io::Error>(())
        })?;
        Ok(Self {
            shared,
            case,
            callers,
        })
    }

    async fn ask(&self, until: Instant) -> io::Result<u64> {
        let mut tasks = JoinSet::new();
        for _ in 0..self.callers {
            tasks.spawn(ask_until(self.shared.limiter.clone(), self.case, until));
        }
        tasks.join_all().await.into_iter().sum()
    }
}

async fn ask_until(limiter: Limiter, case: Case, until: Instant) -> io::Result<u64> {
    let mut asked = 0;
    while now() < until {
        if is_allowed(&limiter).await? != (case == Case::Hot) {
            return Err(io::Error::other(format!(
                "{STRICT}, {case}: wrong decision"
            )));
        }
        asked += 1;
    }
    Ok(asked)
}

/// The decision of the store; a decision from any other source is an error.
async fn is_allowed(limiter: &Limiter) -> io::Result<bool> {
    let decision = limiter.check(LIMIT, KEY).await.map_err(io::Error::other)?;
    if decision.source() == Source::Store {
        Ok(decision.is_allowed())
    } else {
        Err(io::Error::other(format!(
            "unexpected decision: {decision:?}"
        )))
    }
}

impl Entrant for StrictCallers {
    fn subject(&self) -> &'static str {
        STRICT
    }

    fn load(&self) -> Load {
        Load::Callers(self.callers)
    }

    fn round(&mut self, length: Duration) -> io::Result<Round> {
        let calls_before = self.shared.store.stats().script_calls;
        let start = now();
        let asked = self.shared.runtime.block_on(self.ask(start + length))?;
        let took = now() - start;
        let calls = self.shared.store.stats().script_calls - calls_before;
        let decisions_per_s = float(asked) / took.as_secs_f64();
        Ok(Round {
            ns_per_decision: 1e9 / decisions_per_s,
            decisions_per_s,
            local: 0.0,
            calls_per_decision: float(calls) / float(asked),
            waited: 0.0,
        })
    }
}
