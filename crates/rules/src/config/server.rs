//! `server`: the resource limits of the server.

use std::time::Duration;

use super::ServerLimits;
use super::field::ConfigField;
use super::names::SERVER;

const CONNECTIONS_BOUND: u64 = 1_000_000;
const IN_FLIGHT_BOUND: u64 = 1_000_000;
const BODY_BOUND: u64 = 16 << 20;

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            body_max: 64 << 10,
            header_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            in_flight_max: 4_096,
        }
    }
}

/// Reads the section `server`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<ServerLimits> {
    let mapping = field.mapping(SERVER)?;
    let default = ServerLimits::default();

    let count = |name, bound| {
        mapping
            .read(name, |field| field.integer_in(1..=bound))
            .map(to_usize)
    };
    let body_max = mapping
        .read("body_max", |field| field.bytes_in(1_024..=BODY_BOUND))
        .map(to_usize);

    let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(3_600));
    let timeout = |name| mapping.read(name, |field| field.duration_in(shortest..=longest));
    let drain_timeout = mapping.read("drain_timeout", |field| {
        field.duration_in(Duration::ZERO..=longest)
    });

    Some(ServerLimits {
        connections_max: count("connections_max", CONNECTIONS_BOUND)
            .unwrap_or(default.connections_max),
        body_max: body_max.unwrap_or(default.body_max),
        header_timeout: timeout("header_timeout").unwrap_or(default.header_timeout),
        idle_timeout: timeout("idle_timeout").unwrap_or(default.idle_timeout),
        drain_timeout: drain_timeout.unwrap_or(default.drain_timeout),
        in_flight_max: count("in_flight_max", IN_FLIGHT_BOUND).unwrap_or(default.in_flight_max),
    })
}

/// Converts a number that was checked against one of the bounds above, which all fit.
fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
