//! `headers` and `monitoring`: response headers, metrics, alerts and tracing.

use std::fmt;
use std::time::Duration;

use tollgate_http::EnabledFields;

use super::field::{BOOLEAN, ConfigField, FieldMap};
use super::names::{ALERTS, HEADERS, MONITORING, PROFILES, TRACING, WEBHOOK};
use super::values::{RATIO, ValueKind, has_only, text_if, without_http};

const METRICS_PREFIX: ValueKind<String> = ValueKind::new(
    "prefix",
    "expected up to 64 letters, digits and `_`, not starting with a digit, such as tollgate",
    |text| {
        let starts_well = !text.starts_with(|c: char| c.is_ascii_digit());
        text_if(text.len() <= 64 && starts_well && has_only(text, "_"), text)
    },
);
const COLLECTOR: ValueKind<String> = ValueKind::new(
    "URL",
    "expected http://host:port or https://host:port, such as http://127.0.0.1:4317",
    |text| {
        let is_valid = |host: &str| !host.is_empty() && !host.contains(char::is_whitespace);
        text_if(without_http(text).is_some_and(is_valid), text)
    },
);

const WEBHOOK_URL: ValueKind<String> = ValueKind::new(
    "URL",
    "expected http:// or https:// with a host and without a user name, such as \
     https://alerts.example.com/tollgate",
    |text| {
        let is_valid = |rest: &str| {
            let host = rest.split(['/', '?']).next().unwrap_or_default();
            let is_text = rest.chars().all(|c| c.is_ascii_graphic() && c != '#');
            is_text && !host.is_empty() && !host.starts_with(':') && !host.contains('@')
        };
        text_if(without_http(text).is_some_and(is_valid), text)
    },
);
const WEBHOOK_SECRET: ValueKind<String> = ValueKind::new(
    "secret",
    "expected at least 16 characters, such as ${TOLLGATE_WEBHOOK_SECRET}",
    |text| text_if((16..=1_024).contains(&text.len()), text),
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
    /// Warn when limits use their failure policies for longer than this. `None` disables the
    /// warning.
    pub degraded_for: Option<Duration>,
    /// Warn when at least this many counters of limited clients are evicted within a minute. `None`
    /// disables the warning.
    pub evictions: Option<u64>,
    /// Warn when replicas have different configurations for longer than this. `None` disables the
    /// warning.
    pub configurations_differ: Option<Duration>,
    /// Report keys that have used most of a limit whose window is at least this long. `None`
    /// reports none.
    pub near_limit: Option<Duration>,
    /// Where to send alerts. `None` sends none.
    pub webhook: Option<WebhookConfig>,
    /// Where to export traces. `None` disables tracing.
    pub tracing: Option<TracingConfig>,
}

impl Default for MonitoringConfig {
    fn default() -> Self {
        Self {
            metrics_prefix: "tollgate".into(),
            deny_ratio: None,
            latency_p99: None,
            degraded_for: None,
            evictions: None,
            configurations_differ: None,
            near_limit: None,
            webhook: None,
            tracing: None,
        }
    }
}

/// Where to send alerts. The URL may contain a secret, so `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// An `http://` or `https://` URL.
    pub url: String,
    /// The key of the signatures.
    pub secret: String,
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig").finish_non_exhaustive()
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
    let mut fields = EnabledFields {
        ietf,
        legacy,
        retry_after,
        ..EnabledFields::default()
    };
    let Some(profiles) = mapping.get("profiles") else {
        return Some(fields);
    };

    for name in ["ietf", "legacy"] {
        mapping.reject(
            name,
            format_args!("`profiles` lists what is sent; remove `{name}`"),
        );
    }
    (fields.ietf, fields.legacy) = (false, false);
    for item in profiles.items("expected a list of profiles, such as [ietf, openai]")? {
        let is_listed = item.choice(PROFILES)?(&mut fields);
        if std::mem::replace(is_listed, true) {
            return item.fail(format_args!("duplicate profile {}", item.quoted()));
        }
    }
    Some(fields)
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
    if let Some(alerts) = mapping.section("alerts", ALERTS) {
        read_alerts(&alerts, &mut config);
    }
    Some(config)
}

fn read_alerts(alerts: &FieldMap<'_>, config: &mut MonitoringConfig) {
    let (micros, seconds) = (Duration::from_micros, Duration::from_secs);
    let day = seconds(86_400);

    config.deny_ratio = alerts.read("deny_ratio", read_deny_ratio);
    config.latency_p99 = alerts.duration("latency_p99", micros(1)..=seconds(60));
    config.degraded_for = alerts.duration("degraded_for", seconds(1)..=day);
    config.evictions = alerts.integer("evictions", 1..=1_000_000);
    config.configurations_differ = alerts.duration("configurations_differ", seconds(1)..=day);
    config.near_limit = alerts.duration("near_limit", seconds(60)..=366 * day);
    config.webhook = alerts.read("webhook", read_webhook);
    if config.near_limit.is_some() && alerts.get("webhook").is_none() {
        alerts.missing(
            "webhook",
            "`near_limit` requires it, because keys of clients are never logged",
        );
    }
}

fn read_webhook(field: &ConfigField<'_>) -> Option<WebhookConfig> {
    let mapping = FieldMap::new(field, WEBHOOK)?;
    let url = mapping.require_secret("url", &WEBHOOK_URL);
    let secret = mapping.require_secret("secret", &WEBHOOK_SECRET);
    Some(WebhookConfig {
        url: url?,
        secret: secret?,
    })
}

fn read_deny_ratio(field: &ConfigField<'_>) -> Option<f64> {
    let ratio = field.value(&RATIO)?;
    if ratio > 0.0 {
        return Some(ratio);
    }
    field.invalid(
        RATIO.noun,
        "must be greater than 0; remove the field to disable the warning",
    )
}

fn read_tracing(field: &ConfigField<'_>) -> Option<TracingConfig> {
    let mapping = FieldMap::new(field, TRACING)?;
    let sample_ratio = mapping.value("sample_ratio", &RATIO);
    Some(TracingConfig {
        otlp_endpoint: mapping.require_secret("otlp_endpoint", &COLLECTOR)?,
        sample_ratio: sample_ratio.unwrap_or(0.01),
    })
}
