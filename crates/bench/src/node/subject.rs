//! The applications, each a process of its own that `clients/node/bench/app.mjs` runs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;
use testkit::servers::{Flavor, Server};

use crate::harness::{Process, ServerUnderLoad, process, word};

/// Connections of the load generator, each with one request in flight.
const CONNECTIONS: u32 = 16;

/// An application: Express, and the limiter in front of its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Subject {
    /// Nothing.
    Express,
    /// Tollgate in the process, in memory.
    Memory,
    /// Tollgate in the process, leased on Redis.
    Leased,
    /// Tollgate in the process, strict on Redis.
    Strict,
    /// The service over HTTP, leased on Redis.
    HttpLeased,
    /// The service over HTTP, strict on Redis.
    HttpStrict,
    /// express-rate-limit with rate-limit-redis.
    ExpressRateLimit,
    /// rate-limiter-flexible on Redis.
    RateLimiterFlexible,
}

impl Subject {
    /// As it is called in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Express => "express alone",
            Self::Memory => "tollgate in process, memory",
            Self::Leased => "tollgate in process, leased",
            Self::Strict => "tollgate in process, strict",
            Self::HttpLeased => "tollgate over HTTP, leased",
            Self::HttpStrict => "tollgate over HTTP, strict",
            Self::ExpressRateLimit => "express-rate-limit, Redis",
            Self::RateLimiterFlexible => "rate-limiter-flexible, Redis",
        }
    }

    /// The consistency of the service's limit, for a client of the service.
    const fn service(self) -> Option<&'static str> {
        match self {
            Self::HttpLeased => Some("leased"),
            Self::HttpStrict => Some("strict"),
            _ => None,
        }
    }

    /// Starts the application with the servers it needs, and waits until it responds.
    pub(super) fn start(self, package: &Path, tollgate: &Path) -> Result<ServerUnderLoad> {
        let is_local = matches!(self, Self::Express | Self::Memory);
        let redis = (!is_local).then(|| Server::start(Flavor::Redis));

        let mut command = Command::new("node");
        command.arg(package.join("bench/app.mjs")).arg(word(&self));
        command.env("NODE_ENV", "production");
        if let Some(redis) = &redis {
            command.env("REDIS_URL", redis.url());
        }
        let mut beside = None;
        if let (Some(consistency), Some(redis)) = (self.service(), &redis) {
            let (service, address) = start_service(tollgate, &redis.url(), consistency)?;
            command.env("TOLLGATE_URL", format!("http://{address}"));
            beside = Some(service);
        }

        Ok(ServerUnderLoad {
            beside,
            redis,
            ..ServerUnderLoad::start(self.name(), command, CONNECTIONS, 200)?
        })
    }
}

/// Starts the service with a limit that never runs out, and returns the address of its HTTP port.
fn start_service(tollgate: &Path, redis: &str, consistency: &str) -> Result<(Process, SocketAddr)> {
    let config = format!(
        "store: {{ type: redis, endpoints: [\"{redis}\"], timeout: 1s }}\n\
         limits:\n  - {{ name: api, key: [key], algorithm: token_bucket, capacity: 1000000, \
         refill_rate: 1000000/s, consistency: {consistency}, on_store_failure: deny }}\n"
    );
    let mut service = Process::serve(tollgate, &config, |_| ())?;
    let address = service.announced("http")?;
    Ok((service, address))
}

/// The version of Node.
pub(super) fn node_version() -> Result<String> {
    Ok(format!("Node {}", process::version("node")?))
}
