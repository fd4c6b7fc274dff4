//! Whatever well-known servers take for the login is read as the login.

mod reference;

use proptest::prelude::*;
use tollgate_subject::{Case, Glob, PathReadings};

use reference::readers_of;

const LOGIN: &str = "/auth/login";

/// Targets with a reader that takes them for the login: the backend, and the proxy in front of it.
const LOGINS: &[(&str, &str, &str)] = &[
    // Encoded separators.
    ("/auth%2Flogin", FLASK, NO_PROXY),
    ("/auth%2flogin", DJANGO, NO_PROXY),
    ("/auth%2Flogin", FASTAPI, NO_PROXY),
    ("/auth%2Flogin", PHP, NO_PROXY),
    ("/auth%2Flogin", EXPRESS, NGINX_SLASH),
    ("/%2Fauth/login", FLASK, NO_PROXY),
    ("/%2Fauth/login", EXPRESS, NGINX_SLASH),
    ("/%2fauth%2flogin", HONO, NGINX_SLASH),
    ("/auth%252Flogin", FLASK, NGINX_VARIABLE),
    ("/auth%252flogin", FASTAPI, NGINX_VARIABLE),
    ("/auth%5clogin", TOMCAT, NO_PROXY),
    ("/auth%5Clogin", NODE, NGINX_VARIABLE),
    ("/%61uth/login", HONO, NO_PROXY),
    ("/auth/%256cogin", FLASK, NGINX_VARIABLE),
    ("/auth/%25%36cogin", DJANGO, NGINX_VARIABLE),
    ("/auth%2flogin", EXPRESS, ENVOY_UNESCAPED),
    ("/auth%5clogin", KOA, ENVOY_UNESCAPED),
    // Dot segments, before and after other steps.
    ("/auth//../login", HONO, NO_PROXY),
    ("/auth//../login", NODE, NO_PROXY),
    ("/auth/x//../../login", HONO, NO_PROXY),
    ("/auth/x//../../login", NODE, NO_PROXY),
    ("/auth/;/../login", HONO, NO_PROXY),
    ("/auth/;/../login", NODE, NO_PROXY),
    ("/auth/\\../login", NODE, NO_PROXY),
    ("/x/..%2fauth/login", EXPRESS, NGINX_SLASH),
    ("/auth%2f./login", KOA, NGINX_SLASH),
    ("/x/%2e%2e/auth/login", HONO, NO_PROXY),
    ("/x/%2E./auth/login", KESTREL, NO_PROXY),
    ("/auth/%2e%2e/../login", EXPRESS, HAPROXY_DOTS),
    ("/auth/x%2fy/%2e%2e/login", KESTREL, NO_PROXY),
    ("/x/%252e%252e/auth/login", NODE, NGINX_VARIABLE),
    ("/auth/x/..;/login", TOMCAT, NO_PROXY),
    ("/auth/login/x/%2e%2e", EXPRESS, ENVOY),
    ("/x/..%5cauth/login", NODE, NGINX_VARIABLE),
    ("/auth/%3f/../login", EXPRESS, NGINX_SLASH),
    ("/x%23/../auth/login", HONO, NO_PROXY),
    ("/x#/../auth/login", KESTREL, NO_PROXY),
    ("/../../auth/login", GO, NO_PROXY),
    // A host before the path.
    ("//x/auth/login", NODE, NO_PROXY),
    ("//x/auth/login", PHP, NO_PROXY),
    ("//u@x/auth/login", NODE, NO_PROXY),
    ("//u@x/auth/login", PHP, NO_PROXY),
    ("//u:p@x:8443/auth/login", NODE, NGINX),
    ("///x/auth/login", NODE, NO_PROXY),
    ("/\\x/auth/login", NODE, NO_PROXY),
    ("\\\\x\\auth\\login", NODE, NO_PROXY),
    ("http://h//x/auth/login", NODE, NGINX),
    ("http://h//x/auth/login", PHP, NGINX),
    ("http://h/auth/login", EXPRESS, NO_PROXY),
    ("http:///h/auth/login", NODE, NO_PROXY),
    ("http:/auth/login", NODE, NO_PROXY),
    ("http:auth/login", NODE, NO_PROXY),
    ("https:/h/auth/login", NODE, NO_PROXY),
    ("ws://h/auth/login", NODE, NO_PROXY),
    ("x://h/auth/login", NODE, NO_PROXY),
    ("x:/auth/login", NODE, NO_PROXY),
    ("/.//x/auth/login", NODE, NOT_MODELLED),
    ("/%2f%2fx/auth/login", NODE, NGINX_UNMERGED),
    // Case.
    ("/AUTH/LOGIN", EXPRESS, NO_PROXY),
    ("/Auth/Login/", KOA, NO_PROXY),
    ("/%41uth/login", KESTREL, NO_PROXY),
    // Parameters.
    ("/auth;a=1/login", TOMCAT, NO_PROXY),
    ("/auth/login;jsessionid=1", TOMCAT, NGINX),
    ("/;/auth/login", TOMCAT, NO_PROXY),
    // Characters at the end, and those that are left out.
    ("/auth/login%0a", FASTAPI, NO_PROXY),
    ("/auth/login%0A", FASTAPI, NGINX_SLASH),
    ("/auth/login%0d%0a", PHP, NO_PROXY),
    ("/auth/login%20", PHP, NO_PROXY),
    ("/auth/login%09", PHP, NO_PROXY),
    ("/auth/login%00", C_STRING, NO_PROXY),
    ("/auth/login%00.png", C_STRING, NO_PROXY),
    ("/auth/lo\tgin", NODE, NO_PROXY),
    ("/auth/lo%09gin", NODE, NGINX_VARIABLE),
    ("/auth/lo%ffgin", BOTTLE, NO_PROXY),
    ("/auth/lo%c0%afgin", BOTTLE, NO_PROXY),
    ("/auth/login#top", EXPRESS, NO_PROXY),
    ("/auth/login%23top", EXPRESS, NGINX_VARIABLE),
    ("/auth/login%3Fx", EXPRESS, NGINX_VARIABLE),
    ("/auth/login%3fx", NODE, NGINX_VARIABLE),
    ("/auth/login%253Fx", NODE, NOT_MODELLED),
    ("/auth/login/", EXPRESS, NO_PROXY),
    ("//auth///login//", GO, NO_PROXY),
    // Readers without a reference here: Windows, IIS, servers that decode leniently.
    ("/auth/login.", NOT_MODELLED, NO_PROXY),
    ("/auth./login", NOT_MODELLED, NO_PROXY),
    ("/auth/login%20.", NOT_MODELLED, NO_PROXY),
    ("/x/..%20/auth/login", NOT_MODELLED, NO_PROXY),
    ("/auth%c0%aflogin", NOT_MODELLED, NO_PROXY),
    ("/x/%c0%ae%c0%ae/auth/login", NOT_MODELLED, NO_PROXY),
    ("/auth%e0%80%aflogin", NOT_MODELLED, NO_PROXY),
    ("/auth%u002flogin", NOT_MODELLED, NO_PROXY),
    ("/auth/%EF%BD%8Cogin", NOT_MODELLED, NO_PROXY),
    ("/auth\u{ff0f}login", NOT_MODELLED, NO_PROXY),
    ("/auth%ef%bc%8flogin", NOT_MODELLED, NO_PROXY),
    ("/auth/login%c2%a0", NOT_MODELLED, NO_PROXY),
    ("/auth/lo%00gin", NOT_MODELLED, NO_PROXY),
    (
        "/auth/login%20HTTP/1.1%0d%0aX:%20y",
        NOT_MODELLED,
        NGINX_VARIABLE,
    ),
];

const NODE: &str = "Node, new URL(req.url, base)";
const HONO: &str = "Hono";
const EXPRESS: &str = "Express 5";
const KOA: &str = "Koa";
const FLASK: &str = "Flask";
const DJANGO: &str = "Django";
const FASTAPI: &str = "FastAPI";
const BOTTLE: &str = "Bottle";
const PHP: &str = "PHP parse_url";
const TOMCAT: &str = "Tomcat";
const KESTREL: &str = "ASP.NET Core";
const GO: &str = "Go ServeMux";
const C_STRING: &str = "a C string";
/// A reader for which there is no reference.
const NOT_MODELLED: &str = "";

const NO_PROXY: &str = "no proxy";
const NGINX: &str = "nginx, proxy_pass http://app ";
const NGINX_SLASH: &str = "nginx, proxy_pass http://app/";
const NGINX_UNMERGED: &str = "nginx, merge_slashes off";
const NGINX_VARIABLE: &str = "nginx, proxy_pass http://app$uri";
const ENVOY: &str = "Envoy, normalize_path";
const ENVOY_UNESCAPED: &str = "Envoy, unescaped slashes";
const HAPROXY_DOTS: &str = "HAProxy, path-strip-dotdot";

/// Paths that no reading takes for the login.
const OTHERS: &[&str] = &[
    "/",
    "/auth",
    "/auth/logins",
    "/auth/login/x",
    "/xauth/login",
    "/x/auth/login",
    "/auth/login/..",
    "/auth/login/../x",
    "/authlogin",
    "/auth-login",
    "/auth+login",
    "/auth/login.json",
    "/auth/l%C3%B6gin",
    "/auth?/login",
    "/search?q=/auth/login",
    "http://auth/logins",
    "/a/b/c/auth%2Flogin",
    "/auth%2Flogin%2Fx",
    "/auth/login;a/x",
    "/%25auth/login",
];

/// What each target is read as, for a limit on everything below `/files`.
const FILES: &[(&str, bool)] = &[
    ("/files/a", true),
    ("/files", true),
    ("/FILES/a", true),
    ("/files/..%2fetc", true),
    ("/files/../etc", true),
    ("/x/../files/a", true),
    ("/files;v=1", true),
    ("/%66iles/a", true),
    ("/filesystem", false),
    ("/x/files", false),
    ("/etc/../passwd", false),
];

fn login() -> Glob {
    Glob::for_path(LOGIN, Case::Insensitive).expect("a valid pattern")
}

/// A change to a target that some server undoes.
#[derive(Clone, Debug)]
enum Mutation {
    /// Inserts a text at a slash, or at the end.
    AtSlash(usize, &'static str),
    /// Inserts a text anywhere.
    Anywhere(usize, &'static str),
    /// Percent-encodes a character.
    Escape(usize),
    /// Puts a text before everything.
    Before(&'static str),
    /// Appends a text.
    After(&'static str),
    /// Replaces a slash.
    Slash(usize, &'static str),
    /// Changes the case of a letter.
    Case(usize),
}

const AT_SLASH: [&str; 16] = [
    "/x/..",
    "/.",
    "/",
    "/;",
    "/;/..",
    "//..",
    "/x//../..",
    "/%2e",
    "/x/%2e%2e",
    "/\\..",
    ";a=1",
    "/x%2f..",
    "/x/..;",
    "/x%5c..",
    "/?/..",
    "/#/..",
];
const ANYWHERE: [&str; 8] = ["%00", "%09", "%0a", "\t", "%ff", "%25", "%", "+"];
const BEFORE: [&str; 12] = [
    "//x", "//u@x:8", "http://h", "http:", "https:/h", "/\\x", "\\\\x", "/.//x", "///x", "ws://h",
    "//%2f", "/%2fx",
];
const AFTER: [&str; 20] = [
    "/", "?a", "#a", "%3fa", "%23a", "%00", "%0a", "%0d%0a", "%20", "%09", ";", ";x", "/.",
    "/x/..", ".", "%00.png", "%2f", "%5c", "//", "\\",
];
const SLASH: [&str; 8] = ["%2f", "%2F", "\\", "%5c", "%252f", "//", "%c0%af", "%u002f"];

fn mutation() -> impl Strategy<Value = Mutation> {
    let text = |texts: &'static [&'static str]| proptest::sample::select(texts);
    prop_oneof![
        3 => (any::<usize>(), text(&AT_SLASH)).prop_map(|(at, text)| Mutation::AtSlash(at, text)),
        1 => (any::<usize>(), text(&ANYWHERE)).prop_map(|(at, text)| Mutation::Anywhere(at, text)),
        2 => any::<usize>().prop_map(Mutation::Escape),
        1 => text(&BEFORE).prop_map(Mutation::Before),
        2 => text(&AFTER).prop_map(Mutation::After),
        2 => (any::<usize>(), text(&SLASH)).prop_map(|(at, text)| Mutation::Slash(at, text)),
        1 => any::<usize>().prop_map(Mutation::Case),
    ]
}

/// The position of one of the wanted characters, counted from any number.
fn position(text: &str, number: usize, is_wanted: impl Fn(char) -> bool) -> Option<usize> {
    let found: Vec<usize> = text
        .char_indices()
        .filter(|(_, c)| is_wanted(*c))
        .map(|(at, _)| at)
        .collect();
    found.get(number % found.len().max(1)).copied()
}

fn mutated(mut target: String, mutation: &Mutation) -> String {
    match mutation {
        Mutation::AtSlash(number, text) => {
            let at = position(&target, *number, |c| c == '/').unwrap_or(target.len());
            target.insert_str(at, text);
        }
        Mutation::Anywhere(number, text) => {
            let at = position(&target, *number, |_| true).unwrap_or(0);
            target.insert_str(at, text);
        }
        Mutation::Escape(number) => {
            let at = position(&target, *number, |c| c.is_ascii()).unwrap_or(0);
            if let Some(byte) = target.as_bytes().get(at).copied() {
                target.replace_range(at..=at, &format!("%{byte:02x}"));
            }
        }
        Mutation::Before(text) => target.insert_str(0, text),
        Mutation::After(text) => target.push_str(text),
        Mutation::Slash(number, text) => {
            if let Some(at) = position(&target, *number, |c| c == '/') {
                target.replace_range(at..=at, text);
            }
        }
        Mutation::Case(number) => {
            if let Some(at) = position(&target, *number, |c| c.is_ascii_lowercase()) {
                target[at..=at].make_ascii_uppercase();
            }
        }
    }
    target
}

fn target() -> impl Strategy<Value = String> {
    proptest::collection::vec(mutation(), 0..5)
        .prop_map(|mutations| mutations.iter().fold(LOGIN.to_owned(), mutated))
}

#[test]
fn every_spelling_of_the_login_is_read_as_the_login() {
    for (target, backend, proxy) in LOGINS {
        let readers = readers_of(target, LOGIN);
        let expected = format!("{backend} behind {}", proxy.trim_end());
        let is_modelled = ![backend, proxy].contains(&&NOT_MODELLED);
        assert!(
            !is_modelled || readers.iter().any(|reader| reader.starts_with(&expected)),
            "{target:?} is not the login for {expected}, but for {readers:?}"
        );

        let readings = PathReadings::new(target);
        assert!(readings.is_readable(), "{target:?}");
        assert!(
            readings.any_matches(&login()),
            "{target:?} is read as {readings:?}"
        );
    }
}

#[test]
fn other_paths_are_not_read_as_the_login() {
    for target in OTHERS {
        let readings = PathReadings::new(target);
        assert!(readings.is_readable(), "{target:?}");
        assert!(
            !readings.any_matches(&login()),
            "{target:?} is read as {readings:?}"
        );
    }
}

/// Most frameworks do not resolve dots: they serve `/files/../etc` as a file.
#[test]
fn a_pattern_with_stars_matches_any_reading() {
    let files = Glob::for_path("/files/**", Case::Insensitive).expect("a valid pattern");
    for (target, is_below) in FILES {
        let readings = PathReadings::new(target);
        assert_eq!(
            readings.any_matches(&files),
            *is_below,
            "{target:?}: {readings:?}"
        );
    }
}

#[test]
fn what_exempts_must_match_every_reading() {
    let health = Glob::for_path("/health/**", Case::Insensitive).expect("a valid pattern");
    for target in [
        "/health",
        "/health/",
        "/Health/live",
        "/health?x=1",
        "/health/a%2Fb",
    ] {
        assert!(PathReadings::new(target).all_match(&health), "{target:?}");
    }
    for target in [
        "/health/../auth/login",
        "/health/..%2fauth/login",
        "/health%2f..%2fauth/login",
        "/health/%5c../login",
        "//health/auth/login",
        "/health/;/../../login",
        "/x/../health",
        "/auth",
    ] {
        assert!(!PathReadings::new(target).all_match(&health), "{target:?}");
    }
}

/// An unreadable target may mean anything: every limit applies, and nothing is exempt.
#[test]
fn a_target_beyond_the_bounds_matches_everything_and_is_exempt_from_nothing() {
    let long = format!("/{}", "a".repeat(9_000));
    let deep = format!("{}/auth/login", "//x".repeat(200));
    let nested = format!("/auth%{}2flogin", "25".repeat(100));
    let everything = Glob::for_path("/**", Case::Insensitive).expect("a valid pattern");

    for target in [long, deep, nested] {
        let readings = PathReadings::new(&target);
        assert!(
            !readings.is_readable() && readings.is_ambiguous(),
            "{target}"
        );
        assert!(readings.any_matches(&login()) && !readings.all_match(&everything));
        assert_eq!(readings.iter().count(), 1);
    }
    assert!(PathReadings::new(&format!("/{}", "a".repeat(8_000))).is_readable());
}

#[test]
fn a_plain_path_has_one_reading() {
    for (target, reading) in [
        ("/auth/login", "/auth/login"),
        ("/auth/login/", "/auth/login"),
        ("/auth/login?next=%2F..%2f", "/auth/login"),
        ("http://h/auth/login", "/auth/login"),
        ("/", "/"),
        ("", "/"),
        ("/a%20b", "/a%20b"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/.well-known/x", "/.well-known/x"),
        ("/users/7:get", "/users/7:get"),
    ] {
        let readings = PathReadings::new(target);
        assert_eq!(readings.iter().collect::<Vec<_>>(), [reading], "{target:?}");
        assert!(!readings.is_ambiguous() && readings.canonical() == reading);
    }
}

proptest! {
    /// The property that the limiter rests on.
    #[test]
    fn what_any_server_takes_for_the_login_is_read_as_the_login(target in target()) {
        let readers = readers_of(&target, LOGIN);
        let readings = PathReadings::new(&target);
        prop_assert!(
            readers.is_empty() || readings.any_matches(&login()),
            "{target:?} is the login for {readers:?}, but is read as {readings:?}"
        );
    }

    /// Whatever a client sends, there is a bounded number of readings, each of them normal.
    #[test]
    fn readings_are_bounded_and_different(target in any::<String>(), tail in target()) {
        let target = target + &tail;
        let readings = PathReadings::new(&target);
        let all: Vec<&str> = readings.iter().collect();
        prop_assert!(all.len() <= 33 && all[0] == readings.canonical());
        for (at, reading) in all.iter().enumerate() {
            prop_assert!(reading.starts_with('/') && reading.is_ascii(), "{reading:?}");
            prop_assert!(!reading.contains("//") && !all[..at].contains(reading), "{reading:?}");
        }
    }
}
