//! `GET /metrics`: the metrics page in the Prometheus text format.

use std::collections::BTreeSet;

use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use tollgate_gate::api::ApiError;
use tollgate_gate::metrics::{self, MetricSample, MetricType, MetricsPage, seconds, to_f64};

use crate::http::{Body, json};
use crate::service::Service;

const COUNTER: MetricType = MetricType::COUNTER;
const GAUGE: MetricType = MetricType::GAUGE;

/// The type, name, help text and samples of a metric.
type MetricRow = (
    MetricType,
    &'static str,
    &'static str,
    Vec<MetricSample<'static>>,
);

/// Builds the page from the current state of the service.
pub(super) fn respond(service: &Service) -> Result<Response<Body>, ApiError> {
    let prefix = &service.gate.active().config.monitoring.metrics_prefix;
    let mut page = MetricsPage::new(prefix);

    service.gate.metrics().write(&mut page);
    let rows = [
        &store_rows(service)[..],
        &config_rows(service),
        &load_rows(service),
        &fleet_rows(service),
    ];
    for (kind, name, help, samples) in rows.concat() {
        page.family(kind, name, help, samples);
    }
    write_evictions(service, &mut page);
    write_audit_log(service, &mut page);
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

fn store_rows(service: &Service) -> [MetricRow; 7] {
    let store = service.gate.store_state();
    let errors = store.health.store_errors.by_kind();
    let errors = errors.map(|(kind, count)| (vec![("kind", kind)], to_f64(count)));
    let saved_at = store.snapshot.and_then(|(_, state)| state.saved_at);

    [
        (
            COUNTER,
            "store_errors_total",
            "Failed store calls by kind",
            errors.into(),
        ),
        (
            GAUGE,
            "store_up",
            "1 if every server of the store is reachable",
            flag(store.is_up),
        ),
        (
            GAUGE,
            "degraded",
            "1 while limits use their failure policies",
            flag(store.health.degraded),
        ),
        (
            COUNTER,
            "degraded_seconds_total",
            "Time during which limits used their failure policies",
            one(seconds(store.health.degraded_for)),
        ),
        (
            GAUGE,
            "keys",
            "Counters in the memory of this process",
            size(store.keys),
        ),
        (
            COUNTER,
            "store_evicted_keys_total",
            "Keys that the Redis servers evicted while this replica was connected to them",
            one(to_f64(store.evicted_keys)),
        ),
        (
            GAUGE,
            "snapshot_last_save_timestamp_seconds",
            "When the snapshot of the counters was last saved, in seconds since the UNIX epoch",
            saved_at.map(seconds).map(one).unwrap_or_default(),
        ),
    ]
}

fn config_rows(service: &Service) -> [MetricRow; 5] {
    let reloads = service.reloader.status();
    let results = [("applied", reloads.applied), ("failed", reloads.failed)];
    let results = results.map(|(result, count)| (vec![("result", result)], to_f64(count)));

    [
        (
            GAUGE,
            "config_reload_failed",
            "1 if the last configuration reload failed",
            flag(reloads.last_error.is_some()),
        ),
        (
            COUNTER,
            "config_reloads_total",
            "Configuration reloads by result: applied or failed",
            results.into(),
        ),
        (
            GAUGE,
            "config_last_reload_timestamp_seconds",
            "When the active configuration was loaded, in seconds since the UNIX epoch",
            one(seconds(reloads.active_since)),
        ),
        (
            GAUGE,
            "limits",
            "Limits of the active configuration",
            size(service.gate.active().config.limits.len()),
        ),
        (
            GAUGE,
            "warnings",
            "Warnings about the configuration and the store, whose texts are in /admin/status",
            size(service.gate.warnings().len()),
        ),
    ]
}

fn fleet_rows(service: &Service) -> [MetricRow; 3] {
    let fleet = service.fleet.snapshot(&service.gate);
    let configs = fleet.members.iter().map(|member| &member.heartbeat.config);
    let distinct: BTreeSet<&String> = configs.collect();
    let actions = service.gate.action_counts().into_iter();
    let actions = actions.map(|(kind, count)| {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        (vec![("kind", kind.as_str())], to_f64(count))
    });

    [
        (
            GAUGE,
            "fleet_replicas",
            "Replicas on the store, as this one has last read them; 1 with a memory store",
            size(fleet.members.len()),
        ),
        (
            GAUGE,
            "fleet_configurations",
            "Different configurations of these replicas",
            size(distinct.len()),
        ),
        (
            GAUGE,
            "actions",
            "Actions of operators in force, as this replica has last read them",
            actions.collect(),
        ),
    ]
}

fn load_rows(service: &Service) -> [MetricRow; 8] {
    let (load, tls) = (&service.load, &service.tls);

    [
        (
            GAUGE,
            "connections",
            "Open client connections",
            size(load.connections()),
        ),
        (
            GAUGE,
            "in_flight_requests",
            "Client requests in flight",
            size(load.in_flight()),
        ),
        (
            COUNTER,
            "shed_total",
            "Client requests and connections rejected because the service was full",
            one(to_f64(load.shed())),
        ),
        (
            COUNTER,
            "evicted_connections_total",
            "Idle client connections closed to make room for new ones",
            one(to_f64(load.evicted())),
        ),
        (
            COUNTER,
            "tls_handshakes_failed_total",
            "TLS handshakes that failed or took too long",
            one(to_f64(tls.handshakes_failed())),
        ),
        (
            GAUGE,
            "tls_reload_failed",
            "1 if the certificate files have changed but are not valid",
            flag(tls.has_failed()),
        ),
        (
            GAUGE,
            "build_info",
            "Always 1; the version is a label",
            vec![(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)],
        ),
        (
            GAUGE,
            "start_time_seconds",
            "When this process started, in seconds since the UNIX epoch",
            one(seconds(service.started_at)),
        ),
    ]
}

fn write_evictions(service: &Service, page: &mut MetricsPage) {
    let limits = service.gate.evictions();
    let samples = limits.iter().flat_map(|(limit, evictions)| {
        let limit = limit.as_deref().unwrap_or_default();
        let counts = [("true", evictions.limited), ("false", evictions.unlimited)];
        counts.map(|(limited, count)| {
            let labels = vec![("limit", limit), ("limited", limited)];
            (labels, to_f64(count))
        })
    });

    let help = "Counters lost to the memory store's cap; limited: of clients being limited";
    page.family(COUNTER, "evictions_total", help, samples);
}

fn write_audit_log(service: &Service, page: &mut MetricsPage) {
    let audit_log = &service.audit_log;
    let written = one(to_f64(audit_log.written()));
    let help = "Lines of the audit log about denials";
    page.family(COUNTER, "audit_log_lines_total", help, written);

    let dropped = audit_log.dropped();
    let dropped = dropped.map(|(reason, count)| (vec![("reason", reason)], to_f64(count)));
    let help = "Denials without a line in the audit log: over the rate, queue full, output failed";
    page.family(COUNTER, "audit_log_dropped_total", help, dropped);
}

fn write_alerts(service: &Service, page: &mut MetricsPage) {
    let states = service.alerts.states();
    let samples = states.iter().map(|state| {
        let limit = state.limit.as_deref().unwrap_or_default();
        let labels = vec![("alert", state.alert.as_str()), ("limit", limit)];
        (labels, f64::from(u8::from(state.since.is_some())))
    });

    let help = "1 while a configured alert is firing";
    page.family(GAUGE, "alert_firing", help, samples);

    let usage = service.alerts.usage();
    let samples = usage.iter().map(|((limit, percent), keys)| {
        let percent = if *percent == 100 { "100" } else { "80" };
        let labels = vec![("limit", &**limit), ("percent", percent)];
        (labels, to_f64(*keys))
    });
    let help = "Keys that have used this much of a limit with a long window, once per window";
    page.family(COUNTER, "near_limit_keys_total", help, samples);

    let results = service.alerts.deliveries().into_iter();
    let samples = results.map(|(result, count)| (vec![("result", result)], to_f64(count)));
    let help = "Alerts for the webhook by result; attempt_failed: attempts, also of delivered ones";
    page.family(COUNTER, "webhook_deliveries_total", help, samples);
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
