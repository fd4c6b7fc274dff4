//! All replicas pause for 300 ms behind each proxy with its file from `deploy/`, plain and over TLS:
//! every request is answered, and none passes unchecked.
//!
//! Pauses and timeouts are five times as long here, so that the proxies have seconds instead of
//! tenths of them on a busy machine.

use std::thread;
use std::time::Duration;

use testkit::ports::Port;
use testkit::reverse_proxy::{self, Builder, Proxy, Upstream};
use testkit::wait;

use crate::access::ServerCertificate;
use crate::deploy::{self, read};
use crate::harness::Tollgate;
use crate::replicas;

/// How many times as long everything takes.
const SLOWNESS: u32 = 5;
/// How long all replicas pause.
const PAUSE: Duration = Duration::from_millis(300 * SLOWNESS as u64);
/// The requests that are sent in each pause. Each is answered over a connection of its own, so a
/// larger number than before makes the proxy open further connections to replicas that pause.
const BURSTS: [usize; 2] = [8, 40];
/// The TCP port of the service that a proxy asks.
type ServicePort = fn(&Tollgate) -> u16;

/// Replicas with a store of their own, and an application.
struct Setup {
    replicas: Vec<Tollgate>,
    ports: Vec<Port>,
    app: Upstream,
}

impl Setup {
    fn start(config: &str, replicas: usize) -> Self {
        let config = format!("client_ip: {{ trusted_proxies: [\"127.0.0.0/8\"] }}\n{config}");
        let ports: Vec<Port> = (0..replicas).map(|_| Port::reserve()).collect();
        let start = |port: &Port| {
            let address = port.addr().to_string();
            Tollgate::with(&config, &["--http", &address], &[])
        };
        Self {
            replicas: ports.iter().map(start).collect(),
            ports,
            app: Upstream::start(),
        }
    }

    fn signal(&self, name: &str) {
        self.replicas
            .iter()
            .for_each(|replica| replica.signal(name));
    }

    /// Sends requests while all replicas pause. Each must reach the application after a decision.
    fn pause(&self, proxy: &Proxy, requests: usize) {
        let check = || {
            let answer = reverse_proxy::get(proxy.addr(), "/pages/1", &[]);
            let is_decided = answer.status == 200 && answer.header("x-ratelimit-limit").is_some();
            let is_marked = answer.header("x-ratelimit-unchecked").is_some()
                || answer.text().contains("x-ratelimit-unchecked");
            assert!(is_decided && !is_marked, "{answer:?}\n{}", proxy.log());
        };

        self.signal("STOP");
        thread::scope(|scope| {
            let clients: Vec<_> = (0..requests).map(|_| scope.spawn(check)).collect();
            // The pause is the fault: nothing ends it earlier.
            wait::within(PAUSE, || None::<()>);
            self.signal("CONT");
            for client in clients {
                client.join().expect("a decision for every request");
            }
        });
    }

    fn pause_repeatedly(&self, proxy: Builder) {
        let proxy = proxy.start();
        for requests in BURSTS {
            self.pause(&proxy, requests);
        }
        let sent = BURSTS.iter().sum::<usize>();
        assert_eq!(self.app.answered(), sent as u64);
    }
}

const LIMITS: &str = "
limits:
  - { name: all, key: [client_ip], algorithm: fixed_window, limit: 1000000, window: 1d }
";

/// nginx with the upstream of `docs/three-replicas.md`.
fn nginx(setup: &Setup, encrypt: impl Fn(&str) -> String) {
    let file = encrypt(&replicas::nginx_file(&deploy::nginx(), &setup.ports));
    setup.pause_repeatedly(
        Proxy::nginx(deploy::slowed(&file, SLOWNESS)).set("app", setup.app.addr()),
    );
}

fn caddy(setup: &Setup, encrypt: impl Fn(&str) -> String) {
    let proxy = Proxy::caddy(deploy::slowed(&encrypt(&deploy::caddy()), SLOWNESS));
    let proxy = proxy.set("tollgate", setup.replicas[0].http);
    setup.pause_repeatedly(proxy.set("app", setup.app.addr()));
}

/// Envoy with each of its files.
fn envoy(config: &str, encrypt: impl Fn(&str) -> String) {
    let files: [(&str, ServicePort); 2] = [
        ("envoy/ext_authz.yaml", |replica| replica.http.port()),
        ("envoy/ratelimit.yaml", |replica| replica.grpc.port()),
    ];
    for (file, port) in files {
        let setup = Setup::start(config, 1);
        let proxy = Proxy::envoy(deploy::slowed(
            &encrypt(&deploy::envoy(&read(file))),
            SLOWNESS,
        ));
        let proxy = proxy.set("tollgate", port(&setup.replicas[0]));
        setup.pause_repeatedly(proxy.set("app", setup.app.addr().port()));
    }
}

#[test]
fn behind_nginx_no_request_passes_unchecked() {
    nginx(&Setup::start(LIMITS, 3), str::to_owned);
}

#[test]
fn behind_nginx_over_tls_no_request_passes_unchecked() {
    let certificate = ServerCertificate::create();
    nginx(&Setup::start(&certificate.config(""), 3), |file| {
        deploy::nginx_with_tls(file, &certificate.authority())
    });
}

#[test]
fn behind_caddy_no_request_passes_unchecked() {
    caddy(&Setup::start(LIMITS, 1), str::to_owned);
}

#[test]
fn behind_caddy_over_tls_no_request_passes_unchecked() {
    let certificate = ServerCertificate::create();
    caddy(&Setup::start(&certificate.config(""), 1), |file| {
        deploy::caddy_with_tls(file, &certificate.authority())
    });
}

#[test]
fn behind_envoy_no_request_passes_unchecked() {
    envoy(LIMITS, str::to_owned);
}

#[test]
fn behind_envoy_over_tls_no_request_passes_unchecked() {
    let certificate = ServerCertificate::create();
    envoy(&certificate.config(""), |file| {
        deploy::envoy_with_tls(file, &certificate.authority())
    });
}
