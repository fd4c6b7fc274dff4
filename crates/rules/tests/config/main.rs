//! Whole files: what the example means, what bad files are told, and what is never shown.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of this is tests, also what is not marked as one"
)]
#![expect(
    clippy::format_collect,
    reason = "texts are made as plainly as they are read"
)]

mod arbitrary;
mod bounds;
mod example;
mod faults;
mod secrets;

use tollgate_rules::{Config, ConfigError};

/// The configuration every part of which must work.
const EXAMPLE: &str = include_str!("../../../../examples/tollgate.yaml");
/// What `${REDIS_PASSWORD}` is.
const PASSWORD: &str = "hunter2-correct-horse";
/// What `${TOLLGATE_HASH_SECRET}` is.
const SECRET: &str = "battery-staple-0123456789";

/// The environment of every test.
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

/// The configuration with this text before one plain limit.
fn with_limit(text: &str) -> Result<Config, ConfigError> {
    parse(&format!(
        "{text}\nlimits: [{{ name: a, key: [], algorithm: sliding_window, limit: 10, window: 1s }}]\n"
    ))
}

/// The configuration with one limit, given its fields in flow style.
fn one_limit(fields: &str) -> Result<Config, ConfigError> {
    parse(&format!("limits: [{{ name: a, key: [], {fields} }}]\n"))
}
