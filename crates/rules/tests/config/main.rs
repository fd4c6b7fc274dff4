//! Reads whole configuration files: the example, invalid files, and files with secrets.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers are test code, too"
)]
#![expect(
    clippy::format_collect,
    reason = "readability matters more than speed in tests"
)]

mod arbitrary;
mod bounds;
mod changes;
mod example;
mod faults;
mod limit_warnings;
mod memory_store;
mod secrets;

use tollgate_rules::{Config, ConfigError};

/// The example configuration, every part of which must work.
const EXAMPLE: &str = include_str!("../../../../examples/tollgate.yaml");
/// The value of `${REDIS_PASSWORD}`.
const PASSWORD: &str = "hunter2-correct-horse";
/// The value of `${TOLLGATE_HASH_SECRET}`.
const SECRET: &str = "battery-staple-0123456789";

/// The environment variables of the tests.
fn env(name: &str) -> Option<String> {
    let value = match name {
        "REDIS_PASSWORD" => PASSWORD,
        "TOLLGATE_HASH_SECRET" => SECRET,
        "LEAKY" => "s3cr3t-value",
        "NOUGHT" => "0",
        "NOTHING" => "",
        "SIX" => "600",
        _ => return None,
    };

    Some(value.to_owned())
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "t.yaml", &env)
}

/// Parses this text followed by one valid limit.
fn with_limit(text: &str) -> Result<Config, ConfigError> {
    parse(&format!(
        "{text}\n\
         limits: [{{ name: a, key: [], algorithm: sliding_window, limit: 10, window: 1s }}]\n"
    ))
}

/// Parses one limit with these fields in flow style.
fn one_limit(fields: &str) -> Result<Config, ConfigError> {
    parse(&format!("limits: [{{ name: a, key: [], {fields} }}]\n"))
}
