//! The page for Prometheus, written from the service at the moment of the question.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::status;
use crate::gate::ActiveConfig;
use crate::http::{ApiError, Body, json};
use crate::metrics::{self, MetricsPage, seconds, to_f64};
use crate::serve::Service;

pub(super) fn answer(service: &Service) -> Result<Response<Body>, ApiError> {
    let running = service.gate.active();
    let mut page = MetricsPage::new(&running.config.monitoring.metrics_prefix);
    service.gate.metrics().write(&mut page);
    store(&running, &mut page);
    config(service, &running, &mut page);
    load(service, &running, &mut page);
    alerts(service, &mut page);
    page.gauge("build_info", "The version, as a label")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.gauge(
        "start_time_seconds",
        "When this process began, since the UNIX epoch",
    )
    .sample(&[], seconds(service.since));
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

fn store(running: &ActiveConfig, page: &mut MetricsPage) {
    let health = running.limiter.health();
    page.counter(
        "store_errors_total",
        "Questions that the store did not answer",
    );
    for (kind, count) in health.store_errors.by_kind() {
        page.sample(&[("kind", kind)], to_f64(count));
    }
    page.gauge("store_up", "1 when all of the store can be asked")
        .sample(&[], flag(running.store.is_up()));
    page.gauge(
        "degraded",
        "1 while limits answer by their failure policies",
    )
    .sample(&[], flag(health.degraded));
    page.counter(
        "degraded_seconds_total",
        "How long limits have answered by their failure policies",
    )
    .sample(&[], seconds(health.degraded_for));
}

fn config(service: &Service, running: &ActiveConfig, page: &mut MetricsPage) {
    let reloads = service.reloader.reloads();
    page.gauge(
        "config_reload_failed",
        "1 while the last configuration was refused",
    )
    .sample(&[], flag(reloads.last_error.is_some()));
    page.counter(
        "config_reloads_total",
        "Configurations read again, by what became of them",
    )
    .sample(&[("result", "applied")], to_f64(reloads.applied))
    .sample(&[("result", "refused")], to_f64(reloads.rejected));
    page.gauge(
        "config_last_reload_timestamp_seconds",
        "When the configuration in force was put there",
    )
    .sample(&[], seconds(reloads.active_since));
    page.gauge("limits", "Limits of the configuration in force")
        .sample(&[], size(running.config.limits.len()));
}

fn load(service: &Service, running: &ActiveConfig, page: &mut MetricsPage) {
    page.gauge("keys", "Counters kept in the memory of this process")
        .sample(&[], size(status::keys(running)));
    page.gauge("connections", "Connections of clients")
        .sample(&[], size(service.load.connections()));
    page.gauge("in_flight_requests", "Requests of clients being answered")
        .sample(&[], size(service.load.in_flight()));
    page.counter(
        "shed_total",
        "Requests and connections of clients turned away because there was no room",
    )
    .sample(&[], to_f64(service.load.shed()));
}

fn alerts(service: &Service, page: &mut MetricsPage) {
    page.gauge(
        "alert_firing",
        "1 while an alert of the configuration fires",
    );
    for standing in service.alerts.states() {
        let labels = [
            ("alert", standing.alert.as_str()),
            ("limit", &*standing.limit),
        ];
        page.sample(&labels, flag(standing.since.is_some()));
    }
}

const fn flag(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}

fn size(count: usize) -> f64 {
    to_f64(u64::try_from(count).unwrap_or(u64::MAX))
}
