//! The reverse proxies for tests: each starts, forwards requests to its upstream, and leaves
//! nothing behind.

#![expect(clippy::unwrap_used, reason = "all code here is test code")]

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::reverse_proxy::{self, Builder, Proxy, Upstream};
use testkit::wait;

/// Reached only if something is broken.
const LIMIT: Duration = Duration::from_secs(30);

const NGINX: &str = "
server {
    listen 127.0.0.1:@port@;
    location / {
        proxy_pass http://@upstream@;
    }
    location = /denied {
        error_page 404 = @denied;
        return 404;
    }
    location @denied {
        return 429;
    }
}";

const HAPROXY: &str = "
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend front
    bind 127.0.0.1:@port@
    http-request return status 429 if { path /denied }
    default_backend back
backend back
    server upstream @upstream@";

const CADDY: &str = "
http://:@port@ {
    respond /denied 429
    reverse_proxy @upstream@
}";

const ENVOY: &str = r#"
admin:
  address: { socket_address: { address: 127.0.0.1, port_value: @port:admin@ } }
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
              - { match: { path: /denied }, direct_response: { status: 429 } }
              - { match: { prefix: / }, route: { cluster: upstream } }
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
  - name: upstream
    load_assignment:
      cluster_name: upstream
      endpoints:
      - lb_endpoints:
        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: @upstream_port@ } } }
"#;

fn is_refused(addr: SocketAddr) -> bool {
    TcpStream::connect(addr)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Whether a process exists and has not exited. A zombie has exited.
fn process_exists(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A proxy forwards requests that it does not answer itself, and ends without leaving anything
/// behind.
fn forwards_requests(builder: Builder) {
    let upstream = Upstream::start();
    let proxy = builder
        .set("upstream", upstream.addr())
        .set("upstream_port", upstream.addr().port())
        .start();

    let response = reverse_proxy::get(
        proxy.addr(),
        "/a?b=c",
        &[("X-Who", "ann"), ("Host", "shop.example")],
    );
    let text = response.text();
    assert_eq!(response.status, 200, "{text}\n{}", proxy.log());
    assert!(text.starts_with("GET /a?b=c HTTP/1."), "{text}");
    assert!(text.contains("\nx-who: ann\n"), "{text}");
    let posted = reverse_proxy::send(proxy.addr(), "POST", "/", &[], b"a body");
    assert!(
        posted.text().contains("\ncontent-length: 6\n"),
        "{posted:?}"
    );

    assert_eq!(reverse_proxy::get(proxy.addr(), "/denied", &[]).status, 429);
    assert_eq!(upstream.answered(), 2);

    let (addr, pid, directory) = (proxy.addr(), proxy.pid(), proxy.directory().to_owned());
    assert!(directory.is_dir() && process_exists(pid));
    proxy.stop();
    assert!(!directory.exists() && !process_exists(pid) && is_refused(addr));
}

/// The message of a proxy about an invalid configuration.
fn complaint(builder: Builder) -> String {
    *std::panic::catch_unwind(|| builder.start())
        .unwrap_err()
        .downcast::<String>()
        .unwrap()
}

#[test]
fn nginx_forwards_requests() {
    forwards_requests(Proxy::nginx(NGINX));
}

#[test]
fn haproxy_forwards_requests() {
    forwards_requests(Proxy::haproxy(HAPROXY));
}

#[test]
fn caddy_forwards_requests() {
    forwards_requests(Proxy::caddy(CADDY));
}

#[test]
fn envoy_forwards_requests() {
    forwards_requests(Proxy::envoy(ENVOY));
}

#[test]
fn envoy_has_one_worker_and_a_second_port() {
    let upstream = Upstream::start();
    let envoy = Proxy::envoy(ENVOY)
        .set("upstream_port", upstream.addr().port())
        .start();
    assert_ne!(envoy.addr(), envoy.addr_of("admin"));
    let info = reverse_proxy::get(envoy.addr_of("admin"), "/server_info", &[]).text();
    assert!(
        info.contains("\"concurrency\": 1") && info.contains("\"disable_hot_restart\": true"),
        "{info}"
    );
}

#[test]
fn an_invalid_configuration_is_reported() {
    for builder in [
        Proxy::nginx("no_such_word @port@;"),
        Proxy::haproxy("no_such_word @port@"),
        Proxy::caddy("http://:@port@ {\n no_such_word\n}"),
        Proxy::envoy("no_such_word: @port@"),
    ] {
        let message = complaint(builder);
        assert!(
            message.contains("did not start (exit status: 1)") && message.contains("no_such_word"),
            "{message}"
        );
    }
}

#[test]
fn several_of_a_kind_run_side_by_side() {
    let upstream = Upstream::start();
    let start = || Proxy::caddy(CADDY).set("upstream", upstream.addr()).start();
    let (one, other) = (start(), start());
    for proxy in [&one, &other] {
        assert_eq!(reverse_proxy::get(proxy.addr(), "/", &[]).status, 200);
    }
}

#[test]
fn a_proxy_does_not_outlive_a_test_that_is_killed() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args([
        "--ignored",
        "--exact",
        "stays_until_it_is_killed",
        "--nocapture",
    ]);
    let mut test = test.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let message = lines.find_map(|line| line.split_once("proxy ").map(|(_, pid)| pid.to_owned()));
    let pid: u32 = message.unwrap().parse().unwrap();
    assert!(process_exists(pid));
    test.kill().unwrap();
    test.wait().unwrap();
    wait::until_true(LIMIT, "the proxy to end", || !process_exists(pid));
}

#[test]
#[ignore = "the test above starts it and kills it"]
fn stays_until_it_is_killed() {
    let upstream = Upstream::start();
    let proxy = Proxy::haproxy(HAPROXY)
        .set("upstream", upstream.addr())
        .start();
    println!("\nproxy {}", proxy.pid());
    wait::until_true(LIMIT, "the end", || false);
}
