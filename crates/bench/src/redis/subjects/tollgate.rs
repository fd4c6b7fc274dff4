//! Tollgate on its Redis store, through the limiter, as a program would.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{Limiter, Source};
use tollgate_redis::RedisBuilder;

use super::super::entrant::{Caller, Connected};
use super::super::question::{self, LIMIT};
use super::super::target::Target;

/// Long enough for any decision on a machine that does too much else; see the notes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long the store may take to connect.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Asking {
    limiter: Limiter,
    names: Arc<[String]>,
}

/// Callers of one store.
pub(super) async fn connect(
    target: &Target,
    keys: u32,
    callers: usize,
) -> io::Result<Connected<Asking>> {
    let store = RedisBuilder::standalone(target.server.url())
        .timeout(TIMEOUT)
        .build();
    let store = store.map_err(io::Error::other)?;
    if !store.ready(PATIENCE).await {
        return Err(io::Error::other("the store does not connect"));
    }
    let limiter = Limiter::new(store.clone(), [question::limit()]);
    let names: Arc<[String]> = (0..keys).map(question::name).collect();
    let callers = (0..callers)
        .map(|_| Asking {
            limiter: limiter.clone(),
            names: names.clone(),
        })
        .collect();
    Ok(Connected {
        callers,
        calls: Some(Box::new(move || store.stats().calls)),
    })
}

impl Caller for Asking {
    async fn ask(&mut self, key: u32) -> io::Result<()> {
        let key = self.names[key as usize].as_str();
        let decision = self
            .limiter
            .check(LIMIT, key)
            .await
            .map_err(io::Error::other)?;
        if decision.is_allowed() && decision.source() == Source::Store {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "not what the store should say: {decision:?}"
            )))
        }
    }
}
