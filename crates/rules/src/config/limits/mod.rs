//! `limits`: each limit with its quota, its conditions and its key.

mod conditions;
mod key;
mod quota;
mod tier;

use std::collections::HashMap;

use tollgate::{Consistency, FailurePolicy, Limit, LimitName, Quota};

use super::clients::ATTRIBUTE;
use super::field::{ConfigField, Expectation, list_and, list_or};
use super::field_map::FieldMap;
use super::names::{ALGORITHMS, Algorithm, CONSISTENCIES, COST, LIMIT, ON_STORE_FAILURE};
use super::tiers::Tier;
use super::yaml::YamlValue;
use crate::limit::{Cost, LimitConfig};

const LIMITS_MAX: usize = 1_000;
/// The largest limit, capacity and cost: 2^53, up to which a double is exact.
const NUMBER_MAX: u64 = 1 << 53;
/// The prefix of the names that are reserved for quotas that a request brings along.
const RESERVED_PREFIX: &str = "override:";

const LIMITS: Expectation<'static> = Expectation::value(
    "expected a list of limits, such as - { name: api, key: [client_ip], algorithm: \
     sliding_window, limit: 100, window: 1m }",
);
const NAME: Expectation<'static> = Expectation::new(
    "name",
    "expected 1 to 47 letters, digits or any of - _ . : /",
);

/// The section `defaults`, as far as it concerns limits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LimitDefaults {
    pub(super) consistency: Option<Consistency>,
    pub(super) on_store_failure: Option<FailurePolicy>,
}

/// Reads the section `limits`. Invalid limits are reported and left out.
pub(super) fn read(
    root: &FieldMap<'_>,
    defaults: LimitDefaults,
    tiers: &[Tier<'_>],
) -> Vec<LimitConfig> {
    let Some(field) = root.require("limits", LIMITS) else {
        return Vec::new();
    };
    let YamlValue::List(nodes) = &field.node.value else {
        field.unexpected(LIMITS);
        return Vec::new();
    };
    if nodes.is_empty() || nodes.len() > LIMITS_MAX {
        let found = nodes.len();
        field.error(format_args!(
            "expected 1 to {LIMITS_MAX} limits, found {found}"
        ));
        return Vec::new();
    }

    let mut lines = HashMap::new();
    let mut limits = Vec::new();
    for item in field.items(nodes) {
        let Some(mapping) = item.mapping(LIMIT) else {
            continue;
        };
        let name = mapping
            .require("name", NAME)
            .and_then(|field| read_name(&field, &mut lines));
        limits.extend(read_limit(&mapping, name, defaults, tiers));
    }

    // An invalid limit has been reported. If that ever fails, the limit must not vanish silently.
    if limits.len() < nodes.len() && field.diagnostics.is_clean() {
        field.error("a limit cannot be read; please report this as a bug in Tollgate");
    }
    limits
}

/// Reads the name of a limit, which must be unique. `lines` has the names so far.
fn read_name<'a>(field: &ConfigField<'a>, lines: &mut HashMap<&'a str, usize>) -> Option<&'a str> {
    let name = field.string(NAME)?;
    if LimitName::new(name).is_err() {
        field.unexpected(NAME);
        return None;
    }

    if name.starts_with(RESERVED_PREFIX) {
        let reason = format_args!("the prefix `{RESERVED_PREFIX}` is reserved");
        field.invalid(NAME.noun, reason);
        return None;
    }

    if let Some(line) = lines.insert(name, field.position().line) {
        let found = field.quoted();
        field.error(format_args!(
            "duplicate limit name {found}; first used on line {line}"
        ));
        return None;
    }
    Some(name)
}

/// Reads one limit. Every field is read before the first `?`, so that all errors are reported.
fn read_limit(
    mapping: &FieldMap<'_>,
    name: Option<&str>,
    defaults: LimitDefaults,
    tiers: &[Tier<'_>],
) -> Option<LimitConfig> {
    let algorithm = read_algorithm(mapping);
    let quotas = algorithm.and_then(|algorithm| tier::read(mapping, algorithm, tiers));
    let conditions = mapping
        .get("match")
        .map_or_else(|| Some(Vec::new()), |field| conditions::read(&field));
    let key = mapping
        .require("key", key::KEY)
        .and_then(|field| key::read(&field));
    let optional = mapping
        .read("optional", ConfigField::boolean)
        .unwrap_or_default();
    let quota = quotas.as_ref().map(|quotas| quotas.quota);
    let cost = mapping.read("cost", |field| read_cost(field, quota));
    let with_policies = read_policies(mapping, algorithm, defaults);

    let (quotas, key) = (quotas?, key?);
    let limit = with_policies(Limit::new(name?, quotas.quota));
    Some(LimitConfig {
        rule: limit
            .validate()
            .map_err(|error| mapping.error(error))
            .ok()?,
        conditions: conditions?,
        key,
        optional,
        tiers: quotas.tiers,
        cost,
    })
}

/// Reads the algorithm, and reports the fields that do not apply to it.
fn read_algorithm(mapping: &FieldMap<'_>) -> Option<Algorithm> {
    let names: Vec<&str> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
    let expected = format!("expected {}", list_or(&names));
    let algorithm = mapping
        .require("algorithm", Expectation::value(&expected))?
        .choice(ALGORITHMS)?;

    let inapplicable = ALGORITHMS
        .iter()
        .flat_map(|(_, other)| other.fields())
        .filter(|name| !algorithm.fields().contains(name));
    for name in inapplicable {
        let takes_it = |(_, other): &&(&'static str, Algorithm)| other.fields().contains(name);
        let owners: Vec<&str> = ALGORITHMS
            .iter()
            .filter(takes_it)
            .map(|(name, _)| *name)
            .collect();

        let (owners, own) = (list_and(&owners), list_and(algorithm.fields()));
        mapping.reject(
            name,
            format_args!(
                "`{name}` is only for {owners}; {} takes {own}",
                algorithm.name()
            ),
        );
    }
    Some(algorithm)
}

/// Reads shadow mode, failure policy and consistency, or takes their defaults. Returns a function
/// that sets them on a limit.
fn read_policies(
    mapping: &FieldMap<'_>,
    algorithm: Option<Algorithm>,
    defaults: LimitDefaults,
) -> impl Fn(Limit) -> Limit + use<> {
    let shadow = mapping
        .read("shadow", ConfigField::boolean)
        .unwrap_or_default();

    let failure = mapping.read("on_store_failure", |field| field.choice(ON_STORE_FAILURE));
    let failure = failure.or(defaults.on_store_failure).unwrap_or_default();

    let consistency = mapping.read("consistency", |field| {
        read_consistency(field, mapping, algorithm)
    });
    let consistency = consistency.or(defaults.consistency).unwrap_or_default();

    move |limit| {
        let limit = limit.on_store_failure(failure).consistency(consistency);
        if shadow { limit.shadow() } else { limit }
    }
}

/// Reads the consistency of a limit. Adds a note if the algorithm does not support it.
fn read_consistency(
    field: &ConfigField<'_>,
    mapping: &FieldMap<'_>,
    algorithm: Option<Algorithm>,
) -> Option<Consistency> {
    let consistency = field.choice(CONSISTENCIES)?;

    match (consistency, algorithm) {
        (Consistency::Leased | Consistency::Eventual, Some(Algorithm::Concurrency)) => {
            field.note("concurrency limits are always strict, so this setting has no effect");
        }
        (Consistency::Leased | Consistency::Eventual, Some(Algorithm::LeakyBucket))
            if quota::is_queue(mapping) =>
        {
            field.note("queues are always strict, so this setting has no effect");
        }
        (Consistency::Eventual, Some(Algorithm::SlidingLog)) => {
            field.note("sliding_log does not support eventual; leased, which is stricter, is used");
        }
        _ => {}
    }

    Some(consistency)
}

/// Reads the cost: a number, or the attribute that holds it.
fn read_cost(field: &ConfigField<'_>, quota: Option<Quota>) -> Option<Cost> {
    if matches!(field.node.value, YamlValue::Scalar(_)) {
        let default = check_cost(field, field.integer_in(1..=NUMBER_MAX)?, quota)?;
        return Some(Cost {
            attribute: None,
            default,
        });
    }

    let mapping = field.mapping(COST)?;
    let attribute = mapping
        .require("by", ATTRIBUTE)
        .and_then(|field| field.parse(ATTRIBUTE));
    let default = match mapping.get("default") {
        Some(field) => check_cost(&field, field.integer_in(0..=NUMBER_MAX)?, quota)?,
        None => 1,
    };
    Some(Cost {
        attribute: Some(attribute?),
        default,
    })
}

/// Checks that the limit can allow a cost at all.
fn check_cost(field: &ConfigField<'_>, cost: u64, quota: Option<Quota>) -> Option<u64> {
    if quota.is_some_and(|quota| cost > quota.limit()) {
        field.invalid(
            "cost",
            "it exceeds the limit, so no request would ever be allowed; lower the cost or raise \
             the limit",
        );
        return None;
    }
    Some(cost)
}
