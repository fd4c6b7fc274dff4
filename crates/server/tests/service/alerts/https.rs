//! A webhook over https: the receiver must have a certificate that the service trusts.

use std::sync::Arc;

use tokio_rustls::rustls::{ServerConnection, StreamOwned};

use testkit::wait;

use super::{ANN, NARROW, Receiver, SECRET, deliveries, service_for};
use crate::access::ServerCertificate;
use crate::harness::{PATIENCE, Tollgate};

/// A receiver with a certificate for 127.0.0.1, at another address if that is wanted.
fn receiver(certificate: &ServerCertificate, ip: &str) -> Receiver {
    let config = Arc::new(certificate.server());
    Receiver::listen(&format!("{ip}:0"), &[], move |stream| {
        let connection = ServerConnection::new(config.clone()).expect("valid settings");
        StreamOwned::new(connection, stream)
    })
}

/// A service that trusts the authority of a certificate in place of those of the system.
fn trusting(certificate: &ServerCertificate, receiver: &Receiver) -> Tollgate {
    let authority = certificate.authority().display().to_string();
    let variables = [("SSL_CERT_FILE", &*authority)];
    let host = format!("https://{}", receiver.address);
    let service = service_for(&host, "deny_ratio: 0.5", NARROW, &variables);
    (0..40).for_each(|_| drop(service.check(ANN)));
    service
}

#[test]
fn an_alert_is_delivered_over_https() {
    let certificate = ServerCertificate::create();
    let receiver = receiver(&certificate, "127.0.0.1");
    let service = trusting(&certificate, &receiver);

    let sent = receiver.wait_for(1).remove(0);
    assert_eq!(sent.line, "POST /alerts?team=a HTTP/1.1");
    assert!(sent.is_signed(), "{}", sent.signature);
    assert_eq!(sent.json()["alert"], "deny_ratio");
    wait::until_true(PATIENCE, "the count", || {
        deliveries(&service, "delivered") == Some(1)
    });
    assert_eq!(deliveries(&service, "attempt_failed"), Some(0));
}

/// Nothing is sent to a receiver that cannot prove who it is, and the operator learns of it at once.
#[test]
fn a_wrong_certificate_is_logged_and_counted() {
    let certificate = ServerCertificate::create();
    for (trusted, ip, reason) in [
        (
            &ServerCertificate::create(),
            "127.0.0.1",
            "invalid peer certificate",
        ),
        (&certificate, "127.0.0.2", "not valid for name"),
    ] {
        let receiver = receiver(&certificate, ip);
        let service = trusting(trusted, &receiver);
        wait::until_true(PATIENCE, "the count", || {
            deliveries(&service, "failed") == Some(1)
        });
        assert_eq!(deliveries(&service, "attempt_failed"), Some(1), "{reason}");
        assert_eq!(deliveries(&service, "delivered"), Some(0), "{reason}");
        assert_eq!(receiver.deliveries().len(), 0, "{reason}");

        service.wait_for_log("an alert cannot be delivered to the webhook: TLS handshake failed");
        let log = service.log();
        assert!(log.contains(reason), "{log}");
        assert!(!log.contains("/alerts?team=a") && !log.contains(SECRET));
    }
}
