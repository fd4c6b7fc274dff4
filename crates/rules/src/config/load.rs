//! From a file to a configuration, or to everything that is wrong with it.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use tollgate::Limit;
use tollgate::headers::Fields;

use super::fault::{ConfigError, Log, Place};
use super::field::Field;
use super::limits::{self, Defaults};
use super::table::Table;
use super::words::{CONSISTENCIES, DEFAULTS, ON_STORE_FAILURE, ROOT};
use super::{Config, server, store, subjects, tiers, tree, variables, watch};
use crate::attribute::Attribute;
use crate::rule::{LimitConfig, Match, Recipe};

/// The longest file. A thousand limits with every field have some 300 KiB.
const FILE_MAX: usize = 1 << 20;
const REPLICAS_MAX: u64 = 10_000;

impl Config {
    /// The configuration that a text states, or everything that is wrong with it. `file` is what
    /// faults call it, and `env` answers for the variables of the environment.
    ///
    /// ```
    /// use tollgate_rules::Config;
    ///
    /// let text = "limits:\n  - { name: api, key: [client_ip], algorithm: sliding_window, limit: 100, window: 60 }\n";
    /// let faults = Config::parse(text, "tollgate.yaml", &|_| None).unwrap_err();
    /// assert_eq!(
    ///     faults.to_string(),
    ///     "tollgate.yaml:2:83: limits[api].window: found \"60\"; write a unit, as in 60s or 60ms"
    /// );
    /// ```
    pub fn parse(
        text: &str,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        if text.len() > FILE_MAX {
            return Err(too_long(file));
        }
        let log = Log::new(file);
        let config = tree::tree(text, &log).and_then(|mut node| {
            variables::settle(&mut node, env, &log);
            root(&Field::new(&node, String::new(), &log))
        });
        match config {
            Some(config) if log.is_clean() => Ok(Self {
                notes: log.take_notes(),
                places: log.take_places(),
                ..config
            }),
            _ if log.is_clean() => Err(ConfigError::one(
                file,
                Place::FILE,
                "the file is empty; it must have `limits`",
            )),
            _ => Err(log.into_faults()),
        }
    }

    /// The configuration in a file. A file that is too long is refused before it is read.
    pub fn read(
        path: impl AsRef<Path>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let file = path.as_ref().display().to_string();
        let refuse = |error: std::io::Error| unreadable(&file, &error);
        let opened = File::open(&path).map_err(refuse)?;
        let length = opened.metadata().map_err(refuse)?.len();
        if length > FILE_MAX as u64 {
            return Err(too_long(&file));
        }
        Self::read_from(opened, &file, env)
    }

    /// The configuration that a reader gives, to its end. `file` is what faults call it.
    pub fn read_from(
        reader: impl Read,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        // What is no plain file has no length beforehand, so what is read is bounded as well.
        let mut bytes = Vec::new();
        let read = reader.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(file, &error))?;
        if bytes.len() > FILE_MAX {
            return Err(too_long(file));
        }
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| not_utf8(file, &bytes[..error.valid_up_to()]))?;
        Self::parse(text, file, env)
    }

    /// What holds without a file: counters in memory, and 100 requests per minute for each client
    /// address.
    pub fn built_in() -> Self {
        let client_ip: Result<Attribute, _> = "client_ip".parse();
        let rule = LimitConfig {
            limit: Limit::sliding_window("default", 100, Duration::from_secs(60)),
            applies: Match::default(),
            key: Recipe {
                parts: vec![client_ip.into_iter().collect()],
            },
            optional: false,
            tiers: None,
            cost: None,
        };
        Self::with_limits(vec![rule])
    }

    /// These limits, and the defaults for everything else.
    fn with_limits(limits: Vec<LimitConfig>) -> Self {
        Self {
            store: super::StoreConfig::default(),
            expected_replicas: NonZeroU32::MIN,
            clients: tollgate_subject::ClientResolver::default(),
            hashing: None,
            limits,
            headers: Fields::default(),
            monitoring: super::MonitoringConfig::default(),
            server: super::ServerLimits::default(),
            notes: Vec::new(),
            places: super::SourceMap::default(),
        }
    }
}

fn unreadable(file: &str, error: &std::io::Error) -> ConfigError {
    ConfigError::one(file, Place::FILE, format_args!("cannot be read: {error}"))
}

fn too_long(file: &str) -> ConfigError {
    ConfigError::one(
        file,
        Place::FILE,
        format_args!("is longer than {FILE_MAX} bytes (1 MiB); a configuration must be shorter"),
    )
}

/// Tells where the text ends that can be read.
fn not_utf8(file: &str, before: &[u8]) -> ConfigError {
    let before = std::str::from_utf8(before).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    ConfigError::one(
        file,
        Place { line, column },
        "found bytes that are not UTF-8; save the file in that encoding",
    )
}

/// Reads every section, so that all faults are told at once.
fn root(field: &Field<'_>) -> Option<Config> {
    if field.found() == "nothing" {
        return None;
    }
    let table = field.table(ROOT)?;
    table.read("version", version);
    let (defaults, expected_replicas) = table.read("defaults", defaults).unwrap_or_default();
    let tiers = table.read("tiers", tiers::read).unwrap_or_default();
    let limits = limits::read(&table, defaults, &tiers);
    let config = Config {
        store: table.read("store", store::read).unwrap_or_default(),
        expected_replicas: expected_replicas.unwrap_or(NonZeroU32::MIN),
        clients: table
            .read("client_ip", subjects::clients)
            .unwrap_or_default(),
        headers: table.read("headers", watch::headers).unwrap_or_default(),
        monitoring: table
            .read("monitoring", watch::monitoring)
            .unwrap_or_default(),
        server: table.read("server", server::read).unwrap_or_default(),
        ..Config::with_limits(limits)
    };
    Some(Config {
        hashing: subjects::hashing(&table, &config.limits),
        ..config
    })
}

fn version(field: &Field<'_>) -> Option<()> {
    const RIGHT: &str = "this Tollgate reads version 1; write 1, or leave it out";
    if field.text(RIGHT)? != "1" {
        field.wrong(RIGHT);
    }
    Some(())
}

fn defaults<'a>(field: &Field<'a>) -> Option<(Defaults, Option<NonZeroU32>)> {
    let table: Table<'a> = field.table(DEFAULTS)?;
    let replicas = table.read("expected_replicas", |field| {
        field.whole_in(1..=REPLICAS_MAX)
    });
    let defaults = Defaults {
        consistency: table.read("consistency", |field| field.choice(CONSISTENCIES)),
        on_store_failure: table.read("on_store_failure", |field| field.choice(ON_STORE_FAILURE)),
    };
    Some((
        defaults,
        replicas.and_then(|replicas| NonZeroU32::new(u32::try_from(replicas).ok()?)),
    ))
}
