//! Kuadrant's reservations: `Reserve` and `Commit`.

use prost::Message;
use tollgate_envoy::{
    Code, CommitRequest, CommitResponse, Duration, RateLimitDescriptor, RateLimitOverride,
    RateLimitRequest, RateLimitUnit, ReserveRequest, ReserveResponse,
};

use testkit::reverse_proxy;
use testkit::servers::{Flavor, Server};

use super::client::{Client, Reply};
use super::{described, request};
use crate::harness::Tollgate;
use crate::reservations::replicas;

pub(crate) const RESERVE: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Reserve";
pub(crate) const COMMIT: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/Commit";
const INVALID_ARGUMENT: &str = "3";
const UNAUTHENTICATED: &str = "16";

const LIMITS: &str = "
version: 1
limits:
  - { name: tokens, key: [user], algorithm: fixed_window, limit: 1000, window: 1d }
  - { name: requests, key: [user], algorithm: fixed_window, limit: 9, window: 1d, cost: 1 }
  - { name: running, key: [user], algorithm: concurrency, limit: 2, permit_timeout: 1h }
";

fn ann() -> Vec<RateLimitDescriptor> {
    vec![described(&[("user", "ann")])]
}

fn estimate(amount: u64) -> ReserveRequest {
    ReserveRequest {
        domain: "shop".into(),
        descriptors: ann(),
        amount,
        ttl: None,
    }
}

fn actual(reservation_id: &str, actual_amount: u64) -> CommitRequest {
    CommitRequest {
        domain: "shop".into(),
        descriptors: ann(),
        reservation_id: reservation_id.into(),
        actual_amount,
    }
}

fn reserve(client: &mut Client, request: &ReserveRequest) -> ReserveResponse {
    client.call(RESERVE, request).only()
}

/// Whether the reservation was open.
fn commit(client: &mut Client, request: &CommitRequest) -> bool {
    let response: CommitResponse = client.call(COMMIT, request).only();
    response.reservation_released
}

/// What a limit has left, in a request that charges nothing.
fn left(client: &mut Client, limit: &str) -> u64 {
    let peek = RateLimitDescriptor {
        hits_addend: Some(0),
        ..described(&[("user", "ann")])
    };
    let response = client.ask(&request([peek]));
    let policies = response.response_headers_to_add.iter();
    let mut fields = policies.filter(|header| header.key.eq_ignore_ascii_case(b"ratelimit"));
    let text = fields.next().map(|header| header.value.clone());
    let text = text.expect("the header `RateLimit`");
    let mut policies = text.split(',').map(str::trim);
    let policy = policies.find(|policy| policy.starts_with(&format!("\"{limit}\"")));
    let mut parameters = policy.expect("the limit").split(';');
    let remaining = parameters.find_map(|parameter| parameter.strip_prefix("r="));
    remaining
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

fn assert_error(reply: &Reply, status: &str, text: &str) {
    let found = reply.text.replace("%20", " ");
    assert_eq!(reply.status, status, "{found}");
    assert!(found.contains(text), "{found}");
}

#[test]
fn the_actual_amount_replaces_the_estimate() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);

    let reserved = reserve(&mut client, &estimate(400));
    assert_eq!(reserved.code(), Code::Ok);
    assert!(!reserved.headers.is_empty());
    assert_eq!(left(&mut client, "tokens"), 600);
    assert_eq!(left(&mut client, "requests"), 8);
    assert_eq!(left(&mut client, "running"), 1);

    assert!(commit(&mut client, &actual(&reserved.reservation_id, 130)));
    assert_eq!(left(&mut client, "tokens"), 870);
    assert_eq!(left(&mut client, "requests"), 8);
    assert_eq!(left(&mut client, "running"), 2);

    // A second time, nothing changes.
    assert!(!commit(&mut client, &actual(&reserved.reservation_id, 130)));
    assert_eq!(left(&mut client, "tokens"), 870);

    // The token of the reservation is enough.
    let reserved = reserve(&mut client, &estimate(100));
    let without_descriptors = CommitRequest {
        domain: String::new(),
        descriptors: Vec::new(),
        ..actual(&reserved.reservation_id, 70)
    };
    assert!(commit(&mut client, &without_descriptors));
    assert_eq!(left(&mut client, "tokens"), 800);
}

#[test]
fn all_limits_have_room_or_nothing_is_reserved() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    for _ in 0..2 {
        let reserved = reserve(&mut client, &estimate(300));
        assert_eq!(reserved.code(), Code::Ok);
    }

    // No third request may run.
    let denied = reserve(&mut client, &estimate(300));
    assert_eq!(denied.code(), Code::OverLimit);
    assert_eq!(denied.reservation_id, "");
    let mut names = denied.headers.iter().map(|header| &header.key);
    assert!(names.all(|name| name != "content-type"));
    assert_eq!(left(&mut client, "tokens"), 400);
    assert_eq!(left(&mut client, "requests"), 7);
}

#[test]
fn more_than_the_estimate_becomes_debt() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let reserved = reserve(&mut client, &estimate(10));
    assert!(commit(
        &mut client,
        &actual(&reserved.reservation_id, 1_500)
    ));

    assert_eq!(left(&mut client, "tokens"), 0);
    let denied = reserve(&mut client, &estimate(1));
    assert_eq!(denied.code(), Code::OverLimit);
}

#[test]
fn without_a_reservation_the_descriptors_are_charged() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);

    assert!(!commit(&mut client, &actual("", 100)));
    assert_eq!(left(&mut client, "tokens"), 900);
    assert_eq!(left(&mut client, "requests"), 8);
    assert_eq!(left(&mut client, "running"), 2);

    assert!(!commit(&mut client, &actual("no-such-reservation", 100)));
    assert_eq!(left(&mut client, "tokens"), 800);

    // Whether it fits or not.
    assert!(!commit(&mut client, &actual("", 5_000)));
    assert_eq!(left(&mut client, "tokens"), 0);
}

/// A reservation is made at one replica and committed at another, and is settled once.
#[test]
fn replicas_on_one_store_settle_each_others_reservations() {
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        let server = Server::start(flavor);
        let limits = LIMITS.replace("version: 1", "");
        let [mut first, second]: [Tollgate; 2] = replicas(&server, &limits);
        let mut one = Client::connect(first.grpc);
        let mut other = Client::connect(second.grpc);

        let reserved = reserve(&mut one, &estimate(400));
        assert_eq!(reserved.code(), Code::Ok, "{flavor:?}");
        assert_eq!(left(&mut other, "tokens"), 600);
        assert_eq!(left(&mut other, "running"), 1);
        assert!(commit(&mut other, &actual(&reserved.reservation_id, 130)));
        assert!(!commit(&mut one, &actual(&reserved.reservation_id, 130)));
        for client in [&mut one, &mut other] {
            let found = ["tokens", "requests", "running"].map(|limit| left(client, limit));
            assert_eq!(found, [870, 8, 2], "{flavor:?}");
        }

        // Together they admit no more than the limits: two requests may run.
        let two = [
            reserve(&mut one, &estimate(100)),
            reserve(&mut other, &estimate(100)),
        ];
        assert!(two.iter().all(|reserved| reserved.code() == Code::Ok));
        let denied = reserve(&mut other, &estimate(100));
        assert_eq!(denied.code(), Code::OverLimit, "{flavor:?}");

        // The replica that made a reservation is killed. What it used becomes debt.
        first.signal("KILL");
        first.wait_for_exit();
        assert!(commit(&mut other, &actual(&two[0].reservation_id, 2_000)));
        assert!(commit(&mut other, &actual(&two[1].reservation_id, 10)));
        assert_eq!(left(&mut other, "tokens"), 0);
        let denied = reserve(&mut other, &estimate(1));
        assert_eq!(denied.code(), Code::OverLimit, "{flavor:?}");
        assert_eq!(left(&mut other, "running"), 2);
        assert_eq!(server.immortal_keys(), Vec::<Vec<u8>>::new());
    }
}

/// The keys of a reservation are sealed with the secret, so only services that share it settle.
#[test]
fn a_foreign_reservation_is_a_plain_charge() {
    let limits = |secret: char| {
        let secret = secret.to_string().repeat(32);
        format!("hash_secret: {secret}\nhash_keys: [user]\n{LIMITS}")
    };
    let other = Tollgate::with_config(&limits('a'));
    let foreign = reserve(&mut Client::connect(other.grpc), &estimate(400));
    assert_eq!(foreign.code(), Code::Ok);

    let service = Tollgate::with_config(&limits('b'));
    let mut client = Client::connect(service.grpc);
    assert!(!commit(&mut client, &actual(&foreign.reservation_id, 130)));
    assert_eq!(left(&mut client, "tokens"), 870);
    assert_eq!(left(&mut Client::connect(other.grpc), "tokens"), 600);
    let page = reverse_proxy::get(service.admin, "/metrics", &[]).text();
    let count = "tollgate_request_errors_total{code=\"bad-reservation\"} 1\n";
    assert!(page.contains(count), "the metrics name the reason");
}

#[test]
fn an_override_is_reserved_and_settled() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let with_limit = |requests_per_unit| {
        let limit = RateLimitOverride {
            requests_per_unit,
            unit: RateLimitUnit::Month.into(),
            unit_multiplier: None,
        };
        vec![RateLimitDescriptor {
            limit: Some(limit),
            ..described(&[("plan", "free")])
        }]
    };
    let remaining = |client: &mut Client| {
        let mut descriptors = with_limit(100);
        descriptors[0].hits_addend = Some(0);
        client.ask(&request(descriptors)).statuses[0].limit_remaining
    };

    let reserved = reserve(
        &mut client,
        &ReserveRequest {
            descriptors: with_limit(100),
            ..estimate(40)
        },
    );
    assert_eq!(remaining(&mut client), 60);
    assert!(commit(&mut client, &actual(&reserved.reservation_id, 10)));
    assert_eq!(remaining(&mut client), 90);

    let nothing = ReserveRequest {
        descriptors: with_limit(0),
        ..estimate(1)
    };
    assert_eq!(reserve(&mut client, &nothing).code(), Code::OverLimit);
}

/// The client may choose the estimate, and proxies let requests pass on an error.
#[test]
fn no_estimate_is_an_error() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);

    // Zero means the cost of the limit.
    let reserved = reserve(&mut client, &estimate(0));
    assert_eq!(reserved.code(), Code::Ok);
    assert_eq!(left(&mut client, "tokens"), 999);
    assert!(commit(&mut client, &actual(&reserved.reservation_id, 0)));
    assert_eq!(left(&mut client, "tokens"), 1_000);

    // One reservation takes at most half of the limit.
    let reserved = reserve(&mut client, &estimate(u64::MAX));
    assert_eq!(reserved.code(), Code::Ok);
    assert_eq!(left(&mut client, "tokens"), 500);
    let everything = actual(&reserved.reservation_id, 1 << 53);
    assert!(commit(&mut client, &everything));
    assert_eq!(left(&mut client, "tokens"), 0);

    // A value that makes no valid key is denied.
    let long = ReserveRequest {
        descriptors: vec![described(&[("user", &"x".repeat(5_000))])],
        ..estimate(1)
    };
    let denied = reserve(&mut client, &long);
    assert_eq!(denied.code(), Code::OverLimit);
    assert_eq!(denied.reservation_id, "");
}

#[test]
fn a_misconfigured_proxy_gets_an_error_and_nothing_changes() {
    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);

    for (seconds, nanos) in [(0, 0), (-1, 0), (0, 999_999), (3_600, 1), (i64::MAX, 0)] {
        let with_ttl = ReserveRequest {
            ttl: Some(Duration { seconds, nanos }),
            ..estimate(1)
        };
        let reply = client.call(RESERVE, &with_ttl);
        assert_error(&reply, INVALID_ARGUMENT, "between 1 ms and 1 h");
    }

    let without = ReserveRequest::default();
    assert_error(
        &client.call(RESERVE, &without),
        INVALID_ARGUMENT,
        "domain is empty",
    );
    let without = CommitRequest {
        descriptors: Vec::new(),
        ..actual("", 5)
    };
    assert_error(
        &client.call(COMMIT, &without),
        INVALID_ARGUMENT,
        "no descriptors",
    );
    let long = CommitRequest {
        descriptors: vec![described(&[("user", &"x".repeat(5_000))])],
        ..actual("", 5)
    };
    assert_error(&client.call(COMMIT, &long), INVALID_ARGUMENT, "hash");
    let reserved = reserve(&mut client, &estimate(1));
    for id in ["", &reserved.reservation_id] {
        let reply = client.call(COMMIT, &actual(id, (1 << 53) + 1));
        assert_error(&reply, INVALID_ARGUMENT, "up to 9007199254740992");
    }
    assert!(commit(&mut client, &actual(&reserved.reservation_id, 0)));
    let tokens = ReserveRequest {
        descriptors: vec![described(&[("user", "ann"), ("tokens.inptu", "9")])],
        ..estimate(1)
    };
    let reply = client.call(RESERVE, &tokens);
    assert_error(&reply, INVALID_ARGUMENT, "no limit counts tokens");
    assert_eq!(left(&mut client, "tokens"), 1_000);
}

#[test]
fn reservations_require_the_permission_for_checks() {
    let tokens = "
server:
  tokens:
    - { name: shop, token: correct-horse-battery }
";
    let service = Tollgate::with_config(&format!("{LIMITS}{tokens}"));
    let mut stranger = Client::connect(service.grpc);
    let denied = |reply: Reply| assert_eq!(reply.status, UNAUTHENTICATED);
    denied(stranger.call(RESERVE, &estimate(1)));
    denied(stranger.call(COMMIT, &actual("", 1)));

    let client = Client::connect(service.grpc);
    let mut client = client.with_metadata("x-tollgate-token", "correct-horse-battery");
    let reserved = reserve(&mut client, &estimate(1));
    assert!(commit(&mut client, &actual(&reserved.reservation_id, 1)));
}

/// Messages as another implementation of the protocol sends them, field by field.
#[test]
fn the_field_numbers_are_kuadrants() {
    #[derive(Clone, PartialEq, Message)]
    struct Reserve {
        #[prost(string, tag = "1")]
        domain: String,
        #[prost(message, repeated, tag = "2")]
        descriptors: Vec<RateLimitDescriptor>,
        #[prost(uint64, tag = "3")]
        amount: u64,
        #[prost(message, optional, tag = "4")]
        ttl: Option<Duration>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Reserved {
        #[prost(int32, tag = "1")]
        code: i32,
        #[prost(string, tag = "2")]
        reservation_id: String,
    }

    let service = Tollgate::with_config(LIMITS);
    let mut client = Client::connect(service.grpc);
    let sent = Reserve {
        domain: "shop".into(),
        descriptors: ann(),
        amount: 200,
        ttl: Some(Duration {
            seconds: 3_600,
            nanos: 0,
        }),
    };
    let reserved: Reserved = client.call(RESERVE, &sent).only();
    assert_eq!(reserved.code, i32::from(Code::Ok));
    assert_eq!(left(&mut client, "tokens"), 800);
    assert!(commit(&mut client, &actual(&reserved.reservation_id, 50)));
    assert_eq!(left(&mut client, "tokens"), 950);

    let other = RateLimitRequest::default();
    let unknown = "/kuadrant.service.ratelimit.v1.RateLimitService/Report";
    assert_eq!(client.call(unknown, &other).status, "12");
}
