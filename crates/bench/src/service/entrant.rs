//! Who is measured: a server in a process of its own, ready to be asked.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;
use testkit::servers::Server;

use super::question::Protocol;
use super::viewer::Viewer;
use crate::h2load::{H2load, Round, Target};
use crate::percentiles::Percentiles;
use crate::process::Process;

/// Whom a number belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    /// `tollgate serve` on memory.
    Memory,
    /// The same with its dashboard open.
    Watched,
    /// The same on Redis, strict.
    Redis,
    /// The same on Redis, leased.
    Leased,
    /// Another build of it, on memory.
    Beside(String),
    /// A server that answers without deciding, as briefly as can be.
    Bare,
    /// The same with everything that Tollgate tells a client.
    BareWithHeaders,
    /// throttlecrab-server, on memory as always.
    Throttlecrab,
}

/// A subject that is running.
pub(super) struct Entrant {
    pub(super) subject: Subject,
    pub(super) protocol: Protocol,
    pub(super) target: Target,
    /// Who looks at it meanwhile.
    pub(super) viewer: Option<Viewer>,
    // Before the server it asks.
    pub(super) process: Process,
    pub(super) redis: Option<Server>,
}

impl Subject {
    /// How its limits are shared, where it has a server to share them on.
    pub(super) const fn consistency(&self) -> Option<&'static str> {
        match self {
            Self::Redis => Some("strict"),
            Self::Leased => Some("leased"),
            Self::Memory
            | Self::Watched
            | Self::Beside(_)
            | Self::Bare
            | Self::BareWithHeaders
            | Self::Throttlecrab => None,
        }
    }

    /// The name over a protocol.
    pub(super) fn over(&self, protocol: Protocol) -> String {
        match (self, protocol) {
            (Self::Bare, Protocol::Http) => "bare axum".to_owned(),
            (Self::Bare, Protocol::Grpc) => "bare tonic".to_owned(),
            (Self::BareWithHeaders, Protocol::Http) => "bare axum, all headers".to_owned(),
            (Self::BareWithHeaders, Protocol::Grpc) => "bare tonic, all fields".to_owned(),
            (other, _) => other.to_string(),
        }
    }
}

/// The name over either protocol.
impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("tollgate, memory"),
            Self::Watched => out.write_str("tollgate, dashboard open"),
            Self::Redis => out.write_str("tollgate, Redis"),
            Self::Leased => out.write_str("tollgate, Redis, leased"),
            Self::Beside(name) => write!(out, "{name}, memory"),
            Self::Bare => out.write_str("bare axum or tonic"),
            Self::BareWithHeaders => out.write_str("bare, same headers"),
            Self::Throttlecrab => out.write_str("throttlecrab-server"),
        }
    }
}

impl Entrant {
    /// The processes that work when it is asked.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.process.pid()).chain(self.redis.as_ref().map(Server::pid))
    }

    pub(super) fn round(&self, h2load: &H2load, length: Duration) -> io::Result<Round> {
        let round = h2load
            .round(&self.target, self.process.pid(), length)
            .map_err(|error| self.named(&error))?;
        if self
            .viewer
            .as_ref()
            .is_some_and(|viewer| !viewer.is_there())
        {
            return Err(self.named(&io::Error::other(
                "whoever had the dashboard open was sent away",
            )));
        }
        Ok(round)
    }

    pub(super) fn latencies(&self, h2load: &H2load, length: Duration) -> io::Result<Percentiles> {
        h2load
            .latencies(&self.target, length)
            .map_err(|error| self.named(&error))
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::other(format!("{}: {error}", self.subject.over(self.protocol)))
    }
}
