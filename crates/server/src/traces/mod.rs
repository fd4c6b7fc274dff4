//! Traces over OTLP, off unless the configuration names a collector. One span a request, which says
//! what was decided and never about whom.

mod client;

use hyper::HeaderMap;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tollgate::Decision;
use tollgate_rules::config::TracingConfig;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, filter};

use self::client::Collector;

/// Where spans are traced, apart from what is logged.
const TARGET: &str = "tollgate_trace";

/// What is asked of the log's filter, so that spans cost nothing while nobody collects them.
pub(crate) const NOT_LOGGED: &str = "tollgate_trace=off";

/// The collector's address has a path of its own; without one, this is where traces go.
const PATH: &str = "/v1/traces";

/// Sends spans on until it is dropped.
#[derive(Debug)]
pub(crate) struct TraceExporter {
    provider: SdkTracerProvider,
}

impl TraceExporter {
    /// Begins to send spans to a collector. Must be called inside a Tokio runtime.
    pub(crate) fn start(tracing: &TracingConfig) -> Result<Self, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new())
            .with_endpoint(endpoint(&tracing.otlp_endpoint))
            .build()
            .map_err(|error| format!("cannot export traces: {error}"))?;
        let sampler =
            Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(tracing.sample_ratio)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(sampler)
            .with_resource(Resource::builder().with_service_name("tollgate").build())
            .build();
        Ok(Self { provider })
    }

    /// What the spans of this process go to.
    pub(crate) fn layer<S>(&self) -> filter::Filtered<OpenTelemetryLayer<S, SdkTracer>, Targets, S>
    where
        S: tracing::Subscriber + for<'s> LookupSpan<'s>,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer("tollgate"));
        layer.with_filter(Targets::new().with_target(TARGET, tracing::Level::INFO))
    }

    /// Sends what is left. It may take a few seconds, and blocks.
    pub(crate) fn finish(&self) {
        // When the collector is away, the last spans are lost; nobody waits longer for them.
        drop(self.provider.shutdown());
    }
}

fn endpoint(configured: &str) -> String {
    let after_scheme = configured
        .split_once("://")
        .map_or(configured, |(_, rest)| rest);
    if after_scheme.trim_end_matches('/').contains('/') {
        return configured.to_owned();
    }
    format!("{}{PATH}", configured.trim_end_matches('/'))
}

/// The span of a request, a child of the caller's if its headers name one. It is nothing while
/// traces are off.
pub(crate) fn span(route: &'static str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(
        target: "tollgate_trace",
        "decide",
        otel.name = route,
        otel.kind = "server",
        http.response.status_code = Empty,
        tollgate.allowed = Empty,
        tollgate.source = Empty,
        tollgate.denied_by = Empty,
    );
    if !span.is_disabled() {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        // Fails only where nobody collects.
        drop(span.set_parent(parent));
    }
    span
}

/// Writes down what was decided.
pub(crate) fn decided(span: &Span, decision: &Decision) {
    if span.is_disabled() {
        return;
    }
    span.record("tollgate.allowed", decision.is_allowed());
    span.record("tollgate.source", decision.source().as_str());
    if let Some(status) = decision.denied_by() {
        span.record("tollgate.denied_by", status.name());
    }
}

/// Writes down how the request was answered.
pub(crate) fn answered(span: &Span, status: hyper::StatusCode) {
    span.record("http.response.status_code", status.as_u16());
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn traces_go_where_collectors_expect_them() {
        assert_eq!(
            endpoint("http://127.0.0.1:4318"),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(
            endpoint("http://127.0.0.1:4318/"),
            "http://127.0.0.1:4318/v1/traces"
        );
        assert_eq!(
            endpoint("http://collector/otlp/v1/traces"),
            "http://collector/otlp/v1/traces"
        );
    }
}
