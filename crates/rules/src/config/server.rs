//! `server`: the bounds of the service.

use std::time::Duration;

use super::ServerLimits;
use super::field::Field;
use super::words::SERVER;

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

/// What `server` says.
pub(super) fn read(field: &Field<'_>) -> Option<ServerLimits> {
    let table = field.table(SERVER)?;
    let default = ServerLimits::default();
    let count = |name, bound| {
        table
            .read(name, |field| field.whole_in(1..=bound))
            .map(size)
    };
    let (shortest, longest) = (Duration::from_millis(1), Duration::from_secs(3_600));
    let time = |name| table.read(name, |field| field.duration_in(shortest..=longest));
    let drain = table.read("drain_timeout", |field| {
        field.duration_in(Duration::ZERO..=longest)
    });
    let body_max = table
        .read("body_max", |field| field.bytes_in(1_024..=BODY_BOUND))
        .map(size);
    Some(ServerLimits {
        connections_max: count("connections_max", CONNECTIONS_BOUND)
            .unwrap_or(default.connections_max),
        body_max: body_max.unwrap_or(default.body_max),
        header_timeout: time("header_timeout").unwrap_or(default.header_timeout),
        idle_timeout: time("idle_timeout").unwrap_or(default.idle_timeout),
        drain_timeout: drain.unwrap_or(default.drain_timeout),
        in_flight_max: count("in_flight_max", IN_FLIGHT_BOUND).unwrap_or(default.in_flight_max),
    })
}

/// Every bound above fits.
fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
