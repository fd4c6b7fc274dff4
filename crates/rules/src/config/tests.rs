//! `docs/tollgate.schema.json`, `docs/configuration.md` and the reader know the same names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{
    ALERTS, ALGORITHMS, ALIGNS, CLIENT_IP, CONSISTENCIES, COST, DEFAULTS, FORWARDED_BY, HEADERS,
    LIMIT, MODES, MONITORING, ON_STORE_FAILURE, ROOT, SERVER, STORE, STORE_TYPES, TIER,
    TIER_CHOICE, TRACING,
};

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/tollgate.schema.json")).unwrap()
}

/// The value at a path such as `/$defs/limit`, which must be there.
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
fn every_table_has_the_same_fields() {
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
        ("/$defs/headers", HEADERS),
        ("/$defs/monitoring", MONITORING),
        ("/$defs/monitoring/properties/alerts", ALERTS),
        ("/$defs/monitoring/properties/tracing", TRACING),
        ("/$defs/server", SERVER),
    ] {
        let table = at(&schema, path);
        assert_eq!(
            keys(&table["properties"]),
            set(known.iter().copied()),
            "{path}"
        );
        assert_eq!(
            table["additionalProperties"], false,
            "{path} takes unknown fields"
        );
        for (name, property) in table["properties"].as_object().unwrap() {
            let described = property["description"]
                .as_str()
                .is_some_and(|text| text.len() > 8);
            assert!(described, "{path}/{name} is not described");
        }
    }
}

fn words<T>(words: &[(&'static str, T)]) -> BTreeSet<&'static str> {
    words.iter().map(|(word, _)| *word).collect()
}

#[test]
fn every_choice_has_the_same_words() {
    let schema = schema();
    for (path, known) in [
        ("/$defs/store/properties/type", words(STORE_TYPES)),
        (
            "/$defs/defaults/properties/consistency",
            words(CONSISTENCIES),
        ),
        (
            "/$defs/defaults/properties/on_store_failure",
            words(ON_STORE_FAILURE),
        ),
        ("/$defs/client_ip/properties/header", words(FORWARDED_BY)),
        ("/$defs/limit/properties/algorithm", words(ALGORITHMS)),
        ("/$defs/limit/properties/align", words(ALIGNS)),
        ("/$defs/limit/properties/mode", words(MODES)),
        ("/$defs/limit/properties/consistency", words(CONSISTENCIES)),
        (
            "/$defs/limit/properties/on_store_failure",
            words(ON_STORE_FAILURE),
        ),
    ] {
        let found = at(&schema, &format!("{path}/anyOf/0/enum"))
            .as_array()
            .unwrap();
        assert_eq!(
            found
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect::<BTreeSet<_>>(),
            known,
            "{path}"
        );
    }
}

#[test]
fn every_algorithm_forbids_the_same_fields() {
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
fn the_page_has_every_field() {
    for (after, known) in [
        ("## The file", ROOT),
        ("## `store`", STORE),
        ("## `defaults`", DEFAULTS),
        ("## `client_ip`", CLIENT_IP),
        ("## `tiers`", TIER),
        ("## `limits`", LIMIT),
        ("In `tier`:", TIER_CHOICE),
        ("In `cost`, where it is a mapping:", COST),
        ("## `headers`", HEADERS),
        ("## `monitoring`", MONITORING),
        ("In `alerts`:", ALERTS),
        ("In `tracing`:", TRACING),
        ("## `server`", SERVER),
    ] {
        assert_eq!(column(after), set(known.iter().copied()), "{after}");
    }
}

#[test]
fn the_page_has_every_word() {
    let words = [
        words(STORE_TYPES),
        words(CONSISTENCIES),
        words(ON_STORE_FAILURE),
        words(FORWARDED_BY),
        words(ALGORITHMS),
        words(ALIGNS),
        words(MODES),
    ];
    for word in words.iter().flatten() {
        assert!(PAGE.contains(&format!("`{word}`")), "{word}");
    }
}

/// Every example is right; one that says nothing of limits gets one.
#[test]
fn the_examples_of_the_page_are_right() {
    let env = |name: &str| (name == "REDIS_PASSWORD").then(|| "x".to_owned());
    let blocks = PAGE
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = blocks.collect();
    assert!(examples.len() >= 4);
    for example in examples {
        let limit = "limits: [{ name: a, key: [], algorithm: sliding_log, limit: 1, window: 1s }]";
        let text = if example.contains("limits:") {
            example.to_owned()
        } else {
            format!("{example}{limit}")
        };
        if let Err(faults) = super::Config::parse(&text, "page", &env) {
            panic!("{faults}\n{text}");
        }
    }
}
