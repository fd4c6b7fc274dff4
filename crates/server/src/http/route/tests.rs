//! The description says what the port answers, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::OPENAPI;
use super::{FORWARD_AUTH, ROUTES, Route};

/// The files in which faults are made.
const SOURCES: [&str; 5] = [
    include_str!("../error.rs"),
    include_str!("../api.rs"),
    include_str!("../forward_auth/original_request.rs"),
    include_str!("../forward_auth/parameters.rs"),
    include_str!("../../listen/problem_body.rs"),
];
/// The faults of the port for administration.
const OF_ADMIN: [&str; 4] = ["no-token", "cross-site", "foreign-host", "internal"];

fn description() -> Value {
    serde_json::from_str(OPENAPI).expect("the description is JSON")
}

#[test]
fn the_description_has_the_paths_there_are() {
    let mut routed: BTreeSet<String> = ROUTES.iter().map(|(path, _)| (*path).to_owned()).collect();
    routed.insert(format!("{FORWARD_AUTH}/{{path}}"));
    let description = description();
    let paths = description["paths"]
        .as_object()
        .expect("an object of paths");
    assert_eq!(paths.keys().cloned().collect::<BTreeSet<_>>(), routed);
}

#[test]
fn only_forward_auth_answers_below_its_path() {
    assert_eq!(Route::of("/v1/forward-auth/a/b"), Some(Route::ForwardAuth));
    for other in [
        "/v1/forward-authentic",
        "/v1/check/",
        "/v1/check/a",
        "",
        "*",
        "/V1/check",
    ] {
        assert_eq!(Route::of(other), None, "{other}");
    }
}

/// The words that stand where a fault is given its code: first after the name of what makes it, or
/// alone on the right of an arrow.
fn codes(source: &str) -> BTreeSet<&str> {
    let makers = [
        "malformed(",
        "unfit(",
        "busy(",
        "Self::new(",
        "=> \"",
        "\"code\\\":\\\"",
        "\"code\":\"",
    ];
    let found = makers
        .iter()
        .flat_map(|maker| source.split(maker).skip(1).map(move |after| (maker, after)));
    let words = found.filter_map(|(maker, after)| {
        let after = if maker.ends_with('"') {
            after
        } else {
            after.split_once('"')?.1
        };
        after.split_once(['"', '\\']).map(|(word, _)| word)
    });
    let is_code =
        |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    words.filter(is_code).collect()
}

#[test]
fn the_description_has_the_codes_there_are() {
    let made: BTreeSet<&str> = SOURCES.iter().flat_map(|source| codes(source)).collect();
    assert!(made.len() > 20, "{made:?}");
    let made: BTreeSet<&str> = made
        .into_iter()
        .filter(|code| !OF_ADMIN.contains(code))
        .collect();
    let description = description();
    let told = description["components"]["schemas"]["Code"]["enum"]
        .as_array()
        .expect("a list of codes");
    assert_eq!(
        told.iter()
            .filter_map(Value::as_str)
            .collect::<BTreeSet<_>>(),
        made
    );
}
