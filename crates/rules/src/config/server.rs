//! `server`: the resource limits of the server, and who may use it.

use std::time::Duration;

use super::access::{self, AccessConfig};
use super::field::ConfigField;
use super::field_map::FieldMap;
use super::names::SERVER;

/// The resource limits of the server, which keep one client from exhausting what all clients need,
/// and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// The maximum number of open connections, for each of the ports http, grpc and
    /// resp.
    pub connections_max: usize,
    /// The maximum size of a request body, in bytes.
    pub body_max: usize,
    /// How long a client may take to send the headers of a request, and again for its body.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// How long requests in flight may take to finish during shutdown.
    pub drain_timeout: Duration,
    /// The maximum number of requests in flight, for each of the ports http, grpc and resp.
    pub in_flight_max: usize,
    /// Who may use the data ports.
    pub access: AccessConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            body_max: 64 << 10,
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            in_flight_max: 4_096,
            access: AccessConfig::default(),
        }
    }
}

/// Reads the section `server`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<ServerConfig> {
    let mapping = FieldMap::new(field, SERVER)?;
    let count = |name, default| mapping.integer(name, 1..=1_000_000).unwrap_or(default);
    let timeout = |name, min, default| {
        let timeout = mapping.duration(name, min..=Duration::from_secs(3_600));
        timeout.unwrap_or(default)
    };
    let body_max = mapping.read("body_max", |field| field.bytes_in(1_024..=16 << 20));

    let default = ServerConfig::default();
    let shortest = Duration::from_millis(1);
    Some(ServerConfig {
        connections_max: count("connections_max", default.connections_max),
        body_max: body_max.unwrap_or(default.body_max),
        header_timeout: timeout("header_timeout", shortest, default.header_timeout),
        idle_timeout: timeout("idle_timeout", shortest, default.idle_timeout),
        drain_timeout: timeout("drain_timeout", Duration::ZERO, default.drain_timeout),
        in_flight_max: count("in_flight_max", default.in_flight_max),
        access: access::read(&mapping),
    })
}
