//! The port matches its description in `openapi.json`: paths and error codes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FORWARD_AUTH, HttpRoute, OPENAPI, ROUTES};

/// The files that create errors.
const SOURCES: [&str; 6] = [
    include_str!("../../../gate/src/api/error.rs"),
    include_str!("../guard.rs"),
    include_str!("../../../gate/src/api/operation.rs"),
    include_str!("../../../gate/src/api/batch.rs"),
    include_str!("forward_auth/original_request.rs"),
    include_str!("forward_auth/parameters.rs"),
];
/// Error codes of the admin port.
const ADMIN_CODES: [&str; 3] = ["cross-site", "foreign-host", "internal"];

fn description() -> Value {
    serde_json::from_str(OPENAPI).expect("the description is JSON")
}

#[test]
fn the_description_has_every_path() {
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
    assert_eq!(
        HttpRoute::find("/v1/forward-auth/a/b"),
        Some((FORWARD_AUTH, HttpRoute::ForwardAuth))
    );
    for other in [
        "/v1/forward-authentic",
        "/v1/check/",
        "/v1/check/a",
        "",
        "*",
        "/V1/check",
    ] {
        assert_eq!(HttpRoute::find(other), None, "{other}");
    }
}

/// The error codes in a source file: the first string after a constructor of an error, a string to
/// the right of an arrow, or a constant.
fn codes(source: &str) -> BTreeSet<&str> {
    let constructors = [
        "bad_request(",
        "unprocessable(",
        "unavailable(",
        "Self::new(",
        "=> \"",
        "&str = \"",
    ];
    let found = constructors.iter().flat_map(|constructor| {
        source
            .split(constructor)
            .skip(1)
            .map(move |after| (constructor, after))
    });
    let words = found.filter_map(|(constructor, after)| {
        let after = if constructor.ends_with('"') {
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
fn the_description_has_every_error_code() {
    let made: BTreeSet<&str> = SOURCES.iter().flat_map(|source| codes(source)).collect();
    assert!(made.len() > 20, "{made:?}");
    let made: BTreeSet<&str> = made
        .into_iter()
        .filter(|code| !ADMIN_CODES.contains(code))
        .collect();
    let description = description();
    let described = description["components"]["schemas"]["ErrorCode"]["enum"]
        .as_array()
        .expect("a list of codes");
    assert_eq!(
        described
            .iter()
            .filter_map(Value::as_str)
            .collect::<BTreeSet<_>>(),
        made
    );
}
