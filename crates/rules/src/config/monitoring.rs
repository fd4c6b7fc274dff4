//! `headers` and `monitoring`: response headers, metrics, alerts and tracing.

use std::time::Duration;

use tollgate::headers::EnabledFields;

use super::field::{ConfigField, Expectation};
use super::names::{ALERTS, HEADERS, MONITORING, TRACING};
use super::values;
use super::{MonitoringConfig, TracingConfig};

const METRICS_PREFIX_MAX: usize = 64;
const SAMPLE_RATIO: f64 = 0.01;

const METRICS_PREFIX: Expectation<'static> = Expectation::new(
    "prefix",
    "expected up to 64 letters, digits and `_`, not starting with a digit, such as tollgate",
);
const RATIO: Expectation<'static> = Expectation::new("ratio", values::RATIO);
const COLLECTOR: Expectation<'static> = Expectation::new(
    "URL",
    "expected http://host:port or https://host:port, such as http://127.0.0.1:4317",
);

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

/// Reads the section `headers`. All headers are sent by default.
pub(super) fn read_headers(field: &ConfigField<'_>) -> Option<EnabledFields> {
    let mapping = field.mapping(HEADERS)?;
    let is_sent = |name| mapping.read(name, ConfigField::boolean).unwrap_or(true);
    Some(EnabledFields {
        ietf: is_sent("ietf"),
        legacy: is_sent("legacy"),
        retry_after: is_sent("retry_after"),
    })
}

/// Reads the section `monitoring`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<MonitoringConfig> {
    let mapping = field.mapping(MONITORING)?;
    let default = MonitoringConfig::default();
    let alerts = mapping.read("alerts", |field| field.mapping(ALERTS));
    let alerts = alerts.as_ref();

    Some(MonitoringConfig {
        metrics_prefix: mapping
            .read("metrics_prefix", read_metrics_prefix)
            .unwrap_or(default.metrics_prefix),
        deny_ratio: alerts.and_then(|alerts| alerts.read("deny_ratio", read_deny_ratio)),
        latency_p99: alerts.and_then(|alerts| alerts.read("latency_p99", read_latency)),
        tracing: mapping.read("tracing", read_tracing),
    })
}

fn read_metrics_prefix(field: &ConfigField<'_>) -> Option<String> {
    let prefix = field.string(METRICS_PREFIX)?;
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';

    if prefix.len() > METRICS_PREFIX_MAX
        || prefix.starts_with(|c: char| c.is_ascii_digit())
        || !prefix.chars().all(is_valid)
    {
        field.unexpected(METRICS_PREFIX);
        return None;
    }
    Some(prefix.to_owned())
}

fn read_deny_ratio(field: &ConfigField<'_>) -> Option<f64> {
    let ratio = field.read_with(values::ratio, RATIO)?;
    if ratio == 0.0 {
        field.invalid(
            RATIO.noun,
            "must be greater than 0; remove the field to disable the warning",
        );
        return None;
    }
    Some(ratio)
}

fn read_latency(field: &ConfigField<'_>) -> Option<Duration> {
    field.duration_in(Duration::from_micros(1)..=Duration::from_secs(60))
}

fn read_tracing(field: &ConfigField<'_>) -> Option<TracingConfig> {
    let mapping = field.mapping(TRACING)?;
    let sample_ratio = mapping
        .read("sample_ratio", |field| {
            field.read_with(values::ratio, RATIO)
        })
        .unwrap_or(SAMPLE_RATIO);

    let otlp_endpoint = mapping.require("otlp_endpoint", COLLECTOR)?.into_secret();
    Some(TracingConfig {
        otlp_endpoint: read_collector(&otlp_endpoint)?,
        sample_ratio,
    })
}

fn read_collector(field: &ConfigField<'_>) -> Option<String> {
    let url = field.string(COLLECTOR)?;
    let host = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));

    if host.is_none_or(|host| host.is_empty() || host.contains(char::is_whitespace)) {
        field.unexpected(COLLECTOR);
        return None;
    }
    Some(url.to_owned())
}
