//! Loads a configuration from a file, a reader or a text.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use tollgate::Limit;
use tollgate::headers::EnabledFields;

use super::diagnostic::{ConfigError, Diagnostics, SourcePosition};
use super::field::{ConfigField, Expectation};
use super::field_map::FieldMap;
use super::limits::{self, LimitDefaults};
use super::names::{CONSISTENCIES, DEFAULTS, ON_STORE_FAILURE, ROOT};
use super::{Config, clients, monitoring, server, store, tiers, variables, yaml};
use crate::attribute::Attribute;
use crate::limit::{LimitConfig, Recipe};

/// The maximum size of a file, in bytes. A thousand limits with every field take about 300 KiB.
const FILE_MAX: usize = 1 << 20;
const REPLICAS_MAX: u64 = 10_000;
const VERSION: Expectation<'static> =
    Expectation::new("version", "expected 1, the only supported version");

impl Config {
    /// Parses and validates a configuration. The error holds everything that is wrong with it.
    ///
    /// `file` is the name that errors show. `env` looks up environment variables.
    ///
    /// ```
    /// use tollgate_rules::Config;
    ///
    /// let text = "
    /// limits:
    ///   - { name: api, key: [client_ip], algorithm: sliding_window, limit: 9, window: 60 }
    /// ";
    /// let error = Config::parse(text, "tollgate.yaml", &|_| None).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "tollgate.yaml:3:81: limits[api].window: invalid duration \"60\": \
    ///      the unit is missing; write 60s or 60ms"
    /// );
    /// ```
    pub fn parse(
        text: &str,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        if text.len() > FILE_MAX {
            return Err(too_large(file));
        }

        let diagnostics = Diagnostics::new(file);
        let config = yaml::parse(text, &diagnostics).and_then(|mut node| {
            variables::expand(&mut node, env, &diagnostics);
            read_root(&ConfigField::new(&node, String::new(), &diagnostics))
        });

        match config {
            Some(config) if diagnostics.is_clean() => Ok(Self {
                notes: diagnostics.take_notes(),
                source_map: diagnostics.take_source_map(),
                ..config
            }),
            _ if diagnostics.is_clean() => Err(ConfigError::new(
                file,
                SourcePosition::WHOLE_FILE,
                "the file is empty; `limits` is required",
            )),
            _ => Err(diagnostics.into_error()),
        }
    }

    /// Reads a configuration from a file. A file that is too large is rejected without reading it.
    pub fn read(
        path: impl AsRef<Path>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let name = path.as_ref().display().to_string();
        let io_error = |error: std::io::Error| unreadable(&name, &error);

        let file = File::open(&path).map_err(io_error)?;
        let size = file.metadata().map_err(io_error)?.len();
        if size > FILE_MAX as u64 {
            return Err(too_large(&name));
        }

        Self::read_from(file, &name, env)
    }

    /// Reads a configuration from a reader, to its end. `file` is the name that errors show.
    pub fn read_from(
        reader: impl Read,
        file: &str,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        // Pipes and devices report no size, so reading is bounded as well.
        let mut bytes = Vec::new();
        let read = reader.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(file, &error))?;
        if bytes.len() > FILE_MAX {
            return Err(too_large(file));
        }

        let text = std::str::from_utf8(&bytes)
            .map_err(|error| not_utf8(file, &bytes[..error.valid_up_to()]))?;
        Self::parse(text, file, env)
    }

    /// The configuration that is used without a file: counters in memory, and 100 requests per
    /// minute and client address.
    pub fn built_in() -> Self {
        let client_ip: Result<Attribute, _> = "client_ip".parse();
        let limit = Limit::sliding_window("default", 100, Duration::from_secs(60));
        let limit = LimitConfig {
            rule: limit.validate().expect("the built-in limit is valid"),
            conditions: Vec::new(),
            key: Recipe {
                parts: vec![client_ip.into_iter().collect()],
            },
            optional: false,
            tiers: None,
            cost: None,
        };

        Self::with_limits(vec![limit])
    }

    /// A configuration with these limits and defaults for everything else.
    fn with_limits(limits: Vec<LimitConfig>) -> Self {
        Self {
            store: super::StoreConfig::default(),
            expected_replicas: NonZeroU32::MIN,
            clients: tollgate_subject::ClientResolver::default(),
            hashing: None,
            limits,
            headers: EnabledFields::default(),
            monitoring: super::MonitoringConfig::default(),
            server: super::ServerLimits::default(),
            notes: Vec::new(),
            source_map: super::SourceMap::default(),
        }
    }
}

fn unreadable(file: &str, error: &std::io::Error) -> ConfigError {
    ConfigError::new(
        file,
        SourcePosition::WHOLE_FILE,
        format_args!("cannot read the file: {error}"),
    )
}

fn too_large(file: &str) -> ConfigError {
    ConfigError::new(
        file,
        SourcePosition::WHOLE_FILE,
        format_args!("the file is too large: at most {FILE_MAX} bytes (1 MiB) are allowed"),
    )
}

/// The error for a file that is not UTF-8. `before` is its valid part, which gives the position.
fn not_utf8(file: &str, before: &[u8]) -> ConfigError {
    let before = std::str::from_utf8(before).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    ConfigError::new(
        file,
        SourcePosition { line, column },
        "invalid UTF-8; save the file in UTF-8",
    )
}

/// Reads every section, so that all errors are reported together.
fn read_root(field: &ConfigField<'_>) -> Option<Config> {
    if field.is_null() {
        return None;
    }
    let root = field.mapping(ROOT)?;
    root.read("version", read_version);

    let (defaults, expected_replicas) = root.read("defaults", read_defaults).unwrap_or_default();
    let tiers = root.read("tiers", tiers::read).unwrap_or_default();
    let limits = limits::read(&root, defaults, &tiers);

    let config = Config {
        store: root.read("store", store::read).unwrap_or_default(),
        expected_replicas: expected_replicas.unwrap_or(NonZeroU32::MIN),
        clients: root.read("client_ip", clients::read).unwrap_or_default(),
        headers: root
            .read("headers", monitoring::read_headers)
            .unwrap_or_default(),
        monitoring: root
            .read("monitoring", monitoring::read)
            .unwrap_or_default(),
        server: root.read("server", server::read).unwrap_or_default(),
        ..Config::with_limits(limits)
    };

    Some(Config {
        hashing: clients::read_hashing(&root, &config.limits),
        ..config
    })
}

fn read_version(field: &ConfigField<'_>) -> Option<()> {
    if field.string(VERSION)? != "1" {
        field.unexpected(VERSION);
    }
    Some(())
}

fn read_defaults<'a>(field: &ConfigField<'a>) -> Option<(LimitDefaults, Option<NonZeroU32>)> {
    let mapping: FieldMap<'a> = field.mapping(DEFAULTS)?;
    let replicas = mapping.read("expected_replicas", |field| {
        field.integer_in(1..=REPLICAS_MAX)
    });
    let defaults = LimitDefaults {
        consistency: mapping.read("consistency", |field| field.choice(CONSISTENCIES)),
        on_store_failure: mapping.read("on_store_failure", |field| field.choice(ON_STORE_FAILURE)),
    };

    Some((
        defaults,
        replicas.and_then(|replicas| NonZeroU32::new(u32::try_from(replicas).ok()?)),
    ))
}
