//! Tollgate with its Redis store, called through the limiter, as an application does.

use std::io;
use std::sync::Arc;

use tollgate::{Limiter, Source};
use tollgate_redis::RedisBuilder;

use super::check_script::{self, LIMIT};
use super::target::Target;
use crate::harness::callers::{Caller, ConnectedCallers};
use crate::harness::server::connect as connect_store;

pub(super) struct TollgateCaller {
    limiter: Limiter,
    names: Arc<[String]>,
}

/// Callers that share one store.
pub(super) async fn connect(
    target: &Target,
    keys: u32,
    callers: usize,
) -> io::Result<ConnectedCallers<TollgateCaller>> {
    let store = connect_store(RedisBuilder::standalone(target.server.url())).await?;
    let limiter = Limiter::new(store.clone(), [check_script::limit()]).map_err(io::Error::other)?;
    let names: Arc<[String]> = (0..keys).map(check_script::name).collect();
    let callers = (0..callers)
        .map(|_| TollgateCaller {
            limiter: limiter.clone(),
            names: names.clone(),
        })
        .collect();
    Ok(ConnectedCallers {
        callers,
        calls: Some(Box::new(move || store.stats().script_calls)),
    })
}

impl Caller for TollgateCaller {
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
                "unexpected decision: {decision:?}"
            )))
        }
    }
}
