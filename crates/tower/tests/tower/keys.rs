//! Whom a request counts for, and what happens without a key.

use http::{Request, StatusCode};
use http_body_util::Full;
use tollgate::{KeyHasher, Limit, Limiter};
use tollgate_tower::{ClientResolver, ForwardedBy, Head, RateLimitLayer, ReadBodyLayer, by};
use tower::{Layer, service_fn};

use crate::support::{ask, from, get, hello, left, limiter, per_minute, status, with};

/// Two a minute, for whoever it counts.
fn two() -> Limiter {
    limiter([per_minute("two", 2)])
}

/// The statuses of requests asked one after the other.
fn statuses(
    layer: &RateLimitLayer,
    requests: impl IntoIterator<Item = crate::support::Asked>,
) -> Vec<u16> {
    let service = layer.layer(service_fn(hello));
    requests
        .into_iter()
        .map(|request| status(&service, request).as_u16())
        .collect()
}

#[test]
fn addresses_are_told_apart_and_those_of_one_ipv6_customer_are_not() {
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
        // The first one again, in IPv6's clothes.
        "[::ffff:203.0.113.7]:9",
    ];
    let requests = peers.map(|peer| from(peer, get("/")));
    assert_eq!(
        statuses(&layer, requests),
        [200, 200, 429, 200, 200, 200, 429, 200, 429]
    );
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
    // Through the proxy two clients are two; what a client writes itself stands left and is not
    // read.
    let through = [
        forwarded("10.0.0.1:1", "198.51.100.1"),
        forwarded("10.0.0.1:1", "192.0.2.1, 198.51.100.1"),
        forwarded("10.0.0.2:1", "192.0.2.2, 198.51.100.1"),
        forwarded("10.0.0.1:1", "198.51.100.2"),
    ];
    assert_eq!(statuses(&layer, through), [200, 200, 429, 200]);
    // Past the proxy, whatever the header says.
    let past = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(|list| forwarded("203.0.113.7:1", list));
    assert_eq!(statuses(&layer, past), [200, 200, 429]);
}

#[test]
fn a_header_is_a_key_when_it_is_there_once() {
    let by_key = || by::header("x-api-key");
    let key = |value| with("/", &[("x-api-key", value)]);
    let refused = RateLimitLayer::new(&two(), "two", by_key().or_refuse(StatusCode::UNAUTHORIZED));
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
        statuses(&refused, requests),
        [200, 200, 429, 200, 401, 401, 401]
    );

    let skipped = RateLimitLayer::new(&two(), "two", by_key().or_skip());
    assert_eq!(
        statuses(&skipped, [get("/"), get("/"), get("/"), key("a")]),
        [200; 4]
    );

    let instead = RateLimitLayer::new(&two(), "two", by_key().or(by::client_address()));
    // Somebody whose key looks like an address is not that address.
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
fn what_a_request_lacks_is_told_and_charges_nothing() {
    let limits = limiter([per_minute("address", 2), per_minute("tenant", 2)]);
    let tenant = by::header("x-tenant").or_refuse(StatusCode::BAD_REQUEST);
    let layer = RateLimitLayer::new(&limits, "address", by::client_address()).and("tenant", tenant);
    let response = ask(&layer.layer(service_fn(hello)), get("/"));
    assert_eq!(response.status(), 400);
    let body = r#"{"detail":"The request lacks the header x-tenant.","status":400,"title":"Bad Request","type":"about:blank"}"#;
    assert_eq!(response.body(), body);
    let client = std::net::IpAddr::from([203, 0, 113, 7]);
    assert_eq!(left(&limits, "address", client), 2);
}

#[test]
fn a_key_that_is_too_long_is_refused_and_no_counter_is_made() {
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
fn a_hashed_key_counts_the_same_and_is_not_what_the_store_sees() {
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
fn users_and_look_ups_are_keys() {
    let limits = two();
    let user = || by::extension(|user: &User| user.id).or_refuse(StatusCode::UNAUTHORIZED);
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

    // The same user, found by a token while others wait.
    let looked_up = RateLimitLayer::new(&limits, "two", user()).look_up(|head: &Head<'_>| {
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
fn a_look_up_is_there_for_the_application_too() {
    let layer = RateLimitLayer::new(&two(), "two", by::everyone())
        .look_up(|_: &Head<'_>| async { Some(User { id: 7 }) });
    let service = layer.layer(service_fn(|request: crate::support::Asked| async move {
        let user = request.extensions().get::<User>().map_or(0, |user| user.id);
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::<bytes::Bytes>::from(
            user.to_string(),
        )))
    }));
    assert_eq!(ask(&service, get("/")).body(), "7");
}

#[test]
fn classes_of_paths_see_through_spellings_and_combine() {
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

#[test]
fn any_function_is_a_key() {
    let tenant = by::function("a tenant", |head: &Head<'_>| {
        head.header("host")?.split('.').next().map(str::to_owned)
    });
    let layer = RateLimitLayer::new(&two(), "two", tenant.or_refuse(StatusCode::NOT_FOUND));
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
fn an_account_in_the_body_is_a_key_when_somebody_reads_it() {
    let limits = two();
    let account = || {
        let account = by::body("an account", |body| {
            std::str::from_utf8(body)
                .ok()?
                .strip_prefix("account=")
                .map(str::to_lowercase)
        });
        account.or_refuse(StatusCode::UNPROCESSABLE_ENTITY)
    };
    let layer = (
        ReadBodyLayer::up_to(64),
        RateLimitLayer::new(&limits, "two", account()),
    );
    let service = layer.layer(service_fn(|request: crate::support::Asked| async move {
        let body = http_body_util::BodyExt::collect(request.into_body())
            .await
            .expect("a body")
            .to_bytes();
        Ok::<_, std::convert::Infallible>(http::Response::new(Full::new(body)))
    }));
    let post = |body: &str| {
        from(
            "203.0.113.7:1",
            Request::post("/")
                .body(Full::<bytes::Bytes>::from(body.to_owned()))
                .unwrap(),
        )
    };
    let response = ask(&service, post("account=Ann"));
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

    // Nobody reads it: that is the application's mistake, and nothing passes by it.
    let alone = RateLimitLayer::new(&limits, "two", account()).layer(service_fn(hello));
    assert_eq!(status(&alone, post("account=carl")), 500);
}

#[test]
fn without_the_peers_address_nothing_passes() {
    let layer = RateLimitLayer::new(&two(), "two", by::client_address());
    let request = Request::get("/").body(Full::default()).unwrap();
    assert_eq!(statuses(&layer, [request]), [500]);
}

#[test]
fn an_unknown_limit_is_told_at_the_start_and_lets_nothing_pass() {
    let layer = RateLimitLayer::new(&two(), "tow", by::everyone());
    assert_eq!(statuses(&layer, [get("/")]), [500]);
    let error = layer.checked().expect_err("no such limit");
    assert_eq!(
        error.to_string(),
        two().rule("tow").expect_err("no such limit").to_string()
    );
    let wrong = Limiter::in_memory([Limit::fixed_window("two", 0, crate::support::MINUTE)]);
    assert!(
        RateLimitLayer::new(&wrong, "two", by::everyone())
            .checked()
            .is_err()
    );
    assert!(
        RateLimitLayer::new(&two(), "two", by::everyone())
            .checked()
            .is_ok()
    );
}
