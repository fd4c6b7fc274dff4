//! Loads a configuration from a file, a reader or a text.

use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;

use tollgate::FailurePolicy;
use tollgate_http::{DenialTemplate, EnabledFields};
use tollgate_subject::ClientResolver;

use super::audit_log::{self, AuditLogConfig};
use super::clients::{self, HashConfig};
use super::denial;
use super::diagnostic::{ConfigError, Diagnostic, Diagnostics, SourceMap, SourcePosition};
use super::field::{ConfigField, FieldMap};
use super::file::{FILE_MAX, read_bytes, read_file, too_large};
use super::fingerprint::ConfigFingerprint;
use super::inline::InlineLimits;
use super::limits::{self, LimitDefaults};
use super::monitoring::{self, MonitoringConfig};
use super::names::{
    CONSISTENCIES, DEFAULTS, MATCH_CASES, ON_AMBIGUOUS_PATH, ON_STORE_FAILURE, ROOT,
};
use super::server::{self, ServerConfig};
use super::store::{self, StoreConfig};
use super::values::{ValueKind, text_if};
use super::variables::{self, Environment};
use super::{warnings, yaml};
use crate::limit::LimitConfig;

const VERSION: ValueKind<String> = ValueKind::new(
    "version",
    "expected 1, the only supported version",
    |text| text_if(text == "1", text),
);

const BUILT_IN: &str = "limits: [{ name: default, key: [client_ip], algorithm: sliding_window, \
                        limit: 100, window: 1m }]";

/// A validated configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Tells whether two replicas have the same configuration, without its secrets.
    pub fingerprint: ConfigFingerprint,
    /// The store that holds the counters.
    pub store: StoreConfig,
    /// The number of replicas that share the store.
    pub expected_replicas: NonZeroU32,
    /// What limits do while the store is unavailable, unless they configure it themselves.
    pub on_store_failure: FailurePolicy,
    /// Determines and groups client addresses.
    pub clients: ClientResolver,
    /// The attributes to hash. `None` if none is hashed.
    pub hashing: Option<HashConfig>,
    /// The limits, in file order.
    pub limits: Vec<LimitConfig>,
    /// Which limits requests may bring along.
    pub inline_limits: InlineLimits,
    /// The rate limit headers of a response.
    pub headers: EnabledFields,
    /// The body of denials that reach clients through a proxy. `None` for a problem document.
    pub denial: Option<DenialTemplate>,
    /// Metrics, alerts and tracing.
    pub monitoring: MonitoringConfig,
    /// The audit log of denials. `None` disables it.
    pub audit_log: Option<AuditLogConfig>,
    /// The resource limits of the server, and who may use it.
    pub server: ServerConfig,
    /// About valid settings that probably do not do what the user expects. Each starts with its
    /// file, line and column.
    pub warnings: Vec<String>,
    /// About limits that cannot work with forward-auth, in the same form, at most 100. They are
    /// among `warnings`, too, if the file has settings that are only for forward-auth.
    pub forward_auth_warnings: Vec<String>,
    /// The positions of the store's fields, which are validated again when the store is created.
    pub source_map: SourceMap,
}

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
    pub fn parse(text: &str, file: &str, env: &Environment<'_>) -> Result<Self, ConfigError> {
        if text.len() > FILE_MAX {
            return Err(too_large(file));
        }

        let diagnostics = Diagnostics::new(file);
        let config = yaml::parse(text, &diagnostics).and_then(|mut node| {
            variables::expand(&mut node, env, &diagnostics);
            let fingerprint = ConfigFingerprint::new(&node);
            read_root(
                &ConfigField::new(&node, String::new(), &diagnostics),
                fingerprint,
            )
        });

        match config {
            Some(config) if diagnostics.is_clean() => Ok(config),
            _ if diagnostics.is_clean() => Err(ConfigError::for_file(
                file,
                "the file is empty; `limits` is required",
            )),
            _ => Err(diagnostics.into_error()),
        }
    }

    /// Reads a configuration from a file, as [`read_file`] does.
    pub fn read(path: impl AsRef<Path>, env: &Environment<'_>) -> Result<Self, ConfigError> {
        let name = path.as_ref().display().to_string();
        Self::parse_bytes(&read_file(path)?, &name, env)
    }

    /// Reads a configuration from a reader, to its end. `file` is the name that errors show. What
    /// is too large is rejected without reading it to the end.
    pub fn read_from(
        reader: impl Read,
        file: &str,
        env: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        Self::parse_bytes(&read_bytes(reader, file)?, file, env)
    }

    /// Parses and validates the bytes of a file, which must be UTF-8.
    pub fn parse_bytes(
        bytes: &[u8],
        file: &str,
        env: &Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| not_utf8(file, &bytes[..error.valid_up_to()]))?;
        Self::parse(text, file, env)
    }

    /// The configuration that is used without a file: counters in memory, and 100 requests per
    /// minute and client address.
    #[expect(
        clippy::missing_panics_doc,
        reason = "the text is constant, and a test reads it"
    )]
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN, "", &|_| None).expect("the built-in configuration is valid")
    }
}

/// The error for a file that is not UTF-8. `before` is its valid part, which gives the position.
fn not_utf8(file: &str, before: &[u8]) -> ConfigError {
    let before = std::str::from_utf8(before).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;

    let position = SourcePosition { line, column };
    ConfigError::new(file, position, "invalid UTF-8; save the file in UTF-8")
}

/// Reads every section, so that all errors are reported together.
fn read_root(field: &ConfigField<'_>, fingerprint: ConfigFingerprint) -> Option<Config> {
    if field.is_null() {
        return None;
    }
    let root = FieldMap::new(field, ROOT)?;
    root.value("version", &VERSION);

    let defaults = read_or_default(&root, "defaults", read_defaults);
    let hashed = root.read("hash_keys", clients::read_hash_keys);
    let limits = limits::read(&root, defaults, hashed.as_deref().unwrap_or_default());
    let found = limits.as_deref().unwrap_or_default();
    let mut config = Config {
        fingerprint,
        expected_replicas: defaults.expected_replicas,
        on_store_failure: defaults.on_store_failure,
        inline_limits: InlineLimits::read(&root, defaults),
        headers: read_or_default(&root, "headers", monitoring::read_headers),
        denial: root.read("denial", denial::read),
        monitoring: read_or_default(&root, "monitoring", monitoring::read),
        audit_log: root.read("audit_log", audit_log::read),
        store: read_or_default(&root, "store", store::read),
        clients: read_or_default(&root, "client_ip", clients::read),
        hashing: clients::read_hashing(&root, hashed, found),
        server: read_or_default(&root, "server", server::read),
        limits: Vec::new(),
        warnings: Vec::new(),
        forward_auth_warnings: Vec::new(),
        source_map: field.diagnostics.take_source_map(),
    };

    if field.diagnostics.is_clean() {
        warnings::add_for_memory(&root, &config.store);
        let forward_auth = warnings::add_for_limits(&root, found);
        config.forward_auth_warnings = forward_auth.iter().map(Diagnostic::to_string).collect();
    }
    config.warnings = field.diagnostics.take_warnings();
    config.limits = limits?;
    Some(config)
}

/// Reads a section, whose default applies if the file does not have it.
fn read_or_default<'a, T: Default>(
    root: &FieldMap<'a>,
    name: &str,
    read: impl FnOnce(&ConfigField<'a>) -> Option<T>,
) -> T {
    root.read(name, read).unwrap_or_default()
}

fn read_defaults(field: &ConfigField<'_>) -> Option<LimitDefaults> {
    let mapping = FieldMap::new(field, DEFAULTS)?;
    let default = LimitDefaults::default();
    let replicas = NonZeroU32::new(mapping.integer_or("expected_replicas", 1..=10_000, 1));
    Some(LimitDefaults {
        consistency: mapping.choice_or("consistency", CONSISTENCIES, default.consistency),
        on_store_failure: mapping.choice_or(
            "on_store_failure",
            ON_STORE_FAILURE,
            default.on_store_failure,
        ),
        match_case: mapping.choice_or("match_case", MATCH_CASES, default.match_case),
        on_ambiguous_path: mapping.choice_or(
            "on_ambiguous_path",
            ON_AMBIGUOUS_PATH,
            default.on_ambiguous_path,
        ),
        expected_replicas: replicas.unwrap_or(default.expected_replicas),
    })
}
