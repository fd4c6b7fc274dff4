//! The subjects: servers in separate processes, ready to be measured.

use std::fmt;
use std::io;
use std::time::Duration;

use serde::Serialize;
use testkit::servers::Server;

use super::request::Protocol;
use super::viewer::Viewer;
use crate::h2load::{H2load, Round, Target};
use crate::percentiles::Percentiles;
use crate::process::Process;

/// A subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    /// `tollgate serve` with the embedded store.
    Memory,
    /// The same with its dashboard open.
    #[serde(rename = "watched")]
    DashboardOpen,
    /// `tollgate serve` with a Redis store and strict limits.
    Redis,
    /// `tollgate serve` with a Redis store and leased limits.
    Leased,
    /// `tollgate serve` with the embedded store and 1,000 limits, as many of which apply as with
    /// [`Memory`](Self::Memory).
    ManyLimits,
    /// Another build of tollgate, with the embedded store.
    #[serde(rename = "beside")]
    OtherBuild(String),
    /// A server that returns a constant response, as short as possible.
    Bare,
    /// The same with all headers that Tollgate sends.
    BareWithHeaders,
    /// throttlecrab-server, which always stores in memory.
    Throttlecrab,
}

/// A running subject.
pub(super) struct Entrant {
    pub(super) subject: Subject,
    pub(super) protocol: Protocol,
    pub(super) target: Target,
    /// The client that has the dashboard open.
    pub(super) viewer: Option<Viewer>,
    // Dropped before the store server that it uses.
    pub(super) process: Process,
    pub(super) redis: Option<Server>,
}

impl Subject {
    /// How its limits are shared, if it has a store server.
    pub(super) const fn consistency(&self) -> Option<&'static str> {
        match self {
            Self::Redis => Some("strict"),
            Self::Leased => Some("leased"),
            Self::Memory
            | Self::ManyLimits
            | Self::DashboardOpen
            | Self::OtherBuild(_)
            | Self::Bare
            | Self::BareWithHeaders
            | Self::Throttlecrab => None,
        }
    }

    /// The subject's name over a protocol.
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

/// The subject's name over either protocol.
impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("tollgate, memory"),
            Self::ManyLimits => out.write_str("tollgate, 1,000 limits"),
            Self::DashboardOpen => out.write_str("tollgate, dashboard open"),
            Self::Redis => out.write_str("tollgate, Redis"),
            Self::Leased => out.write_str("tollgate, Redis, leased"),
            Self::OtherBuild(name) => write!(out, "{name}, memory"),
            Self::Bare => out.write_str("bare axum or tonic"),
            Self::BareWithHeaders => out.write_str("bare, same headers"),
            Self::Throttlecrab => out.write_str("throttlecrab-server"),
        }
    }
}

impl Entrant {
    /// The processes that serve its requests.
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
            return Err(self.named(&io::Error::other("the dashboard's event stream was closed")));
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
