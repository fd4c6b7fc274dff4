//! Checks that `docs/tollgate.schema.json` and `docs/configuration.md` match the reader.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{
    ALERTS, ALGORITHMS, ALIGNS, BLOCK, BLOCK_STATUSES, CLIENT_IP, CONSISTENCIES, COST, DEFAULTS,
    DENIAL, EXEMPT, FORWARDED_BY, HEADERS, INLINE_LIMIT, INLINE_LIMITS, INLINE_POLICIES, LIMIT,
    MODES, MONITORING, ON_RESERVATION_EXPIRY, ON_STORE_FAILURE, PROFILES, RENAMED, ROOT, SERVER,
    STORE, STORE_TYPES, TIER, TIER_CHOICE, TLS, TOKEN, TRACING, UNITS,
};

use crate::token::Permission;

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/tollgate.schema.json")).unwrap()
}

/// The value at a path such as `/$defs/limit`, which must exist.
fn at<'s>(schema: &'s Value, path: &str) -> &'s Value {
    schema
        .pointer(path)
        .unwrap_or_else(|| panic!("the schema has nothing at {path}"))
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn set<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeSet<&'n str> {
    names.into_iter().collect()
}

#[test]
fn the_schema_has_the_same_fields() {
    let schema = schema();
    for (path, known) in [
        ("", ROOT),
        ("/$defs/store", STORE),
        ("/$defs/defaults", DEFAULTS),
        ("/$defs/client_ip", CLIENT_IP),
        ("/$defs/tier", TIER),
        ("/$defs/limit", LIMIT),
        ("/$defs/limit/properties/tier", TIER_CHOICE),
        ("/$defs/limit/properties/cost/anyOf/1", COST),
        ("/$defs/limit/properties/exempt", EXEMPT),
        ("/$defs/limit/properties/block", BLOCK),
        ("/$defs/inline_limits", INLINE_LIMITS),
        ("/$defs/headers", HEADERS),
        ("/$defs/denial", DENIAL),
        ("/$defs/monitoring", MONITORING),
        ("/$defs/monitoring/properties/alerts", ALERTS),
        ("/$defs/monitoring/properties/tracing", TRACING),
        ("/$defs/server", SERVER),
        ("/$defs/server/properties/tls", TLS),
        ("/$defs/server/properties/tokens/items", TOKEN),
    ] {
        let mapping = at(&schema, path);
        assert_eq!(
            keys(&mapping["properties"]),
            set(known.iter().copied()),
            "{path}"
        );
        assert_eq!(
            mapping["additionalProperties"], false,
            "{path} allows unknown fields"
        );
        for (name, property) in mapping["properties"].as_object().unwrap() {
            let has_description = property["description"]
                .as_str()
                .is_some_and(|text| text.len() > 8);
            assert!(has_description, "{path}/{name} has no description");
        }
    }
}

/// What a limit of the file has besides its conditions, its attributes and its tiers.
#[test]
fn a_limit_of_a_request_has_the_fields_of_the_file() {
    let selecting = set([
        "match",
        "match_case",
        "on_ambiguous_path",
        "optional",
        "tier",
        "exempt",
        "block",
    ]);
    let all = set(LIMIT.iter().copied());
    let inline = set(INLINE_LIMIT.iter().copied());
    assert_eq!(inline, all.difference(&selecting).copied().collect());
}

fn choices<T>(choices: &[(&'static str, T)]) -> BTreeSet<&'static str> {
    choices.iter().map(|(name, _)| *name).collect()
}

#[test]
fn the_schema_has_the_same_choices() {
    let schema = schema();
    for (path, known) in [
        ("/$defs/store/properties/type", choices(STORE_TYPES)),
        (
            "/$defs/defaults/properties/consistency",
            choices(CONSISTENCIES),
        ),
        (
            "/$defs/defaults/properties/on_store_failure",
            choices(ON_STORE_FAILURE),
        ),
        ("/$defs/client_ip/properties/header", choices(FORWARDED_BY)),
        ("/$defs/limit/properties/algorithm", choices(ALGORITHMS)),
        ("/$defs/limit/properties/align", choices(ALIGNS)),
        ("/$defs/limit/properties/mode", choices(MODES)),
        ("/$defs/limit/properties/unit", choices(UNITS)),
        (
            "/$defs/limit/properties/on_reservation_expiry",
            choices(ON_RESERVATION_EXPIRY),
        ),
        (
            "/$defs/headers/properties/profiles/items",
            choices(PROFILES),
        ),
        (
            "/$defs/limit/properties/consistency",
            choices(CONSISTENCIES),
        ),
        (
            "/$defs/limit/properties/on_store_failure",
            choices(ON_STORE_FAILURE),
        ),
        (
            "/$defs/server/properties/tokens/items/properties/allow/items",
            choices(Permission::ALL),
        ),
    ] {
        let found = at(&schema, &format!("{path}/anyOf/0/enum"))
            .as_array()
            .unwrap();
        assert_eq!(
            found
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect::<BTreeSet<_>>(),
            known,
            "{path}"
        );
    }
}

/// Decisions and reports call a policy what the file calls it.
#[test]
fn the_choices_are_the_names_of_the_library() {
    for (name, consistency) in CONSISTENCIES {
        assert_eq!(*name, consistency.as_str());
    }
    for (name, policy) in ON_STORE_FAILURE {
        assert_eq!(*name, policy.as_str());
    }
    for (name, header) in FORWARDED_BY {
        assert_eq!(*name, header.as_str());
    }
    for (name, permission) in Permission::ALL {
        assert_eq!(*name, permission.name());
    }
}

#[test]
fn the_schema_forbids_the_same_fields_for_each_algorithm() {
    let schema = schema();
    let all = set(ALGORITHMS
        .iter()
        .flat_map(|(_, algorithm)| algorithm.fields())
        .copied());
    let cases = at(&schema, "/$defs/limit/allOf").as_array().unwrap();

    assert_eq!(cases.len(), ALGORITHMS.len());

    for (case, (name, algorithm)) in cases.iter().zip(ALGORITHMS) {
        assert_eq!(
            case.pointer("/if/properties/algorithm/const").unwrap(),
            name
        );
        let own = set(algorithm.fields().iter().copied());
        assert_eq!(
            keys(at(case, "/then/properties")),
            all.difference(&own).copied().collect(),
            "{name}"
        );
    }
}

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// The first column of the first table after a line of the page.
fn column(after: &str) -> BTreeSet<&'static str> {
    let start = PAGE
        .find(&format!("\n{after}\n"))
        .unwrap_or_else(|| panic!("the page has no {after:?}"));
    let rows = PAGE[start + 1..]
        .lines()
        .skip(1)
        .skip_while(|line| !line.starts_with("| field"));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);

    rows.map(|row| {
        row.trim_start_matches("| `")
            .split('`')
            .next()
            .unwrap_or_default()
    })
    .collect()
}

#[test]
fn the_page_documents_every_field() {
    for (after, known) in [
        ("## The file", ROOT),
        ("## `store`", STORE),
        ("## `defaults`", DEFAULTS),
        ("## `client_ip`", CLIENT_IP),
        ("## `tiers`", TIER),
        ("## `limits`", LIMIT),
        ("In `tier`:", TIER_CHOICE),
        ("In `cost`, where it is a mapping:", COST),
        ("In `exempt`:", EXEMPT),
        ("In `block`:", BLOCK),
        ("## `inline_limits`", INLINE_LIMITS),
        ("## `headers`", HEADERS),
        ("## `denial`", DENIAL),
        ("## `monitoring`", MONITORING),
        ("In `alerts`:", ALERTS),
        ("In `tracing`:", TRACING),
        ("## `server`", SERVER),
        ("In `tls`:", TLS),
        ("In `tokens`, a list:", TOKEN),
    ] {
        assert_eq!(column(after), set(known.iter().copied()), "{after}");
    }
}

#[test]
fn the_page_documents_every_choice() {
    let choices = [
        choices(STORE_TYPES),
        choices(CONSISTENCIES),
        choices(ON_STORE_FAILURE),
        choices(FORWARDED_BY),
        choices(ALGORITHMS),
        choices(ALIGNS),
        choices(MODES),
        choices(UNITS),
        choices(ON_RESERVATION_EXPIRY),
        choices(PROFILES),
        choices(Permission::ALL),
        choices(INLINE_POLICIES),
        choices(BLOCK_STATUSES),
    ];

    for name in choices.iter().flatten() {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
}

/// Every YAML block of the page must be valid. A block without `limits` gets a valid limit
/// appended.
#[test]
fn the_examples_of_the_page_are_valid() {
    let env = |name: &str| (name == "REDIS_PASSWORD").then(|| "x".to_owned());
    let blocks = PAGE
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = blocks.collect();

    assert!(examples.len() >= 6);
    assert_eq!(
        examples.len(),
        PAGE.matches("```").count() / 2,
        "a block is not YAML"
    );

    for example in examples {
        let limit = "limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }]";
        let text = if example.starts_with("limits:") || example.contains("\nlimits:") {
            example.to_owned()
        } else {
            format!("{example}{limit}")
        };
        if let Err(error) = super::Config::parse(&text, "page", &env) {
            panic!("{error}\n{text}");
        }
    }
}

#[test]
fn the_page_lists_every_renamed_field() {
    for (old, new) in RENAMED {
        let row = PAGE
            .lines()
            .find(|line| line.starts_with(&format!("| `{old}` ")));
        assert!(
            row.is_some_and(|row| row.contains(&format!("`{new}`"))),
            "{old}"
        );
    }
}
