//! TLS on the data ports.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use testkit::reverse_proxy;
use testkit::wait;

use super::{
    ANN, Authority, LIMITS, ServerCertificate, TlsClient, certificates, metric, stderr, tollgate,
};
use crate::grpc::client::Client;
use crate::grpc::{about, codes};
use crate::harness::{PATIENCE, Tollgate};

#[test]
fn both_data_ports_are_served_with_tls_and_the_admin_port_is_not() {
    let certificate = ServerCertificate::create();
    let service = Tollgate::with_config(&certificate.config(""));

    let client = certificate.client();
    let answer = client.check(service.http).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let admin = reverse_proxy::get(service.admin, "/healthz", &[]);
    assert_eq!(admin.status, 200);

    let mut grpc = Client::connect_tls(service.grpc, client.with_protocols(&["h2"]).connector());
    let decided = grpc.ask(&about(&[("client_ip", "203.0.113.7")]));
    assert_eq!(codes(&decided).len(), 1);

    // The protocol of each port is chosen in the handshake.
    for (port, offered, chosen) in [
        (service.http, &["h2", "http/1.1"][..], "http/1.1"),
        (service.grpc, &["http/1.1", "h2"], "h2"),
    ] {
        let opened = client
            .with_protocols(offered)
            .open(port)
            .expect("a handshake");
        assert_eq!(opened.conn.alpn_protocol(), Some(chosen.as_bytes()));
    }
    assert!(client.with_protocols(&["h2"]).open(service.http).is_err());
}

#[test]
fn plain_requests_and_distrustful_clients_get_no_answer() {
    let certificate = ServerCertificate::create();
    let service = Tollgate::with_config(&certificate.config(""));

    let mut plain = TcpStream::connect(service.http).expect("it listens");
    plain.set_read_timeout(Some(PATIENCE)).expect("a time");
    std::io::Write::write_all(&mut plain, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("it is open");
    let mut received = Vec::new();
    drop(plain.read_to_end(&mut received));
    assert!(!received.starts_with(b"HTTP"), "{received:?}");

    let other = Authority::create(certificate.directory.path(), "other");
    let distrustful = TlsClient::new(&other.certificate(), None);
    let error = distrustful.check(service.http).unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer"), "{error}");

    let failed = || metric(&service, "tollgate_tls_handshakes_failed_total");
    wait::until_true(PATIENCE, "both to be counted", || {
        failed() == Some("2".into())
    });
    assert!(certificate.client().check(service.http).is_ok());
}

#[test]
fn a_handshake_that_does_not_continue_ends_and_delays_no_other() {
    let certificate = ServerCertificate::create();
    let settings = "  header_timeout: 500ms\n";
    let service = Tollgate::with_config(&certificate.config(settings));

    let mut silent = TcpStream::connect(service.http).expect("it listens");
    silent.set_read_timeout(Some(PATIENCE)).expect("a time");
    assert!(certificate.client().check(service.http).is_ok());
    let mut received = Vec::new();
    silent
        .read_to_end(&mut received)
        .expect("the server closes the connection");
    assert!(received.is_empty(), "{received:?}");
}

#[test]
fn clients_need_a_certificate_of_the_configured_authority() {
    let certificate = ServerCertificate::create();
    let directory = certificate.directory.path();
    let (clients, others) = (
        Authority::create(directory, "clients"),
        Authority::create(directory, "others"),
    );
    let client_ca = clients.certificate();
    let config = certificate.config("");
    let with_ca = format!("server.key, client_ca: {} }}", client_ca.display());
    let config = config.replace("server.key }", &with_ca);
    let service = Tollgate::with_config(&config);

    let client = |identity| TlsClient::new(&certificate.authority.certificate(), identity);
    let shop = clients.issue("shop");
    let known = client(Some(&shop));
    assert_eq!(known.check(service.http).expect("an answer").status, 200);
    let mut grpc = Client::connect_tls(service.grpc, known.with_protocols(&["h2"]).connector());
    assert_eq!(
        codes(&grpc.ask(&about(&[("client_ip", "203.0.113.7")]))).len(),
        1
    );

    assert!(client(None).check(service.http).is_err());
    let foreign = client(Some(&others.issue("foreign")));
    assert!(foreign.check(service.http).is_err());

    // The command line has options for all of it.
    let url = format!("https://{}", service.http);
    let ca = certificate.authority.certificate().display().to_string();
    let (cert, key) = (
        shop.certificate.display().to_string(),
        shop.key.display().to_string(),
    );
    let check = [
        "check",
        "--url",
        &url,
        "-a",
        "client_ip=203.0.113.7",
        "--ca",
        &ca,
    ];
    let identity = ["--client-cert", &cert, "--client-key", &key];
    let output = tollgate(&[&check[..], &identity].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(tollgate(&check, &[]).status.code(), Some(3));
    let load = [
        "load",
        "--url",
        &url,
        "--ca",
        &ca,
        "-r",
        "50",
        "-d",
        "200ms",
        "--retry-for",
        "0s",
    ];
    let output = tollgate(&[&load[..], &identity].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn commands_trust_the_authorities_they_are_given() {
    let certificate = ServerCertificate::create();
    let service = Tollgate::with_config(&certificate.config(""));
    let url = format!("https://{}", service.http);
    let ca = certificate.authority.certificate().display().to_string();

    let check = ["check", "--url", &url, "-a", "client_ip=203.0.113.7"];
    let output = tollgate(&[&check[..], &["--ca", &ca]].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let output = tollgate(&check, &[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("UnknownIssuer"),
        "{}",
        stderr(&output)
    );
    let key = certificate.files.key.display().to_string();
    let output = tollgate(&[&check[..], &["--ca", &key]].concat(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("at least one certificate"),
        "{}",
        stderr(&output)
    );
    let plain = ["check", "--url", "http://127.0.0.1:1", "--ca", &ca];
    let output = tollgate(&plain, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("require a URL with https"),
        "{}",
        stderr(&output)
    );
}

/// Sets a flag when it is dropped.
struct StopOnDrop<'f>(&'f AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Certificates are replaced again and again. Neither new nor kept connections fail.
#[test]
fn a_renewed_certificate_is_used_without_a_failed_request() {
    let certificate = ServerCertificate::create();
    let service = Tollgate::with_config(&certificate.config(""));
    let client = certificate.client();
    let is_done = AtomicBool::new(false);

    std::thread::scope(|scope| {
        // Also if the test fails: the threads must not run forever.
        let _stop = StopOnDrop(&is_done);
        for _ in 0..2 {
            scope.spawn(|| {
                let mut kept = client.open(service.http).expect("a handshake");
                while !is_done.load(Relaxed) {
                    let answer = client.check(service.http).expect("an answer");
                    assert_eq!(answer.status, 200);
                    let keep = [("connection", "keep-alive")];
                    let addr = service.http;
                    let body = ANN.as_bytes();
                    let answer =
                        reverse_proxy::send_over(&mut kept, addr, "POST", "/v1/check", &keep, body);
                    assert_eq!(answer.expect("an answer").status, 200);
                }
            });
        }

        for _ in 0..3 {
            let renewed = certificate.authority.issue("renewed");
            let expected = certificates(&renewed.certificate);
            fs::rename(&renewed.certificate, &certificate.files.certificate).expect("a file");
            fs::rename(&renewed.key, &certificate.files.key).expect("a file");
            wait::until_true(PATIENCE, "the renewed certificate", || {
                let opened = client.open(service.http).expect("a handshake");
                opened.conn.peer_certificates() == Some(&expected)
            });
        }
    });
    service.wait_for_log("certificate reloaded");
}

#[test]
fn a_broken_certificate_keeps_the_old_one_and_is_logged_once() {
    let certificate = ServerCertificate::create();
    let service = Tollgate::with_config(&certificate.config(""));
    let client = certificate.client();
    let good = fs::read(&certificate.files.certificate).expect("a certificate");

    fs::write(&certificate.files.certificate, "garbage").expect("a writable file");
    let failed = || metric(&service, "tollgate_tls_reload_failed");
    wait::until_true(PATIENCE, "the metric", || failed() == Some("1".into()));
    for text in ["server.tls.cert: cannot use", "no certificate in it"] {
        service.wait_for_log(text);
    }
    assert!(client.check(service.http).is_ok());

    fs::write(&certificate.files.certificate, good).expect("a writable file");
    wait::until_true(PATIENCE, "the metric", || failed() == Some("0".into()));
    service.wait_for_log("certificate reloaded");
    let log = service.log();
    assert_eq!(
        log.matches("the old certificate stays in use").count(),
        1,
        "{log}"
    );
    assert!(client.check(service.http).is_ok());
}

#[test]
fn a_reload_turns_tls_on_and_off() {
    let certificate = ServerCertificate::create();
    let service = Tollgate::with_config(LIMITS);
    let reload = || reverse_proxy::send(service.admin, "POST", "/admin/reload", &[], b"");
    assert_eq!(service.check(ANN).status, 200);

    service.rewrite_config(&certificate.config(""));
    assert_eq!(reload().status, 200);
    assert!(certificate.client().check(service.http).is_ok());

    // A configuration whose files are not valid changes nothing.
    let missing = certificate.config("").replace("server.pem", "missing.pem");
    service.rewrite_config(&missing);
    let refused = reload();
    assert_eq!(refused.status, 422);
    assert!(
        refused.text().contains("server.tls.cert"),
        "{}",
        refused.text()
    );
    assert!(certificate.client().check(service.http).is_ok());

    service.rewrite_config(LIMITS);
    assert_eq!(reload().status, 200);
    assert_eq!(service.check(ANN).status, 200);
}
