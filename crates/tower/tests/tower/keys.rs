//! Keys, and what happens to requests without one.

use http::{Request, StatusCode};
use http_body_util::Full;
use tollgate::{KeyHasher, Limit, Limiter};
use tollgate_tower::{
    Case, ClientResolver, ForwardedBy, Glob, RateLimitLayer, ReadBodyLayer, RequestHead, by,
};
use tower::{Layer, service_fn};

use crate::support::{from, get, hello, left, limiter, per_minute, send, status, with};

/// A limiter with the limit `two`: two requests per minute.
fn two() -> Limiter {
    limiter([per_minute("two", 2)])
}

/// The statuses of requests sent one after the other.
fn statuses(
    layer: &RateLimitLayer,
    requests: impl IntoIterator<Item = crate::support::TestRequest>,
) -> Vec<u16> {
    let service = layer.layer(service_fn(hello));
    requests
        .into_iter()
        .map(|request| status(&service, request).as_u16())
        .collect()
}

#[test]
fn ipv4_addresses_are_distinct_and_an_ipv6_prefix_is_one_client() {
    let layer = RateLimitLayer::new(&two(), "two", by::client_address());
    let peers = [
        "203.0.113.7:1",
        "203.0.113.7:2",
        "203.0.113.7:3",
        "203.0.113.8:1",
        "[2001:db8::1]:1",
        "[2001:db8::2]:1",
        "[2001:db8::3]:1",
        "[2001:db8:0:1::1]:1",
        // The first address again, as an IPv4-mapped IPv6 address.
        "[::ffff:203.0.113.7]:9",
    ];
    let requests = peers.map(|peer| from(peer, get("/")));

    assert_eq!(
        statuses(&layer, requests),
        [200, 200, 429, 200, 200, 200, 429, 200, 429]
    );
}

#[test]
fn two_layers_can_share_a_client_address() {
    let balancer = "10.0.0.0/8".parse().unwrap();
    let clients = ClientResolver::new(vec![balancer], 64, ForwardedBy::XForwardedFor).unwrap();
    let client = by::client_address().behind(clients);
    let limits = limiter([per_minute("two", 2), per_minute("ten", 10)]);
    let layers = (
        RateLimitLayer::new(&limits, "ten", client.clone()),
        RateLimitLayer::new(&limits, "two", client),
    );
    let service = layers.layer(service_fn(hello));
    let forwarded = |address| {
        let request = with("/", &[("x-forwarded-for", address)]);
        status(&service, from("10.0.0.1:1", request)).as_u16()
    };
    let client = "198.51.100.1";

    assert_eq!([(); 3].map(|()| forwarded(client)), [200, 200, 429]);
    assert_eq!(forwarded("198.51.100.2"), 200);

    let address: std::net::IpAddr = client.parse().unwrap();
    assert_eq!(left(&limits, "ten", address), 7);
}

#[test]
fn forwarding_headers_count_only_from_trusted_proxies() {
    let clients = ClientResolver::new(
        vec!["10.0.0.0/8".parse().unwrap()],
        64,
        ForwardedBy::XForwardedFor,
    )
    .unwrap();
    let layer = RateLimitLayer::new(&two(), "two", by::client_address().behind(clients));
    let forwarded = |peer, list| from(peer, with("/", &[("x-forwarded-for", list)]));
    // Through the proxy, clients are told apart by the rightmost address. What a client sends
    // itself is further left and ignored.
    let through = [
        forwarded("10.0.0.1:1", "198.51.100.1"),
        forwarded("10.0.0.1:1", "192.0.2.1, 198.51.100.1"),
        forwarded("10.0.0.2:1", "192.0.2.2, 198.51.100.1"),
        forwarded("10.0.0.1:1", "198.51.100.2"),
    ];

    assert_eq!(statuses(&layer, through), [200, 200, 429, 200]);

    // Not through the proxy: the header is ignored.
    let past = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|list| forwarded("203.0.113.7:1", list));
    assert_eq!(statuses(&layer, past), [200, 200, 429]);
}

/// A client cannot choose its counter with the spelling of a header.
#[test]
fn all_spellings_of_a_header_are_one_key() {
    let layer = |name| {
        RateLimitLayer::new(
            &limiter([per_minute("two", 1)]),
            "two",
            by::header(name).or_skip(),
        )
    };
    let request = |name: &'static str, lines: &[&str]| {
        let mut request = get("/");
        for line in lines {
            let value = http::HeaderValue::from_bytes(line.as_bytes()).unwrap();
            request.headers_mut().append(name, value);
        }
        request
    };

    let rows: [(&str, &[&[&str]]); 3] = [
        ("x-api-key", &[&["k"], &[" k\t"], &["k", "k"], &["", "k"]]),
        ("x-user", &[&["j\u{f6}rg"], &["j\u{f6}rg "]]),
        (
            "authorization",
            &[
                &["Bearer T"],
                &["bearer T"],
                &["Bearer  T"],
                &["Bearer\tT "],
                &["T"],
                &["Bearer T", "bearer T"],
            ],
        ),
    ];
    for (name, spellings) in rows {
        let requests = spellings.iter().map(|lines| request(name, lines));
        let expected: Vec<u16> = (0..spellings.len())
            .map(|n| if n == 0 { 200 } else { 429 })
            .collect();
        assert_eq!(statuses(&layer(name), requests), expected, "{name}");
    }

    for lines in [&["Bearer T x"][..], &["Bearer T", "Bearer x"]] {
        assert_eq!(
            statuses(&layer("authorization"), [request("authorization", lines)]),
            [400]
        );
    }
}

#[test]
fn a_header_with_one_value_is_a_key() {
    let by_key = || by::header("x-api-key");
    let key = |value| with("/", &[("x-api-key", value)]);
    let rejected = RateLimitLayer::new(&two(), "two", by_key().or_reject(StatusCode::UNAUTHORIZED));
    let twice = with("/", &[("x-api-key", "a"), ("x-api-key", "b")]);
    let requests = [
        key("a"),
        key("a"),
        key("a"),
        key("b"),
        key(""),
        get("/"),
        twice,
    ];
    assert_eq!(
        statuses(&rejected, requests),
        [200, 200, 429, 200, 401, 401, 400]
    );

    let skipped = RateLimitLayer::new(&two(), "two", by_key().or_skip());
    assert_eq!(
        statuses(&skipped, [get("/"), get("/"), get("/"), key("a")]),
        [200; 4]
    );

    // A second value is neither a missing key nor a key of its own.
    let twice = || with("/", &[("x-api-key", "a"), ("x-api-key", "b")]);
    assert_eq!(statuses(&skipped, [twice()]), [400]);

    let instead = RateLimitLayer::new(&two(), "two", by_key().or(by::client_address()));
    assert_eq!(statuses(&instead, [twice()]), [400]);
    // A key that looks like an address does not share the counter of that address.
    let requests = [
        key("203.0.113.7"),
        key("203.0.113.7"),
        get("/"),
        get("/"),
        get("/"),
        key("203.0.113.7"),
    ];
    assert_eq!(statuses(&instead, requests), [200, 200, 200, 200, 429, 429]);
}

#[test]
fn a_missing_key_is_named_and_nothing_is_charged() {
    let limits = limiter([per_minute("address", 2), per_minute("tenant", 2)]);
    let tenant = by::header("x-tenant").or_reject(StatusCode::BAD_REQUEST);
    let layer = RateLimitLayer::new(&limits, "address", by::client_address()).and("tenant", tenant);
    let response = send(&layer.layer(service_fn(hello)), get("/"));

    assert_eq!(response.status(), 400);

    let body = concat!(
        r#"{"type":"about:blank","title":"Bad Request","status":400,"#,
        r#""detail":"The request is missing the header x-tenant."}"#
    );
    assert_eq!(response.body(), body);

    let client = std::net::IpAddr::from([203, 0, 113, 7]);
    assert_eq!(left(&limits, "address", client), 2);
}

#[test]
fn a_key_that_is_too_long_is_rejected() {
    let layer = RateLimitLayer::new(
        &two(),
        "two",
        by::header("x-api-key").or(by::client_address()),
    );
    let long = "k".repeat(2_000);
    assert_eq!(
        statuses(&layer, [with("/", &[("x-api-key", &long)])]),
        [400]
    );
}

#[test]
fn only_the_hash_of_a_hashed_key_reaches_the_store() {
    let limits = two();
    let hasher = KeyHasher::new(b"a secret of more than 16 bytes").unwrap();
    let subject = by::header("x-api-key")
        .hashed(hasher.clone())
        .or(by::everyone());
    let layer = RateLimitLayer::new(&limits, "two", subject);
    let requests = [
        with("/", &[("x-api-key", "k-1")]),
        with("/", &[("x-api-key", "k-2")]),
    ];

    assert_eq!(statuses(&layer, requests), [200, 200]);
    assert_eq!(
        left(&limits, "two", "k-1"),
        2,
        "nothing is counted under the key itself"
    );
    assert_eq!(left(&limits, "two", hasher.hash(b"k-1")), 1);
}

#[derive(Clone)]
struct User {
    id: u64,
}

#[test]
fn extensions_and_lookups_are_keys() {
    let limits = two();
    let user = || by::extension(|user: &User| user.id).or_reject(StatusCode::UNAUTHORIZED);
    let layer = RateLimitLayer::new(&limits, "two", user());
    let signed_in = |id| {
        let mut request = get("/");
        request.extensions_mut().insert(User { id });
        request
    };
    let requests = [
        signed_in(1),
        signed_in(1),
        signed_in(1),
        signed_in(2),
        get("/"),
    ];
    assert_eq!(statuses(&layer, requests), [200, 200, 429, 200, 401]);

    // The same users, looked up by their token.
    let looked_up =
        RateLimitLayer::new(&limits, "two", user()).look_up(|head: &RequestHead<'_>| {
            let token = head.header("authorization").map(str::to_owned);
            async move {
                std::future::ready(()).await;
                token?
                    .strip_prefix("user ")?
                    .parse()
                    .ok()
                    .map(|id| User { id })
            }
        });
    let token = |value| with("/", &[("authorization", value)]);
    let requests = [
        token("user 1"),
        token("user 2"),
        token("user 2"),
        token("nobody"),
        get("/"),
    ];
    assert_eq!(statuses(&looked_up, requests), [429, 200, 429, 401, 401]);
}

#[test]
fn the_application_sees_the_result_of_a_lookup() {
    let layer = RateLimitLayer::new(&two(), "two", by::everyone())
        .look_up(|_: &RequestHead<'_>| async { Some(User { id: 7 }) });
    let service = layer.layer(service_fn(
        |request: crate::support::TestRequest| async move {
            let user = request.extensions().get::<User>().map_or(0, |user| user.id);
            Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::from(
                user.to_string(),
            )))
        },
    ));
    assert_eq!(send(&service, get("/")).body(), "7");
}

#[test]
fn path_classes_normalise_paths_and_combine_with_other_keys() {
    let class = by::path_class([("/auth/**", "auth"), ("/*.pdf", "files")])
        .unwrap()
        .or_skip();
    let layer = RateLimitLayer::new(&two(), "two", (class, by::client_address()));
    let paths = [
        "/auth/login",
        "/auth/./%6Cogin",
        "//auth/x",
        "/a.pdf",
        "/b.pdf",
        "/c.pdf",
        "/free",
        "/free",
        "/free",
    ];

    assert_eq!(
        statuses(&layer, paths.map(get)),
        [200, 200, 429, 200, 200, 429, 200, 200, 200]
    );

    let other = from("203.0.113.8:1", get("/auth/login"));
    assert_eq!(
        statuses(&layer, [other]),
        [200],
        "each client has a budget for each class"
    );
}

/// Both directions: what limits holds for any reading, what exempts only for all of them.
#[test]
fn an_ambiguous_path_is_limited_and_never_exempt() {
    let class = by::path_class([("/auth/login", "login")]).unwrap();
    let layer = RateLimitLayer::new(&two(), "two", class.or_skip());
    let spellings = [
        "/auth%2Flogin",
        "/AUTH/login%0a",
        "//x/auth/login",
        "/auth/x//../../login",
    ];
    assert_eq!(statuses(&layer, spellings.map(get)), [200, 200, 429, 429]);

    let assets = Glob::for_path("/assets/**", Case::Insensitive).unwrap();
    let layer = RateLimitLayer::new(&two(), "two", by::client_address())
        .skip(move |head| head.path_readings().all_match(&assets));
    let exempt = [
        "/assets/a.css",
        "/assets/b%2Fc",
        "/ASSETS//d",
        "/assets/e/../f",
    ];
    assert_eq!(statuses(&layer, exempt.map(get)), [200; 4]);

    let counted = [
        "/assets/..%2fauth/login",
        "/assets/../auth",
        "//assets/auth",
        "/assets/%5c../x",
    ];
    assert_eq!(statuses(&layer, counted.map(get)), [200, 200, 429, 429]);
}

#[test]
fn a_function_is_a_key() {
    let tenant = by::function("a tenant", |head: &RequestHead<'_>| {
        head.header("host")?.split('.').next().map(str::to_owned)
    });
    let layer = RateLimitLayer::new(&two(), "two", tenant.or_reject(StatusCode::NOT_FOUND));
    let host = |name| with("/", &[("host", name)]);
    let requests = [
        host("acme.example"),
        host("acme.example"),
        host("acme.test"),
        host("b.example"),
        get("/"),
    ];

    assert_eq!(statuses(&layer, requests), [200, 200, 429, 200, 404]);
}

#[test]
fn a_body_key_needs_a_read_body_layer() {
    let limits = two();
    let account = || {
        let account = by::body("an account", |body| {
            std::str::from_utf8(body)
                .ok()?
                .strip_prefix("account=")
                .map(str::to_lowercase)
        });
        account.or_reject(StatusCode::UNPROCESSABLE_ENTITY)
    };
    let layer = (
        ReadBodyLayer::up_to(64),
        RateLimitLayer::new(&limits, "two", account()),
    );
    let service = layer.layer(service_fn(
        |request: crate::support::TestRequest| async move {
            let body = http_body_util::BodyExt::collect(request.into_body())
                .await
                .expect("a body")
                .to_bytes();
            Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(body)))
        },
    ));
    let post = |body: &str| {
        from(
            "203.0.113.7:1",
            Request::post("/")
                .body(Full::<bytes::Bytes>::from(body.to_owned()))
                .unwrap(),
        )
    };
    let response = send(&service, post("account=Ann"));
    assert_eq!(
        (response.status().as_u16(), response.body().as_ref()),
        (200, &b"account=Ann"[..])
    );
    let bodies = ["account=ann", "account=ANN", "account=bob", "nothing", ""];
    assert_eq!(
        bodies.map(|body| status(&service, post(body)).as_u16()),
        [200, 429, 200, 422, 422]
    );
    assert_eq!(status(&service, post(&"x".repeat(65))), 413);

    // Without a `ReadBodyLayer` the layer is misconfigured, and rejects every request.
    let alone = RateLimitLayer::new(&limits, "two", account()).layer(service_fn(hello));
    assert_eq!(status(&alone, post("account=carl")), 500);
}

#[test]
fn without_a_peer_address_requests_are_rejected() {
    let layer = RateLimitLayer::new(&two(), "two", by::client_address());
    let request = Request::get("/").body(Full::default()).unwrap();
    assert_eq!(statuses(&layer, [request]), [500]);
}

#[test]
fn an_unknown_limit_fails_validation_and_rejects_requests() {
    let layer = RateLimitLayer::new(&two(), "tow", by::everyone());
    assert_eq!(statuses(&layer, [get("/")]), [500]);

    let error = layer.validate().expect_err("no such limit");
    assert_eq!(
        error.to_string(),
        two().rule("tow").expect_err("no such limit").to_string()
    );

    let wrong = Limit::fixed_window("two", 0, crate::support::MINUTE);
    assert!(Limiter::in_memory([wrong]).is_err());
    assert!(
        RateLimitLayer::new(&two(), "two", by::everyone())
            .validate()
            .is_ok()
    );
}
