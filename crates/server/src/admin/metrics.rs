//! `GET /metrics`: the metrics page in the Prometheus text format.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::status;
use crate::gate::ActiveConfig;
use crate::http::{ApiError, Body, json};
use crate::metrics::{self, MetricsPage, seconds, to_f64};
use crate::serve::Service;

/// Builds the page from the current state of the service.
pub(super) fn respond(service: &Service) -> Result<Response<Body>, ApiError> {
    let active = service.gate.active();
    let mut page = MetricsPage::new(&active.config.monitoring.metrics_prefix);

    service.gate.metrics().write(&mut page);
    write_store(&active, &mut page);
    write_config(service, &active, &mut page);
    write_load(service, &active, &mut page);
    write_alerts(service, &mut page);
    write_process(service, &mut page);

    let text = page
        .into_text()
        .map_err(|error| ApiError::internal(error.to_string()))?;
    let mut response = json(StatusCode::OK, text);
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static(metrics::CONTENT_TYPE),
    );
    Ok(response)
}

fn write_store(active: &ActiveConfig, page: &mut MetricsPage) {
    let health = active.limiter.health();

    page.counter("store_errors_total", "Failed store calls by kind");
    for (kind, count) in health.store_errors.by_kind() {
        page.sample(&[("kind", kind)], to_f64(count));
    }

    page.gauge("store_up", "1 if every server of the store is reachable")
        .sample(&[], flag(active.store.is_up()));
    page.gauge("degraded", "1 while limits use their failure policies")
        .sample(&[], flag(health.degraded));
    page.counter(
        "degraded_seconds_total",
        "Time during which limits used their failure policies",
    )
    .sample(&[], seconds(health.degraded_for));
}

fn write_config(service: &Service, active: &ActiveConfig, page: &mut MetricsPage) {
    let reloads = service.reloader.status();

    page.gauge(
        "config_reload_failed",
        "1 if the last configuration reload failed",
    )
    .sample(&[], flag(reloads.last_error.is_some()));
    page.counter(
        "config_reloads_total",
        "Configuration reloads by result: applied or failed",
    )
    .sample(&[("result", "applied")], to_f64(reloads.applied))
    .sample(&[("result", "failed")], to_f64(reloads.failed));
    page.gauge(
        "config_last_reload_timestamp_seconds",
        "When the active configuration was loaded, in seconds since the UNIX epoch",
    )
    .sample(&[], seconds(reloads.active_since));
    page.gauge("limits", "Limits of the active configuration")
        .sample(&[], size(active.config.limits.len()));
}

fn write_load(service: &Service, active: &ActiveConfig, page: &mut MetricsPage) {
    page.gauge("keys", "Counters in the memory of this process")
        .sample(&[], size(status::key_count(active)));

    page.gauge("connections", "Open client connections")
        .sample(&[], size(service.load.connections()));
    page.gauge("in_flight_requests", "Client requests in flight")
        .sample(&[], size(service.load.in_flight()));
    page.counter(
        "shed_total",
        "Client requests and connections rejected because the service was full",
    )
    .sample(&[], to_f64(service.load.shed()));
}

fn write_alerts(service: &Service, page: &mut MetricsPage) {
    page.gauge("alert_firing", "1 while a configured alert is firing");
    for state in service.alerts.states() {
        let labels = [("alert", state.alert.as_str()), ("limit", &*state.limit)];
        page.sample(&labels, flag(state.since.is_some()));
    }
}

fn write_process(service: &Service, page: &mut MetricsPage) {
    page.gauge("build_info", "Always 1; the version is a label")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.gauge(
        "start_time_seconds",
        "When this process started, in seconds since the UNIX epoch",
    )
    .sample(&[], seconds(service.started_at));
}

const fn flag(is_set: bool) -> f64 {
    if is_set { 1.0 } else { 0.0 }
}

fn size(count: usize) -> f64 {
    to_f64(u64::try_from(count).unwrap_or(u64::MAX))
}
