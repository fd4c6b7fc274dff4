//! Health, reflection, and clients that take too long or are too many.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use prost::Message;
use testkit::wait;
use tollgate_envoy::Code;

use super::about;
use super::client::{Client, SHOULD_RATE_LIMIT};
use crate::harness::{PATIENCE, Tollgate};

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;

/// The single field of health requests.
#[derive(Clone, PartialEq, Message)]
struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The reflection request that lists all services.
#[derive(Clone, PartialEq, Message)]
struct ListServices {
    #[prost(string, optional, tag = "7")]
    list_services: Option<String>,
}

#[test]
fn health_is_serving_until_the_service_drains() {
    // An open `Watch` call must not delay the shutdown.
    let mut service = Tollgate::with_config(
        "
version: 1
limits: [{ name: a, key: [a], algorithm: fixed_window, limit: 5, window: 1h }]
server: { drain_timeout: 1h }
",
    );
    let mut client = Client::connect(service.grpc);
    for name in ["", SERVICE] {
        let health: Health = client
            .call(
                CHECK,
                &HealthRequest {
                    service: name.into(),
                },
            )
            .only();
        assert_eq!(health.status, SERVING, "{name:?}");
    }
    let mut watcher = Client::connect(service.grpc);
    let states = watcher.begin(
        WATCH,
        &HealthRequest {
            service: SERVICE.into(),
        },
    );
    service.signal("TERM");
    let seen: Vec<Health> = watcher.finish(states).all();
    let seen: Vec<i32> = seen.iter().map(|health| health.status).collect();
    assert_eq!(seen.last(), Some(&NOT_SERVING), "{seen:?}");
    drop((client, watcher));
    assert!(service.wait_for_exit().success());
}

#[test]
fn a_shutdown_under_load_breaks_no_call() {
    let mut service = Tollgate::start();
    let asked = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = Client::connect(service.grpc);
                while let Some(reply) =
                    client.ask_unless_draining(&about(&[("client_ip", "203.0.113.7")]))
                {
                    assert_eq!(reply.status, "0", "{}", reply.text);
                    asked.fetch_add(1, Relaxed);
                }
            });
        }
        wait::until_true(PATIENCE, "load", || asked.load(Relaxed) > 500);
        service.signal("TERM");
    });
    assert!(service.wait_for_exit().success());
}

#[test]
fn reflection_lists_the_services() {
    let service = Tollgate::start();
    let mut client = Client::connect(service.grpc);
    let asked = ListServices {
        list_services: Some(String::new()),
    };
    let reply = client.call(
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        &asked,
    );
    let text = reply.text_of_messages();
    for name in [SERVICE, "grpc.health.v1.Health"] {
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn a_message_that_does_not_arrive_times_out() {
    let service = Tollgate::with_config(
        "
version: 1
limits: [{ name: a, key: [a], algorithm: fixed_window, limit: 5, window: 1h }]
server: { header_timeout: 100ms }
",
    );
    let mut client = Client::connect(service.grpc);
    let reply = client.ask_nothing();
    assert_eq!(reply.status, "4", "{}", reply.text);
    assert_eq!(client.ask(&about(&[("a", "b")])).overall_code(), Code::Ok);
}

/// A slot is taken when the message has arrived, so unfinished requests cannot take them all.
#[test]
fn unfinished_requests_hold_no_slots() {
    let service = Tollgate::with_config(
        "
version: 1
limits: [{ name: a, key: [a], algorithm: fixed_window, limit: 500, window: 1h }]
server: { header_timeout: 1h, in_flight_max: 4 }
",
    );
    let mut clients: Vec<Client> = (0..21).map(|_| Client::connect(service.grpc)).collect();
    for client in &mut clients {
        // The first call makes sure that the client knows the server's bounds, the last one that
        // the server has seen what was sent before.
        let ask = |client: &mut Client| client.ask(&about(&[("a", "b")])).overall_code();
        assert_eq!(ask(client), Code::Ok);
        (0..200).for_each(|_| client.hold());
        assert_eq!(ask(client), Code::Ok);
    }

    for _ in 0..50 {
        let answer = service.check(r#"{"attributes": {"a": "c"}}"#);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for client in &mut clients {
        let health: Health = client.call(CHECK, &HealthRequest::default()).only();
        assert_eq!(health.status, SERVING);
        assert_eq!(client.ask(&about(&[("a", "b")])).overall_code(), Code::Ok);
    }
    assert!(!service.log().contains("overloaded"), "{}", service.log());
}

#[test]
fn the_longest_idle_connection_makes_room() {
    let service = Tollgate::with_config(
        "
version: 1
limits: [{ name: a, key: [a], algorithm: fixed_window, limit: 500, window: 1h }]
server: { connections_max: 2 }
",
    );
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(service.grpc)).collect();
    for index in [1, 0] {
        let answer = clients[index].ask(&about(&[("a", "b")]));
        assert_eq!(answer.overall_code(), Code::Ok);
    }

    let mut newcomer = Client::connect(service.grpc);
    let answer = newcomer.ask(&about(&[("a", "b")]));
    assert_eq!(answer.overall_code(), Code::Ok);
    clients[1].wait_until_closed();
    let answer = clients[0].ask(&about(&[("a", "b")]));
    assert_eq!(answer.overall_code(), Code::Ok);
}

#[test]
fn health_is_checked_when_there_are_too_many_connections() {
    let service = Tollgate::with_config(
        "
version: 1
limits: [{ name: a, key: [a], algorithm: fixed_window, limit: 500, window: 1h }]
server: { header_timeout: 1h, connections_max: 1 }
",
    );
    let mut busy = Client::connect(service.grpc);
    busy.hold();
    assert_eq!(busy.ask(&about(&[("a", "b")])).overall_code(), Code::Ok);

    let mut newcomer = Client::connect(service.grpc);
    let (status, text) = newcomer.fault(&about(&[("a", "b")]));
    assert_eq!(status, "14", "{text}");
    assert!(text.contains("another%20replica"), "{text}");
    let health: Health = newcomer.call(CHECK, &HealthRequest::default()).only();
    assert_eq!(health.status, SERVING);

    drop(busy);
    wait::until_true(PATIENCE, "room for the newcomer", || {
        newcomer
            .call(SHOULD_RATE_LIMIT, &about(&[("a", "b")]))
            .status
            == "0"
    });
}
