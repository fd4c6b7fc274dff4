//! `limits`: each with its numbers, when it applies, and whom it counts.

mod key;
mod matching;
mod numbers;
mod tiered;

use std::collections::HashMap;

use tollgate::{Consistency, FailurePolicy, Limit, LimitError, LimitName, Quota};

use super::field::Field;
use super::subjects::ATTRIBUTE;
use super::table::Table;
use super::tiers::Tier;
use super::tree::Value;
use super::words::{ALGORITHMS, Algorithm, CONSISTENCIES, COST, LIMIT, ON_STORE_FAILURE};
use crate::rule::{Cost, LimitConfig, Match};

const LIMITS_MAX: usize = 1_000;
const COST_MAX: u64 = 1 << 53;
const LIMITS: &str = "write a list of limits, such as - { name: api, key: [client_ip], algorithm: sliding_window, limit: 100, window: 1m }";
const NAME: &str = "write a name of 1 to 47 letters, digits or any of - _ . : /";
/// Names that begin so belong to the numbers that a request brings along.
const RESERVED: &str = "override:";

/// What holds for limits that do not say otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) consistency: Option<Consistency>,
    pub(super) on_store_failure: Option<FailurePolicy>,
}

/// What `limits` says. Limits that are wrong are left out, and told.
pub(super) fn read(root: &Table<'_>, defaults: Defaults, tiers: &[Tier<'_>]) -> Vec<LimitConfig> {
    let Some(field) = root.require("limits", LIMITS) else {
        return Vec::new();
    };
    let Value::List(nodes) = &field.node.value else {
        field.wrong(LIMITS);
        return Vec::new();
    };
    if nodes.is_empty() || nodes.len() > LIMITS_MAX {
        field.fault(format_args!(
            "found {} limits; write from 1 to {LIMITS_MAX}",
            nodes.len()
        ));
        return Vec::new();
    }
    let mut lines = HashMap::new();
    let mut rules = Vec::new();
    for item in field.items(nodes) {
        let Some(table) = item.table(LIMIT) else {
            continue;
        };
        let name = table
            .require("name", NAME)
            .and_then(|field| name(&field, &mut lines));
        rules.extend(rule(&table, name, defaults, tiers));
    }
    // Whatever is wrong has been told. Should that ever fail, a limit must not be lost in silence.
    if rules.len() < nodes.len() && field.log.is_clean() {
        field.fault("a limit cannot be read; please tell the makers of Tollgate");
    }
    rules
}

/// A name that no limit before has.
fn name<'a>(field: &Field<'a>, lines: &mut HashMap<&'a str, usize>) -> Option<&'a str> {
    let name = field.text(NAME)?;
    field.checked(LimitName::new(name), NAME)?;
    if name.starts_with(RESERVED) {
        field.wrong(format_args!(
            "names that begin with {RESERVED} are taken; choose another"
        ));
        return None;
    }
    if let Some(line) = lines.insert(name, field.at().line) {
        field.wrong(format_args!(
            "the limit on line {line} has that name; names must differ, or their counts would mix"
        ));
        return None;
    }
    Some(name)
}

fn rule(
    table: &Table<'_>,
    name: Option<&str>,
    defaults: Defaults,
    tiers: &[Tier<'_>],
) -> Option<LimitConfig> {
    let algorithm = algorithm(table);
    let numbers = algorithm.and_then(|algorithm| tiered::read(table, algorithm, tiers));
    let applies = table
        .get("match")
        .map_or_else(|| Some(Match::default()), |field| matching::read(&field));
    let key = table
        .require("key", key::RIGHT)
        .and_then(|field| key::read(&field));
    let optional = table.read("optional", Field::flag).unwrap_or_default();
    let quota = numbers.as_ref().map(|numbers| numbers.quota);
    let cost = table.read("cost", |field| cost(field, quota));
    let policy = policy(table, algorithm, defaults);
    let (numbers, key) = (numbers?, key?);
    let limit = policy(Limit::new(name?, numbers.quota));
    Some(LimitConfig {
        limit,
        applies: applies?,
        key,
        optional,
        tiers: numbers.tiers,
        cost,
    })
}

/// The algorithm; fields that only others have are told.
fn algorithm(table: &Table<'_>) -> Option<Algorithm> {
    let names: Vec<&str> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
    let right = format!("write {}", super::field::either(&names));
    let algorithm = table.require("algorithm", right)?.choice(ALGORITHMS)?;
    let others = ALGORITHMS
        .iter()
        .flat_map(|(_, other)| other.fields())
        .filter(|name| !algorithm.fields().contains(name));
    for name in others {
        let having = |(_, other): &&(&'static str, Algorithm)| other.fields().contains(name);
        let owners: Vec<&str> = ALGORITHMS
            .iter()
            .filter(having)
            .map(|(name, _)| *name)
            .collect();
        let (owners, own) = (
            super::field::all(&owners),
            super::field::all(algorithm.fields()),
        );
        table.refuse(
            name,
            format_args!("is for {owners}; {} has {own}", algorithm.name()),
        );
    }
    Some(algorithm)
}

/// Puts what a limit, or else the defaults, say about shadow, failure and consistency on it.
fn policy(
    table: &Table<'_>,
    algorithm: Option<Algorithm>,
    defaults: Defaults,
) -> impl Fn(Limit) -> Limit + use<> {
    let shadow = table.read("shadow", Field::flag).unwrap_or_default();
    let failure = table.read("on_store_failure", |field| field.choice(ON_STORE_FAILURE));
    let failure = failure.or(defaults.on_store_failure).unwrap_or_default();
    let own = table.read("consistency", |field| {
        own_consistency(field, table, algorithm)
    });
    let consistency = own.or(defaults.consistency).unwrap_or_default();
    move |limit| {
        let limit = limit.on_store_failure(failure).consistency(consistency);
        if shadow { limit.shadow() } else { limit }
    }
}

fn own_consistency(
    field: &Field<'_>,
    table: &Table<'_>,
    algorithm: Option<Algorithm>,
) -> Option<Consistency> {
    let asked = field.choice(CONSISTENCIES)?;
    match (asked, algorithm) {
        (Consistency::Leased | Consistency::Eventual, Some(Algorithm::Concurrency)) => {
            field.note("a concurrency limit is always counted strictly; that is what it is for");
        }
        (Consistency::Leased | Consistency::Eventual, Some(Algorithm::LeakyBucket))
            if numbers::is_queue(table) =>
        {
            field.note("a queue is always counted strictly; that is what it is for");
        }
        (Consistency::Eventual, Some(Algorithm::SlidingLog)) => {
            field.note("a log is exact, so eventual is served as leased here, which promises more");
        }
        _ => {}
    }
    Some(asked)
}

/// A number for every request, or the attribute that holds one.
fn cost(field: &Field<'_>, quota: Option<Quota>) -> Option<Cost> {
    if matches!(field.node.value, Value::Text(_)) {
        let default = fitting(field, field.whole_in(1..=COST_MAX)?, quota)?;
        return Some(Cost { by: None, default });
    }
    let table = field.table(COST)?;
    let by = table
        .require("by", ATTRIBUTE)
        .and_then(|field| field.parsed(ATTRIBUTE));
    let default = match table.get("default") {
        Some(field) => fitting(&field, field.whole_in(0..=COST_MAX)?, quota)?,
        None => 1,
    };
    Some(Cost {
        by: Some(by?),
        default,
    })
}

/// A cost that the limit can ever allow.
fn fitting(field: &Field<'_>, cost: u64, quota: Option<Quota>) -> Option<u64> {
    if quota.is_some_and(|quota| cost > quota.limit()) {
        field.wrong(
            "that is more than the limit ever allows at once; raise the limit or lower the cost",
        );
        return None;
    }
    Some(cost)
}

/// The field that an error of the core is about.
fn culprit(error: &LimitError, algorithm: Algorithm) -> &'static str {
    let has = |name: &'static str| algorithm.fields().contains(&name);
    match error {
        LimitError::Window { .. } if has("permit_timeout") => "permit_timeout",
        LimitError::Window { .. } => "window",
        LimitError::Rate { .. } if has("leak_rate") => "leak_rate",
        LimitError::Rate { .. } => "refill_rate",
        _ if has("capacity") => "capacity",
        _ => "limit",
    }
}
