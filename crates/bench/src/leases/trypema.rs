//! The trypema crate's hybrid provider, which counts locally and reports to a server every few
//! milliseconds.

use std::sync::Arc;

use anyhow::Result;
use testkit::servers::Server;
use tokio::runtime::Runtime;
use trypema::hybrid::HybridRateLimiterProvider;
use trypema::redis::{RedisKey, RedisKeyRef};
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize};

use super::threads::{Subject, SubjectDecision};
use crate::harness::{callers, scripts_run};

/// Its limits are rates over a sliding window.
const WINDOW_HOURS: u64 = 1;

pub(super) struct Hybrid {
    provider: Arc<HybridRateLimiterProvider>,
    rate: RateLimit,
    server: Arc<Server>,
    // Dropped after the provider that runs on it.
    runtime: Runtime,
}

impl Hybrid {
    /// Connects with a limit of `limit` requests per hour.
    pub(super) fn connect(server: &Arc<Server>, prefix: &str, limit: u32) -> Result<Self> {
        let rate = RateLimit::per_hour(limit.into())?;
        let window = WindowSize::hours(WINDOW_HOURS)?;
        let prefix = RedisKey::try_from(prefix.to_owned())?;
        let runtime = callers::Runtime::TwoWorkers.build()?;
        let provider = runtime.block_on(async {
            let client = redis_rs::Client::open(server.url())?;
            let connection = client.get_connection_manager().await?;
            let builder = HybridRateLimiterProvider::builder(connection)
                .prefix(prefix)
                .window_size(window);
            anyhow::Ok(builder.build()?)
        })?;
        Ok(Self {
            provider,
            rate,
            server: server.clone(),
            runtime,
        })
    }

    /// Does what its documentation says for a decision that is not known locally.
    #[cold]
    fn wait(&self, key: &str) -> Result<SubjectDecision> {
        let key = RedisKey::try_from(key.to_owned())?;
        let inc = self.provider.absolute().inc(&key, &self.rate, 1);
        let decision = self.runtime.block_on(inc)?;
        let is_allowed = matches!(decision, RateLimitDecision::Allowed);
        Ok(SubjectDecision::waited(is_allowed))
    }
}

impl Subject for Hybrid {
    #[inline]
    fn ask(&self, key: &str) -> Result<SubjectDecision> {
        let known =
            RedisKeyRef::try_from(key).and_then(|key| self.provider.absolute().try_inc(key, 1));
        match known? {
            Some(decision) => {
                let is_allowed = matches!(decision, RateLimitDecision::Allowed);
                Ok(SubjectDecision::local(is_allowed))
            }
            None => self.wait(key),
        }
    }

    /// All script calls of the server: there is no other client meanwhile.
    fn calls(&self) -> u64 {
        scripts_run(&self.server)
    }

    fn rest(&self) -> Result<()> {
        Ok(())
    }
}
