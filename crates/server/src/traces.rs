//! Traces over OTLP; off unless the configuration names a collector. Each request has one span,
//! which records the decision but never the key.

use std::time::Duration;

use async_trait::async_trait;
use hyper::{HeaderMap, Uri};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;
use tollgate_rules::config::TracingConfig;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, filter};

/// The target of spans; log events have others.
const TARGET: &str = "tollgate_trace";

/// A directive for the log's filter, so that spans cost nothing while tracing is off.
pub(crate) const NOT_LOGGED: &str = "tollgate_trace=off";

/// Appended to a collector's URL that has no path.
const DEFAULT_PATH: &str = "/v1/traces";

/// How long sending a batch of spans may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Exports spans to the collector.
#[derive(Debug)]
pub(crate) struct TraceExporter {
    provider: SdkTracerProvider,
}

impl TraceExporter {
    /// Starts to export spans. Must be called inside a Tokio runtime.
    pub(crate) fn start(tracing: &TracingConfig) -> Result<Self, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient {
                client: HyperClient::with_default_connector(SEND_TIMEOUT, None),
                runtime: Handle::current(),
            })
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

    /// The subscriber layer that passes spans to this exporter.
    pub(crate) fn layer<S>(&self) -> filter::Filtered<OpenTelemetryLayer<S, SdkTracer>, Targets, S>
    where
        S: tracing::Subscriber + for<'s> LookupSpan<'s>,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer("tollgate"));
        layer.with_filter(Targets::new().with_target(TARGET, tracing::Level::INFO))
    }

    /// Exports the remaining spans. Blocks, up to a few seconds.
    pub(crate) fn finish(&self) {
        // The last spans are lost when the collector is unavailable.
        drop(self.provider.shutdown());
    }
}

/// Sends batches of spans on the service's runtime, because the exporter's own thread has none.
#[derive(Debug)]
struct CollectorClient {
    client: HyperClient,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self
            .runtime
            .spawn(async move { client.send_bytes(request).await });
        sent.await?
    }
}

/// The URL to send spans to: with the default path if the configured one has none.
fn endpoint(configured: &str) -> String {
    let has_path = configured
        .parse()
        .is_ok_and(|url: Uri| url.path().len() > 1);
    if has_path {
        configured.to_owned()
    } else {
        format!("{}{DEFAULT_PATH}", configured.trim_end_matches('/'))
    }
}

/// The span of a request; a child of the caller's span if the headers name one. Disabled while
/// tracing is off.
pub(crate) fn span(route: &'static str, headers: &HeaderMap) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
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
        // Fails only without a collector.
        drop(span.set_parent(parent));
    }

    span
}

/// Records the status of the response in the request's span.
pub(crate) fn record_status(span: &Span, status: hyper::StatusCode) {
    span.record("http.response.status_code", status.as_u16());
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn a_url_without_a_path_gets_the_default_path() {
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
