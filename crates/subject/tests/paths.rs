//! Which spellings of a path match a pattern, and which must not.

use tollgate_subject::{Case, Glob, normalise};

const LOGIN: &str = "/auth/login";

/// Spellings that some server treats as `/auth/login`.
const SAME_AS_LOGIN: [&str; 60] = [
    "/auth/login",
    "/auth/login/",
    "/auth/login//",
    "//auth/login",
    "///auth///login///",
    "auth/login",
    "/auth/login?user=ann",
    "/auth/login?",
    "/auth/login#top",
    "/auth/login/?a=/../b",
    "/auth/login#?",
    "/auth/login?#",
    "/./auth/./login/.",
    "/auth/../auth/login",
    "/../../auth/login",
    "/auth/login/x/..",
    "/auth/login/x/../",
    "/x/y/../../auth/login",
    "/x//..//auth/login",
    "/auth//x/..//login",
    "/%61uth/login",
    "/auth/%6cogin",
    "/auth/%6Cogin",
    "/%61%75%74%68/%6c%6f%67%69%6e",
    "/auth/%6C%6F%67%69%6E",
    "/auth/%2e/login",
    "/auth/%2E/login",
    "/x/%2e%2e/auth/login",
    "/x/%2E%2e/auth/login",
    "/x/.%2e/auth/login",
    "/x/%2e./auth/login",
    "/auth/login/%2e",
    "/auth/login/x/%2e%2e",
    "/auth;a=1/login",
    "/auth/login;a=1",
    "/auth/login;",
    "/auth/login;/",
    "/auth/login;a=1;b=2",
    "/auth/login;jsessionid=7?x=1",
    "/;x/auth/login",
    "/auth/;x/login",
    "/auth/.;x/login",
    "/x/..;/auth/login",
    "/x/..;a=b/auth/login",
    "/x/%2e%2e;/auth/login",
    "/auth/login;a=%2F",
    "/auth/login;%2e%2e",
    "/auth\\login",
    "\\auth\\login",
    "/auth/login\\",
    "/x\\..\\auth\\login",
    "/auth\\/login",
    "/x/..\\auth/login",
    "/auth/login\\?x",
    "http://api.example/auth/login",
    "HTTPS://ann:secret@api.example:8443/auth/login?x=1",
    "https://api.example//auth/./login",
    "http://api.example\\auth\\login",
    "./auth/login",
    "../auth/login",
];

/// Paths other than `/auth/login`, each with its normal form.
const OTHERS: [(&str, &str); 65] = [
    ("", "/"),
    ("/", "/"),
    ("//", "/"),
    ("?", "/"),
    ("#", "/"),
    (".", "/"),
    ("..", "/"),
    ("/..", "/"),
    ("/%2e%2e/", "/"),
    ("\\", "/"),
    (";", "/"),
    ("http://api.example", "/"),
    ("http://api.example?path=/auth/login", "/"),
    ("http://", "/"),
    ("httpx://auth/login", "/httpx:/auth/login"),
    ("/http://auth/login", "/http:/auth/login"),
    ("*", "/*"),
    ("/auth", "/auth"),
    ("/auth/login/..", "/auth"),
    ("/auth/login/%2e%2e", "/auth"),
    ("/auth/login/../x", "/auth/x"),
    ("/auth/login/x", "/auth/login/x"),
    ("/auth/login.", "/auth/login."),
    ("/auth/login/...", "/auth/login/..."),
    ("/auth/...;x/login", "/auth/.../login"),
    ("/x/auth/login", "/x/auth/login"),
    ("/auth/logins", "/auth/logins"),
    ("/authlogin", "/authlogin"),
    ("/auth?/login", "/auth"),
    ("/auth#/login", "/auth"),
    ("/auth%3F/login", "/auth%3F/login"),
    ("/auth%23/login", "/auth%23/login"),
    ("/auth/login%3f", "/auth/login%3F"),
    ("/auth%2flogin", "/auth%2Flogin"),
    ("/auth%2Flogin", "/auth%2Flogin"),
    ("/auth%5clogin", "/auth%5Clogin"),
    ("/auth/login%3bx", "/auth/login%3Bx"),
    ("/x/%252e%252e/auth/login", "/x/%252e%252e/auth/login"),
    ("/auth/%256cogin", "/auth/%256cogin"),
    (
        "/x/%25%32%65%25%32%65/auth/login",
        "/x/%252e%252e/auth/login",
    ),
    ("/x/%2%65./auth/login", "/x/%252e./auth/login"),
    ("/x/%%32e./auth/login", "/x/%252e./auth/login"),
    ("/auth/login%2a", "/auth/login%2A"),
    ("/auth/%3a%40%21login", "/auth/%3A%40%21login"),
    ("/auth/login%", "/auth/login%25"),
    ("/auth/login%2", "/auth/login%252"),
    ("/auth/login%zz", "/auth/login%25zz"),
    ("/auth/login%+1", "/auth/login%25+1"),
    ("/auth/login%u002e", "/auth/login%25u002e"),
    ("/auth/login%00", "/auth/login%00"),
    ("/auth/login\0", "/auth/login%00"),
    ("/auth/login\0.png", "/auth/login%00.png"),
    ("/auth/login\r\n", "/auth/login%0D%0A"),
    ("/auth/login%0d%0a", "/auth/login%0D%0A"),
    ("/auth/\tlogin", "/auth/%09login"),
    ("/auth/login ", "/auth/login%20"),
    ("/auth/login+", "/auth/login+"),
    ("/auth/login%20", "/auth/login%20"),
    ("/auth/l\u{f6}gin", "/auth/l%C3%B6gin"),
    ("/auth/l%c3%b6gin", "/auth/l%C3%B6gin"),
    ("/auth/log\u{131}n", "/auth/log%C4%B1n"),
    ("/auth\u{2215}login", "/auth%E2%88%95login"),
    ("/x/%c0%ae%c0%ae/auth/login", "/x/%C0%AE%C0%AE/auth/login"),
    ("/auth%c0%aflogin", "/auth%C0%AFlogin"),
    (
        "/auth/[login]|{\"<^`>\"}",
        "/auth/%5Blogin%5D%7C%7B%22%3C%5E%60%3E%22%7D",
    ),
];

/// Spellings that differ in case, which match only case-insensitive patterns.
const LOGIN_IN_OTHER_CASE: [&str; 5] = [
    "/AUTH/LOGIN",
    "/Auth/Login/",
    "/auth/LOGIN?x",
    "/%41uth/login",
    "/auth/%4Cogin;X",
];

const BELOW_V1: [&str; 20] = [
    "/v1",
    "/v1/",
    "/v1?x",
    "/v1;x=1",
    "//v1//users",
    "/v1/users",
    "/v1/users/",
    "/v1/users/7/keys",
    "/v1/%2e/users",
    "/v1/..;/v1/x",
    "/v2/../v1/users",
    "/v2/%2e%2e/v1/users",
    "/%761/users",
    "/v%31/users",
    "\\v1\\users",
    "/v1/a%2Fb",
    "/v1/\0",
    "/v1/%",
    "/v1/...",
    "/v1/x/../..//v1",
];

const NOT_BELOW_V1: [&str; 15] = [
    "/",
    "",
    "/v",
    "/v11",
    "/v1x/users",
    "/v1.0/users",
    "/V1/users",
    "/v1/../v2/users",
    "/v1/..",
    "/v1%2Fusers",
    "/v1%00/users",
    "/x/v1/users",
    "/v1/%2e%2e/admin",
    "/v1/..\\admin",
    "/%25761/users",
];

fn pattern(text: &str, case: Case) -> Glob {
    Glob::for_path(text, case).expect("a valid pattern")
}

#[test]
fn every_spelling_of_the_login_path_matches() {
    for path in SAME_AS_LOGIN {
        assert_eq!(normalise(path), LOGIN, "{path:?}");
        assert!(
            pattern(LOGIN, Case::Sensitive).matches(&normalise(path)),
            "{path:?}"
        );
    }
}

#[test]
fn other_paths_do_not_match_the_login_path() {
    for (path, normal) in OTHERS {
        assert_eq!(normalise(path), normal, "{path:?}");
        assert_eq!(normalise(normal), normal, "{path:?}");
        for case in [Case::Sensitive, Case::Insensitive] {
            assert!(!pattern(LOGIN, case).matches(&normalise(path)), "{path:?}");
        }
    }
}

#[test]
fn case_sensitivity_depends_on_the_pattern() {
    for path in LOGIN_IN_OTHER_CASE {
        assert!(
            !pattern(LOGIN, Case::Sensitive).matches(&normalise(path)),
            "{path:?}"
        );
        assert!(
            pattern(LOGIN, Case::Insensitive).matches(&normalise(path)),
            "{path:?}"
        );
    }
}

#[test]
fn a_double_star_matches_everything_below_and_nothing_else() {
    let below = pattern("/v1/**", Case::Sensitive);
    for path in BELOW_V1 {
        assert!(below.matches(&normalise(path)), "{path:?}");
    }
    for path in NOT_BELOW_V1 {
        assert!(!below.matches(&normalise(path)), "{path:?}");
    }
}

#[test]
fn patterns_are_normalised_like_paths() {
    for (written, path) in [
        ("/auth/login/", "/auth/login"),
        ("//auth//login", "/auth/login"),
        ("/caf\u{e9}/*", "/caf%c3%a9/7"),
        ("/a b", "/a%20b"),
        ("/v1/**/", "/v1/x/y"),
        ("/%76%31/**", "/v1"),
    ] {
        assert!(
            pattern(written, Case::Sensitive).matches(&normalise(path)),
            "{written:?} and {path:?}"
        );
    }
}
