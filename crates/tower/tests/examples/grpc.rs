//! `tonic_server`.

use tonic::Code;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::{TestServer, tonic_server};

#[test]
fn the_sixth_call_of_a_minute_is_rejected_with_a_retry_delay() {
    let server = TestServer::start(tonic_server::serve);
    server.runtime.block_on(async {
        let endpoint =
            Endpoint::from_shared(format!("http://{}", server.addr)).expect("an address");
        let mut client = HealthClient::new(endpoint.connect().await.expect("a connection"));
        for _ in 0..5 {
            client
                .check(HealthCheckRequest::default())
                .await
                .expect("one of five");
        }
        let status = client
            .check(HealthCheckRequest::default())
            .await
            .expect_err("the sixth");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(!status.details().is_empty(), "the details hold a RetryInfo");
        let pushback = status
            .metadata()
            .get("grpc-retry-pushback-ms")
            .expect("a time");
        let pushback: u64 = pushback
            .to_str()
            .expect("a text")
            .parse()
            .expect("milliseconds");
        assert!((1..=120_000).contains(&pushback), "{pushback}");
    });
}

#[test]
fn a_call_is_judged_by_its_final_status() {
    let server = TestServer::start(tonic_server::serve);
    server.runtime.block_on(async {
        let endpoint =
            Endpoint::from_shared(format!("http://{}", server.addr)).expect("an address");
        let mut client = HealthClient::new(endpoint.connect().await.expect("a connection"));
        // An unknown service is an error of the client, and counts.
        for _ in 0..5 {
            let unknown = HealthCheckRequest {
                service: "unheard.of".to_owned(),
            };
            let status = client.check(unknown).await.expect_err("an unknown service");
            assert_eq!(status.code(), Code::NotFound);
        }
        let status = client
            .check(HealthCheckRequest::default())
            .await
            .expect_err("the sixth");
        assert_eq!(status.code(), Code::ResourceExhausted);
    });
}
