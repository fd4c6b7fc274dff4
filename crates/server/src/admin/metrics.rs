//! `GET /metrics`: the metrics page in the Prometheus text format.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::status;
use crate::gate::Running;
use crate::http::{Body, Fault, json};
use crate::metrics::{self, Page, exact, seconds};
use crate::serve::Service;

/// Builds the page from the current state of the service.
pub(super) fn respond(service: &Service) -> Result<Response<Body>, Fault> {
    let running = service.gate.running();
    let mut page = Page::new(&running.config.monitoring.metrics_prefix);

    service.gate.meters().write(&mut page);
    write_store(&running, &mut page);
    write_config(service, &running, &mut page);
    write_load(service, &running, &mut page);
    write_alerts(service, &mut page);
    write_process(service, &mut page);

    let text = page
        .into_text()
        .map_err(|error| Fault::internal(error.to_string()))?;
    let mut response = json(StatusCode::OK, text);
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static(metrics::CONTENT_TYPE),
    );
    Ok(response)
}

fn write_store(running: &Running, page: &mut Page) {
    let health = running.limiter.health();

    page.counter("store_errors_total", "Failed store calls by kind");
    for (kind, count) in health.store_errors.by_kind() {
        page.line(&[("kind", kind)], exact(count));
    }

    page.gauge("store_up", "1 if every server of the store is reachable")
        .line(&[], flag(running.store.is_up()));
    page.gauge("degraded", "1 while limits use their failure policies")
        .line(&[], flag(health.degraded));
    page.counter(
        "degraded_seconds_total",
        "Time during which limits used their failure policies",
    )
    .line(&[], seconds(health.degraded_for));
}

fn write_config(service: &Service, running: &Running, page: &mut Page) {
    let reloads = service.reloader.reloads();

    page.gauge(
        "config_reload_failed",
        "1 if the last configuration reload failed",
    )
    .line(&[], flag(reloads.error.is_some()));
    page.counter(
        "config_reloads_total",
        "Configuration reloads by result: applied or refused (invalid)",
    )
    .line(&[("result", "applied")], exact(reloads.done))
    .line(&[("result", "refused")], exact(reloads.refused));
    page.gauge(
        "config_last_reload_timestamp_seconds",
        "When the active configuration was loaded, in seconds since the UNIX epoch",
    )
    .line(&[], seconds(reloads.at));
    page.gauge("limits", "Limits of the active configuration")
        .line(&[], size(running.config.limits.len()));
}

fn write_load(service: &Service, running: &Running, page: &mut Page) {
    page.gauge("keys", "Counters in the memory of this process")
        .line(&[], size(status::key_count(running)));

    page.gauge("connections", "Open client connections")
        .line(&[], size(service.load.connections()));
    page.gauge("in_flight_requests", "Client requests in flight")
        .line(&[], size(service.load.in_flight()));
    page.counter(
        "shed_total",
        "Client requests and connections rejected because the service was full",
    )
    .line(&[], exact(service.load.shed()));
}

fn write_alerts(service: &Service, page: &mut Page) {
    page.gauge("alert_firing", "1 while a configured alert is firing");
    for standing in service.alerts.standing() {
        let labels = [
            ("alert", standing.alert.as_str()),
            ("limit", &*standing.limit),
        ];
        page.line(&labels, flag(standing.since.is_some()));
    }
}

fn write_process(service: &Service, page: &mut Page) {
    page.gauge("build_info", "Always 1; the version is a label")
        .line(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.gauge(
        "start_time_seconds",
        "When this process started, in seconds since the UNIX epoch",
    )
    .line(&[], seconds(service.since));
}

const fn flag(is_set: bool) -> f64 {
    if is_set { 1.0 } else { 0.0 }
}

fn size(count: usize) -> f64 {
    exact(u64::try_from(count).unwrap_or(u64::MAX))
}
