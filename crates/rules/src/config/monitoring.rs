//! `headers` and `monitoring`: response headers, metrics, alerts and tracing.

use std::fmt;
use std::time::Duration;

use tollgate_http::EnabledFields;

use super::field::{BOOLEAN, ConfigField};
use super::field_map::FieldMap;
use super::names::{ALERTS, HEADERS, MONITORING, PROFILES, Profile, TRACING};
use super::values::{RATIO, ValueKind, text_if};

const METRICS_PREFIX: ValueKind<String> = ValueKind::new(
    "prefix",
    "expected up to 64 letters, digits and `_`, not starting with a digit, such as tollgate",
    |text| {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = !text.starts_with(|c: char| c.is_ascii_digit());
        text_if(
            text.len() <= 64 && starts_well && text.chars().all(is_valid),
            text,
        )
    },
);
const COLLECTOR: ValueKind<String> = ValueKind::new(
    "URL",
    "expected http://host:port or https://host:port, such as http://127.0.0.1:4317",
    |text| {
        let host = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"));
        let is_valid = |host: &str| !host.is_empty() && !host.contains(char::is_whitespace);
        text_if(host.is_some_and(is_valid), text)
    },
);

/// Metrics, alerts and tracing.
#[derive(Clone, Debug, PartialEq)]
pub struct MonitoringConfig {
    /// The prefix of every metric name.
    pub metrics_prefix: String,
    /// Warn when this fraction of a limit's requests is denied. `None` disables the warning.
    pub deny_ratio: Option<f64>,
    /// Warn when the 99th percentile of the decision latency exceeds this. `None` disables the
    /// warning.
    pub latency_p99: Option<Duration>,
    /// Where to export traces. `None` disables tracing.
    pub tracing: Option<TracingConfig>,
}

impl Default for MonitoringConfig {
    fn default() -> Self {
        Self {
            metrics_prefix: "tollgate".into(),
            deny_ratio: None,
            latency_p99: None,
            tracing: None,
        }
    }
}

/// Where to export traces. The URL may contain a password, so `Debug` omits it.
#[derive(Clone, PartialEq)]
pub struct TracingConfig {
    /// The URL of an OTLP collector.
    pub otlp_endpoint: String,
    /// The fraction of requests to trace, from 0 to 1.
    pub sample_ratio: f64,
}

impl fmt::Debug for TracingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracingConfig")
            .field("sample_ratio", &self.sample_ratio)
            .finish_non_exhaustive()
    }
}

/// Reads the section `headers`. `ietf` and `legacy` switch off a profile of the default list, so
/// they have no meaning beside another one.
pub(super) fn read_headers(field: &ConfigField<'_>) -> Option<EnabledFields> {
    let mapping = FieldMap::new(field, HEADERS)?;
    let is_sent = |name| mapping.value(name, &BOOLEAN).unwrap_or(true);
    let [ietf, legacy, retry_after] = ["ietf", "legacy", "retry_after"].map(is_sent);

    let Some(profiles) = mapping.get("profiles") else {
        return Some(EnabledFields {
            ietf,
            legacy,
            retry_after,
            ..EnabledFields::default()
        });
    };
    for name in ["ietf", "legacy"] {
        mapping.reject(
            name,
            format_args!("`profiles` lists what is sent; remove `{name}`"),
        );
    }
    let profiles = read_profiles(&profiles)?;
    let is_listed = |profile| profiles.contains(&profile);
    Some(EnabledFields {
        ietf: is_listed(Profile::Ietf),
        legacy: is_listed(Profile::Legacy),
        openai: is_listed(Profile::OpenAi),
        anthropic: is_listed(Profile::Anthropic),
        retry_after,
    })
}

/// Reads a list of profiles, each at most once.
fn read_profiles(field: &ConfigField<'_>) -> Option<Vec<Profile>> {
    let items = field.list("expected a list of profiles, such as [ietf, openai]")?;
    let mut profiles = Vec::new();
    for item in &items {
        let profile = item.choice(PROFILES)?;
        if profiles.contains(&profile) {
            item.error(format_args!("duplicate profile {}", item.quoted()));
            return None;
        }
        profiles.push(profile);
    }
    Some(profiles)
}

/// Reads the section `monitoring`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<MonitoringConfig> {
    let mapping = FieldMap::new(field, MONITORING)?;
    let mut config = MonitoringConfig {
        tracing: mapping.read("tracing", read_tracing),
        ..MonitoringConfig::default()
    };

    if let Some(prefix) = mapping.value("metrics_prefix", &METRICS_PREFIX) {
        config.metrics_prefix = prefix;
    }
    if let Some(alerts) = mapping.read("alerts", |field| FieldMap::new(field, ALERTS)) {
        config.deny_ratio = alerts.read("deny_ratio", read_deny_ratio);
        config.latency_p99 = alerts.read("latency_p99", |field| {
            field.duration_in(Duration::from_micros(1)..=Duration::from_secs(60))
        });
    }
    Some(config)
}

fn read_deny_ratio(field: &ConfigField<'_>) -> Option<f64> {
    let ratio = field.value(&RATIO)?;
    if ratio == 0.0 {
        field.invalid(
            RATIO.noun,
            "must be greater than 0; remove the field to disable the warning",
        );
    }
    Some(ratio)
}

fn read_tracing(field: &ConfigField<'_>) -> Option<TracingConfig> {
    let mapping = FieldMap::new(field, TRACING)?;
    let sample_ratio = mapping.value("sample_ratio", &RATIO);
    let endpoint = mapping.require("otlp_endpoint", COLLECTOR.expected)?;

    Some(TracingConfig {
        otlp_endpoint: endpoint.into_secret().value(&COLLECTOR)?,
        sample_ratio: sample_ratio.unwrap_or(0.01),
    })
}
