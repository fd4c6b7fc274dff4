//! `GET /metrics`: the metrics page in the Prometheus text format.

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use crate::http::{ApiError, Body, json};
use crate::metrics::{self, MetricSample, MetricType, MetricsPage, seconds, to_f64};
use crate::service::Service;

/// The type, name, help text and samples of a metric.
type MetricRow<'a> = (MetricType, &'a str, &'a str, Vec<MetricSample<'a>>);

/// Builds the page from the current state of the service.
pub(super) fn respond(service: &Service) -> Result<Response<Body>, ApiError> {
    let prefix = &service.gate.active().config.monitoring.metrics_prefix;
    let mut page = MetricsPage::new(prefix);

    service.gate.metrics().write(&mut page);
    write_state(service, &mut page);
    write_alerts(service, &mut page);

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

/// Writes what the service knows besides its decisions.
#[rustfmt::skip]
fn write_state(service: &Service, page: &mut MetricsPage) {
    use MetricType::{COUNTER, GAUGE};

    let store = service.gate.store_state();
    let reloads = service.reloader.status();
    let load = &service.load;
    let limits = service.gate.active().config.limits.len();

    let store_errors = store.health.store_errors.by_kind();
    let store_errors = store_errors.map(|(kind, count)| (vec![("kind", kind)], to_f64(count)));
    let results = [("applied", reloads.applied), ("failed", reloads.failed)];
    let results = results.map(|(result, count)| (vec![("result", result)], to_f64(count)));
    let version = (vec![("version", env!("CARGO_PKG_VERSION"))], 1.0);

    let rows: [MetricRow<'_>; 14] = [
        (COUNTER, "store_errors_total", "Failed store calls by kind", store_errors.into()),
        (GAUGE, "store_up", "1 if every server of the store is reachable", flag(store.is_up)),
        (GAUGE, "degraded", "1 while limits use their failure policies", flag(store.health.degraded)),
        (COUNTER, "degraded_seconds_total", "Time during which limits used their failure policies", one(seconds(store.health.degraded_for))),
        (GAUGE, "config_reload_failed", "1 if the last configuration reload failed", flag(reloads.last_error.is_some())),
        (COUNTER, "config_reloads_total", "Configuration reloads by result: applied or failed", results.into()),
        (GAUGE, "config_last_reload_timestamp_seconds", "When the active configuration was loaded, in seconds since the UNIX epoch", one(seconds(reloads.active_since))),
        (GAUGE, "limits", "Limits of the active configuration", size(limits)),
        (GAUGE, "keys", "Counters in the memory of this process", size(store.keys)),
        (GAUGE, "connections", "Open client connections", size(load.connections())),
        (GAUGE, "in_flight_requests", "Client requests in flight", size(load.in_flight())),
        (COUNTER, "shed_total", "Client requests and connections rejected because the service was full", one(to_f64(load.shed()))),
        (GAUGE, "build_info", "Always 1; the version is a label", vec![version]),
        (GAUGE, "start_time_seconds", "When this process started, in seconds since the UNIX epoch", one(seconds(service.started_at))),
    ];
    for (kind, name, help, samples) in rows {
        page.family(kind, name, help, samples);
    }
}

fn write_alerts(service: &Service, page: &mut MetricsPage) {
    let states = service.alerts.states();
    let samples = states.iter().map(|state| {
        let limit = state.limit.as_deref().unwrap_or_default();
        let labels = vec![("alert", state.alert.as_str()), ("limit", limit)];
        (labels, f64::from(u8::from(state.since.is_some())))
    });

    page.family(
        MetricType::GAUGE,
        "alert_firing",
        "1 while a configured alert is firing",
        samples,
    );
}

/// One sample without labels.
fn one(value: f64) -> Vec<MetricSample<'static>> {
    vec![(Vec::new(), value)]
}

fn flag(is_set: bool) -> Vec<MetricSample<'static>> {
    one(f64::from(u8::from(is_set)))
}

fn size(count: usize) -> Vec<MetricSample<'static>> {
    one(to_f64(u64::try_from(count).unwrap_or(u64::MAX)))
}
