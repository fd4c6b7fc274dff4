//! Runs a real Envoy against the service.

#![expect(clippy::unwrap_used, reason = "the helpers are test code, too")]

use std::net::SocketAddr;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use testkit::reverse_proxy::{self, Proxy, Upstream};
use tokio::net::TcpListener;
use tollgate_envoy::tonic::{Request, Response, Status, async_trait};
use tollgate_envoy::{
    Code, DescriptorStatus, Duration, HeaderValue, HealthReporter, RateLimit, RateLimitRequest,
    RateLimitResponse, RateLimitService, Services, Unit,
};

/// Sends one descriptor per request, with the user. The timeout is long, because Envoy lets
/// requests pass when the service is slow, as on a busy machine.
const ENVOY: &str = r#"
static_resources:
  listeners:
  - address: { socket_address: { address: 127.0.0.1, port_value: @port@ } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: test
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: { prefix: / }
                route: { cluster: upstream }
                typed_per_filter_config:
                  envoy.filters.http.ratelimit:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
                      hits_addend: { number: 3 }
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: shop
              timeout: 10s
              failure_mode_deny: true
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: { envoy_grpc: { cluster_name: tollgate } }
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: upstream
    load_assignment:
      cluster_name: upstream
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: @upstream@ } } }
  - name: tollgate
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
    load_assignment:
      cluster_name: tollgate
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: @tollgate@ } } }
"#;

/// Allows one user, and reports the request that it received in a header to the upstream.
#[derive(Debug)]
struct TestService;

#[async_trait]
impl RateLimitService for TestService {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let user = str::from_utf8(&request.descriptors[0].entries[0].value).unwrap();
        let (code, body) = if user == "ann" {
            (Code::Ok, "")
        } else {
            (Code::OverLimit, "slow down")
        };
        let limit = RateLimit {
            requests_per_unit: 5,
            unit: Unit::Minute.into(),
            name: "login".into(),
            unit_multiplier: Some(15),
        };
        let status = DescriptorStatus {
            code: code.into(),
            current_limit: Some(limit),
            limit_remaining: 4,
            duration_until_reset: Some(Duration {
                seconds: 9,
                nanos: 0,
            }),
        };

        Ok(Response::new(RateLimitResponse {
            overall_code: code.into(),
            statuses: vec![status],
            response_headers_to_add: vec![header("x-user-checked", user)],
            request_headers_to_add: vec![header("x-received", &summary(&request))],
            raw_body: body.into(),
        }))
    }
}

fn header(key: &str, value: &str) -> HeaderValue {
    HeaderValue {
        key: key.to_owned().into(),
        value: value.into(),
        ..Default::default()
    }
}

fn summary(request: &RateLimitRequest) -> String {
    let descriptor = &request.descriptors[0];
    let entry = &descriptor.entries[0];
    let value = String::from_utf8_lossy(&entry.value);
    format!(
        "{} {}={value} {:?}",
        request.domain, entry.key, descriptor.hits_addend
    )
}

/// Serves on a free port for as long as the test runs.
fn serve() -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || runtime.block_on(accept(listener)));
    addr
}

async fn accept(listener: TcpListener) {
    let services = TowerToHyperService::new(Services::new(TestService, HealthReporter::new()));
    while let Ok((stream, _)) = listener.accept().await {
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(stream), services.clone()));
    }
}

#[test]
fn envoy_applies_the_decisions() {
    let upstream = Upstream::start();
    let envoy = Proxy::envoy(ENVOY)
        .set("upstream", upstream.addr().port())
        .set("tollgate", serve().port());
    let envoy = envoy.start();

    let allowed = reverse_proxy::get(envoy.addr(), "/", &[("x-user", "ann")]);
    assert_eq!(allowed.status, 200, "{allowed:?}\n{}", envoy.log());
    assert_eq!(allowed.header("x-user-checked"), Some("ann"));
    assert_eq!(allowed.header("x-ratelimit-remaining"), Some("4"));
    assert_eq!(allowed.header("x-ratelimit-reset"), Some("9"));
    // 15 minutes is not a unit of the protocol, so it is sent as a multiple.
    assert_eq!(
        allowed.header("x-ratelimit-limit"),
        Some("5, 5;w=900;name=\"login\"")
    );
    let received = allowed.text();
    assert!(
        received.contains("\nx-received: shop user=ann Some(3)\n"),
        "{received}"
    );

    let denied = reverse_proxy::get(envoy.addr(), "/", &[("x-user", "bob")]);
    assert_eq!(
        (denied.status, denied.text().as_str()),
        (429, "slow down"),
        "{}",
        envoy.log()
    );
    assert_eq!(denied.header("x-user-checked"), Some("bob"));
    assert_eq!(upstream.answered(), 1);
}
