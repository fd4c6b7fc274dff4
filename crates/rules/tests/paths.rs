//! Limits and paths: which limits apply to a path that servers read differently.

use std::borrow::Cow;

use proptest::prelude::*;
use tollgate::Quota;
use tollgate_rules::{
    Attribute, Attributes, Config, Explanation, MissingKeyPolicy, SelectError, Selection, Selector,
    Value,
};

/// A request with these attributes.
struct Request<'r>(&'r [(&'r str, &'r str)]);

impl Attributes for Request<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let found = self.0.iter().find(|(name, _)| *name == attribute.name());
        found.map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}

fn parse(yaml: &str) -> Result<Selector, String> {
    let config = Config::parse(yaml, "t.yaml", &|_| None).map_err(|error| error.to_string())?;
    Ok(Selector::new(&config))
}

/// A file whose limits have these names and fields, with a quota of 10 per minute.
fn selector(limits: &[(&str, &str)]) -> Selector {
    with_defaults("{}", limits)
}

fn with_defaults(defaults: &str, limits: &[(&str, &str)]) -> Selector {
    let limit = |(name, fields): &(&str, &str)| {
        format!("- {{name: {name}, algorithm: sliding_window, limit: 10, window: 1m, {fields}}}\n")
    };
    let limits: String = limits.iter().map(limit).collect();
    parse(&format!("defaults: {defaults}\nlimits:\n{limits}")).expect("a valid configuration")
}

fn select<'s>(selector: &'s Selector, path: &str) -> Result<Selection<'s>, SelectError> {
    let attributes = [("method", "POST"), ("path", path)];
    selector.select(&Request(&attributes), None, MissingKeyPolicy::Error)
}

fn names<'s>(selector: &'s Selector, path: &str) -> Vec<&'s str> {
    let selection = select(selector, path).expect("a decision");
    selection
        .iter()
        .map(|demand| demand.limit.name().as_str())
        .collect()
}

/// Paths that are the login for some server, and something else for another.
const AMBIGUOUS: [&str; 12] = [
    "/auth%2Flogin",
    "/%2Fauth/login",
    "/auth//../login",
    "/auth/x//../../login",
    "/auth/;/../login",
    "/auth/\\../login",
    "//x/auth/login",
    "//u@x/auth/login",
    "http://h//x/auth/login",
    "/x/..%2fauth/login",
    "/auth%2f./login",
    "/auth/login%0a",
];

#[test]
fn a_limit_applies_if_any_reading_matches() {
    let limits = [
        ("login", "key: [], match: {method: POST, path: /auth/login}"),
        ("below", "key: [], match: {path: '/auth/**'}"),
        ("anywhere", "key: [], match: {path: '/**/login'}"),
        ("other", "key: [], match: {path: [/other, '/others/*']}"),
        ("by-method", "key: [], match: {method: POST}"),
    ];
    let selector = selector(&limits);
    for path in AMBIGUOUS {
        assert_eq!(
            names(&selector, path),
            ["login", "below", "anywhere", "by-method"],
            "{path}"
        );
    }
    assert_eq!(names(&selector, "/auth"), ["below", "by-method"]);
    assert_eq!(names(&selector, "/x"), ["by-method"]);
}

#[test]
fn the_case_of_paths_is_folded_unless_the_file_says_exact() {
    let limits = [
        ("folded", "key: [], match: {path: [/Auth/Login, '/V1/**']}"),
        (
            "exact",
            "key: [], match: {path: [/Auth/Login, '/V1/**']}, match_case: exact",
        ),
    ];
    let selector = selector(&limits);
    for path in ["/AUTH/LOGIN", "/auth/login", "/v1/users", "/v1"] {
        assert_eq!(names(&selector, path), ["folded"], "{path}");
    }
    for path in ["/Auth/Login", "/V1/users"] {
        assert_eq!(names(&selector, path), ["folded", "exact"], "{path}");
    }

    let fields = [
        ("exact", "key: [], match: {path: /a}"),
        ("folded", "key: [], match: {path: /a}, match_case: fold"),
    ];
    let exact = with_defaults("{match_case: exact}", &fields);
    assert_eq!(names(&exact, "/A"), ["folded"]);
    assert_eq!(names(&exact, "/a"), ["exact", "folded"]);
}

#[test]
fn letters_beyond_ascii_are_folded_too() {
    let selector = selector(&[("umlaut", "key: [], match: {path: /Über/*}")]);
    for path in ["/über/x", "/%C3%BCber/x", "/%C3%9CBER/x", "/%c3%9cber/x"] {
        assert_eq!(names(&selector, path), ["umlaut"], "{path}");
    }
    assert!(names(&selector, "/uber/x").is_empty());
}

#[test]
fn a_request_whose_readings_disagree_is_refused_if_the_limit_says_so() {
    let limits = [
        (
            "other",
            "key: [], match: {path: /other}, on_ambiguous_path: refuse",
        ),
        (
            "login",
            "key: [], match: {method: POST, path: /auth/login}, on_ambiguous_path: refuse",
        ),
    ];
    let refusing = selector(&limits);
    for path in AMBIGUOUS {
        let error = select(&refusing, path).expect_err(path);
        assert!(
            matches!(&error, SelectError::AmbiguousPath { limit, .. } if limit == "login"),
            "{path}: {error}"
        );
    }

    assert_eq!(
        select(&refusing, "/auth%2flogin")
            .map(|_| ())
            .unwrap_err()
            .to_string(),
        "ambiguous path for the limit \"login\": servers may read it as \"/auth/login\" or as \
         \"/auth%2Flogin\"; send it without encoded, empty or relative segments"
    );
    // All readings are the login, or none is.
    assert_eq!(names(&refusing, "/auth/login/"), ["login"]);
    assert_eq!(names(&refusing, "/AUTH/%6cogin?x=%2F"), ["login"]);
    assert!(names(&refusing, "/files/a%2Fb").is_empty());

    // The other conditions do not hold, so the path does not matter.
    let get = [("method", "GET"), ("path", "/auth%2Flogin")];
    let selection = refusing.select(&Request(&get), None, MissingKeyPolicy::Error);
    assert!(selection.expect("a decision").is_empty());
}

#[test]
fn the_default_for_ambiguous_paths_can_be_set_for_all_limits() {
    let limits = [
        ("strict", "key: [], match: {path: /auth/login}"),
        (
            "lenient",
            "key: [], match: {path: /auth/logout}, on_ambiguous_path: match_any",
        ),
    ];
    let selector = with_defaults("{on_ambiguous_path: refuse}", &limits);
    assert!(select(&selector, "/auth%2Flogin").is_err());
    assert_eq!(names(&selector, "/auth%2Flogout"), ["lenient"]);
}

#[test]
fn unknown_values_are_errors_that_name_the_right_ones() {
    let limit = |field: &str| {
        parse(&format!(
            "limits: [{{name: a, key: [], algorithm: sliding_window, limit: 1, window: 1s, \
             {field}}}]"
        ))
    };
    let error = limit("match_case: exakt").unwrap_err();
    assert!(
        error.contains("did you mean `exact`? Expected exact or fold"),
        "{error}"
    );
    let error = limit("on_ambiguous_path: deny").unwrap_err();
    assert!(error.contains("expected match_any or refuse"), "{error}");
}

/// What cannot be read may mean anything: it is never a way around a limit.
#[test]
fn a_path_beyond_the_bounds_meets_every_condition_on_paths() {
    let limits = [
        ("login", "key: [], match: {path: /auth/login}"),
        ("glob", "key: [], match: {path: '/**/users/*'}"),
        ("method", "key: [], match: {method: GET, path: /x}"),
        ("hosts", "key: [], match: {host: a.example, path: '/x/**'}"),
    ];
    let lenient = selector(&limits);
    for path in [
        format!("/{}", "a".repeat(8_200)),
        "//x".repeat(100),
        "/a;/%2e//..#".repeat(40),
    ] {
        assert_eq!(names(&lenient, &path), ["login", "glob"], "{path}");
    }

    let refusing = selector(&[("a", "key: [], match: {path: /a}, on_ambiguous_path: refuse")]);
    let error = select(&refusing, &"//x".repeat(100))
        .map(|_| ())
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("as anything, because it is too long"),
        "{error}"
    );
}

/// Another spelling of a path must not have a budget of its own.
#[test]
fn a_key_with_the_path_counts_under_every_reading() {
    let selector = selector(&[("by-path", "key: [path]")]);
    let key = |path| select(&selector, path).expect("a decision")[0].key.clone();
    let counts_with = |path, other| {
        let selection = select(&selector, path).expect("a decision");
        selection.iter().any(|demand| demand.key == key(other))
    };

    assert_eq!(key("/auth/login"), key("/AUTH/Login/"));
    for path in AMBIGUOUS {
        assert!(counts_with(path, "/auth/login"), "{path}");
    }
    assert_eq!(
        select(&selector, "/auth%2Flogin")
            .expect("a decision")
            .len(),
        2
    );
    assert!(select(&selector, &"//x".repeat(100)).is_err());
}

/// A tier exempts from the limit's own numbers, so the strictest reading counts.
#[test]
fn a_tier_by_path_is_the_strictest_of_all_readings() {
    let selector = parse(
        "tiers: {/cheap: {limit: 1000}, /dear: {limit: 5}, standard: {limit: 100}}\n\
         limits: [{name: a, key: [], algorithm: sliding_window, window: 1m, \
         tier: {by: path, default: standard}}]",
    )
    .expect("a valid configuration");
    let limit = |path| {
        let selection = select(&selector, path).expect("a decision");
        selection[0].quota.as_ref().map(Quota::limit)
    };
    assert_eq!(limit("/cheap"), Some(1_000));
    assert_eq!(limit("/cheap/..%2fdear"), Some(5));
    assert_eq!(limit("/cheap%3f/../dear"), Some(5));
    // One reading has no tier of its own, so the limit's own quota is used.
    assert_eq!(limit("/cheap%2fx"), None);
    assert_eq!(limit("/cheap%23"), None);
}

#[test]
fn an_explanation_shows_the_reading_that_matched() {
    let limits = [
        ("login", "key: [], match: {path: /auth/login}"),
        (
            "refusing",
            "key: [], match: {path: /auth/login}, on_ambiguous_path: refuse",
        ),
        ("other", "key: [], match: {path: /other}"),
    ];
    let selector = selector(&limits);
    let explained = selector.explain(&Request(&[("path", "/x/..%2fauth/login")]));
    let [(_, login), (_, refusing), (_, other)] = &explained[..] else {
        panic!("{explained:?}");
    };
    assert!(
        matches!(login, Explanation::Applies { path: Some(path), .. } if path == "\"/auth/login\"")
    );
    assert!(matches!(
        refusing,
        Explanation::Invalid(SelectError::AmbiguousPath { .. })
    ));
    assert!(matches!(other, Explanation::NotMatched { .. }));

    let explained = selector.explain(&Request(&[("path", "/auth/login")]));
    assert!(matches!(
        &explained[0].1,
        Explanation::Applies { path: None, .. }
    ));
}

proptest! {
    /// The index finds exactly the limits that `explain` finds one by one.
    #[test]
    fn the_index_agrees_with_evaluating_every_limit(
        patterns in proptest::collection::vec("(/[abA*]{1,2}|/\\*\\*){1,4}", 1..12),
        path in "([/\\\\]|%2f|//)([abA]{1,2}|\\.\\.|%2e|;a)((/|%2F|/\\.\\./|\\\\)[aAb;]{1,2}){0,4}",
        method in proptest::option::of("GET|POST"),
        is_exact in any::<bool>(),
    ) {
        let limits: Vec<String> = patterns.iter().enumerate().map(|(at, pattern)| {
            let method = method.as_ref().map(|method| format!("method: {method}, "));
            let case = if is_exact { "exact" } else { "fold" };
            format!(
                "- {{name: l{at}, key: [], algorithm: sliding_window, limit: 10, window: 1m, \
                 match_case: {case}, match: {{{}path: '{pattern}'}}}}\n",
                method.unwrap_or_default()
            )
        }).collect();
        let selector = parse(&format!("limits:\n{}", limits.concat()));
        let selector = selector.expect("a valid configuration");

        let attributes = [("method", "POST"), ("path", path.as_str())];
        let explained = selector.explain(&Request(&attributes)).into_iter();
        let applying = explained
            .filter(|(_, explanation)| matches!(explanation, Explanation::Applies { .. }))
            .map(|(limit, _)| limit.rule.name().as_str());
        prop_assert_eq!(names(&selector, &path), applying.collect::<Vec<_>>());
    }
}
