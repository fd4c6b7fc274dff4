//! Strict limits: tasks that wait for the store, and share its round trips.

use std::io;

use tollgate::{Consistency, Limiter, Source};
use tollgate_redis::RedisBuilder;

use super::STRICT;
use super::case::{Case, KEY, LIMIT};
use crate::harness::Entrant;
use crate::harness::callers::{Caller, ConnectedCallers, Runtime, in_process};
use crate::harness::server;

struct StrictCaller {
    limiter: Limiter,
    case: Case,
}

/// Callers that share one store.
pub(super) fn entrant(
    url: &str,
    prefix: &str,
    case: Case,
    callers: usize,
) -> io::Result<Entrant<'static>> {
    let connect = async {
        let store = server::connect(RedisBuilder::standalone(url).prefix(prefix)).await?;
        let limit = case.limit().consistency(Consistency::Strict);
        let limiter = Limiter::new(store.clone(), [limit]).map_err(io::Error::other)?;
        while is_allowed(&limiter).await? && case == Case::Denied {}

        let caller = |_| StrictCaller {
            limiter: limiter.clone(),
            case,
        };
        Ok(ConnectedCallers {
            callers: (0..callers).map(caller).collect(),
            calls: Some(Box::new(move || store.stats().script_calls)),
        })
    };
    in_process(STRICT, 1, Runtime::TwoWorkers, connect)
}

impl Caller for StrictCaller {
    async fn ask(&mut self, _: u32) -> io::Result<()> {
        if is_allowed(&self.limiter).await? == (self.case == Case::Hot) {
            Ok(())
        } else {
            Err(io::Error::other(format!("{}: wrong decision", self.case)))
        }
    }
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
