use super::*;

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method("POST").uri("/v1/check");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request")
}

#[test]
fn the_token_is_in_one_of_two_headers() {
    let bearer = ("authorization", "Bearer abc");
    let own = ("x-tollgate-token", "xyz");
    for (headers, expected) in [
        (&[bearer][..], Some("abc")),
        (&[("authorization", "bearer  abc ")], Some("abc")),
        (&[own], Some("xyz")),
        // The client's own, which the proxy passes on.
        (&[bearer, own], Some("xyz")),
        (&[own, own], None),
        (&[bearer, bearer], None),
        (&[("authorization", "Basic abc")], None),
        (&[("authorization", "Bearer")], None),
        (&[("authorization", "abc")], None),
        (&[], None),
    ] {
        let request = request(headers);
        let token = presented_token(request.headers());
        assert_eq!(token, expected.map(str::as_bytes), "{headers:?}");
    }
}

#[test]
fn pages_need_an_allowed_origin() {
    let access = AccessConfig {
        allowed_origins: vec!["https://app.example".into()],
        allowed_hosts: vec!["limits.internal".into()],
        ..AccessConfig::default()
    };
    let guard = BrowserGuard::new(&access);
    let is_own = |headers: &[(&str, &str)]| guard.expect_own_page(&request(headers)).is_ok();

    let host = ("host", "limits.internal:8080");
    let cross_site = ("sec-fetch-site", "cross-site");
    assert!(is_own(&[host]), "a program");
    assert!(is_own(&[
        host,
        ("origin", "https://app.example"),
        cross_site
    ]));
    assert!(is_own(&[host, ("origin", "http://limits.internal:8080")]));
    assert!(!is_own(&[host, cross_site]));
    for origin in [
        "http://app.example",
        "https://app.example:8443",
        "https://app.example.evil",
        "http://127.0.0.1:8080",
        "null",
        "",
    ] {
        assert!(!is_own(&[host, ("origin", origin)]), "{origin}");
    }

    let both = [
        host,
        ("origin", "https://app.example"),
        ("origin", "https://evil.example"),
    ];
    assert!(!is_own(&both));
    // A page whose host name resolves to this address.
    let rebound = [
        ("host", "evil.example:8080"),
        ("origin", "http://evil.example:8080"),
    ];
    assert!(!is_own(&rebound));
}

#[test]
fn hosts_are_addresses_or_own_names() {
    let access = AccessConfig {
        allowed_hosts: vec!["limits.internal".into()],
        ..AccessConfig::default()
    };
    let guard = BrowserGuard::new(&access);
    let is_own = |host: &str| guard.expect_own_host(&request(&[("host", host)])).is_ok();
    for own in [
        "127.0.0.1:8080",
        "[::1]",
        "LOCALHOST:1",
        "tollgate",
        "Limits.internal.:80",
    ] {
        assert!(is_own(own), "{own}");
    }
    for foreign in [
        "evil.example",
        "evil.example.:8080",
        "x.limits.internal",
        "[x]",
        "[::1",
        ".",
        "",
    ] {
        assert!(!is_own(foreign), "{foreign}");
    }
}

fn code(version: Version, hosts: &[&str]) -> Option<&'static str> {
    let mut request = Request::builder().version(version);
    for host in hosts {
        request = request.header(HOST, *host);
    }
    let request = request.body(()).expect("a request");
    expect_host(&request).map_err(|error| error.code).err()
}

#[test]
fn http_1_1_requires_exactly_one_host() {
    assert_eq!(code(Version::HTTP_11, &["a"]), None);
    assert_eq!(code(Version::HTTP_11, &[]), Some("bad-host"));
    assert_eq!(code(Version::HTTP_11, &["a", "a"]), Some("bad-host"));
}

#[test]
fn other_versions_may_go_without() {
    for version in [Version::HTTP_10, Version::HTTP_2] {
        assert_eq!(code(version, &[]), None);
        assert_eq!(code(version, &["a", "b"]), Some("bad-host"));
    }
}

#[test]
fn hosts_are_names_or_addresses_with_or_without_a_port() {
    for valid in [
        "tollgate",
        "a.example:8080",
        "127.0.0.1",
        "127.0.0.1:",
        "[::1]",
        "[::1]:80",
        "a_b-c.d",
        "[::ffff:1.2.3.4]:1",
    ] {
        assert_eq!(code(Version::HTTP_11, &[valid]), None, "{valid}");
    }

    for invalid in [
        "", ":80", "a b", "a/b", "a@b", "a:b", "a:1:2", "a:123456", "[::1", "[]x", "[x]", "::1",
        "a,b:c", "a\\b", "a?b", "[::1]80",
    ] {
        assert_eq!(
            code(Version::HTTP_11, &[invalid]),
            Some("bad-host"),
            "{invalid}"
        );
    }
}
