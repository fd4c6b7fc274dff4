//! `headers` and `monitoring`: what clients are told, and what is measured and warned of.

use std::time::Duration;

use tollgate::headers::Fields;

use super::field::Field;
use super::values;
use super::words::{ALERTS, HEADERS, MONITORING, TRACING};
use super::{MonitoringConfig, TracingConfig};

const PREFIX: &str = "write letters, digits and _, not beginning with a digit, such as tollgate";
const PREFIX_MAX: usize = 64;
const RATIO: &str = "write a number from 0 to 1, such as 0.8";
const COLLECTOR: &str =
    "write http://host:port or https://host:port, such as http://127.0.0.1:4317";
const SAMPLE_RATIO: f64 = 0.01;

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

/// What `headers` says; whatever it leaves out is sent.
pub(super) fn headers(field: &Field<'_>) -> Option<Fields> {
    let table = field.table(HEADERS)?;
    let flag = |name| table.read(name, Field::flag).unwrap_or(true);
    Some(Fields {
        ietf: flag("ietf"),
        legacy: flag("legacy"),
        retry_after: flag("retry_after"),
    })
}

/// What `monitoring` says.
pub(super) fn monitoring(field: &Field<'_>) -> Option<MonitoringConfig> {
    let table = field.table(MONITORING)?;
    let default = MonitoringConfig::default();
    let alerts = table.read("alerts", |field| field.table(ALERTS));
    let alert = alerts.as_ref();
    Some(MonitoringConfig {
        metrics_prefix: table
            .read("metrics_prefix", metrics_prefix)
            .unwrap_or(default.metrics_prefix),
        deny_ratio: alert.and_then(|alerts| alerts.read("deny_ratio", deny_ratio)),
        latency_p99: alert.and_then(|alerts| alerts.read("latency_p99", latency)),
        tracing: table.read("tracing", tracing),
    })
}

fn metrics_prefix(field: &Field<'_>) -> Option<String> {
    let prefix = field.text(PREFIX)?;
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if prefix.len() > PREFIX_MAX
        || prefix.starts_with(|c: char| c.is_ascii_digit())
        || !prefix.chars().all(is_fine)
    {
        field.wrong(PREFIX);
        return None;
    }
    Some(prefix.to_owned())
}

fn deny_ratio(field: &Field<'_>) -> Option<f64> {
    let ratio = field.value(values::ratio, RATIO)?;
    if ratio == 0.0 {
        field.wrong("it must be more than 0, because 0 would warn all the time; leave it out for no warning");
        return None;
    }
    Some(ratio)
}

fn latency(field: &Field<'_>) -> Option<Duration> {
    field.duration_in(Duration::from_micros(1)..=Duration::from_secs(60))
}

fn tracing(field: &Field<'_>) -> Option<TracingConfig> {
    let table = field.table(TRACING)?;
    let ratio = table
        .read("sample_ratio", |field| field.value(values::ratio, RATIO))
        .unwrap_or(SAMPLE_RATIO);
    let otlp_endpoint = collector(&table.require("otlp_endpoint", COLLECTOR)?.secret())?;
    Some(TracingConfig {
        otlp_endpoint,
        sample_ratio: ratio,
    })
}

fn collector(field: &Field<'_>) -> Option<String> {
    let url = field.text(COLLECTOR)?;
    let host = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix("https://"));
    if host.is_none_or(|host| host.is_empty() || host.contains(char::is_whitespace)) {
        field.wrong(COLLECTOR);
        return None;
    }
    Some(url.to_owned())
}
