//! `tiers` and `limits`: each limit with its quota, its conditions and its key.

mod conditions;
mod key;
mod quota;

use std::collections::HashMap;
use std::num::NonZeroU32;

use tollgate::algorithm::AMOUNT_MAX;
use tollgate::{Consistency, FailurePolicy, LeakyMode, Limit, LimitName, Quota, QuotaUnit, Rule};
use tollgate_subject::Case;

use self::key::{ListedKey, RECIPE, read_key, read_standing};
use self::quota::{Tier, read_lockout, read_mode, read_quota, read_quotas, read_tiers};
use super::clients::ATTRIBUTE;
use super::field::{BOOLEAN, ConfigField, FieldMap, collect_all, list_and, list_or};
use super::names::{
    ALGORITHMS, Algorithm, BLOCK, CONSISTENCIES, COST, EXEMPT, LIMIT, MATCH_CASES,
    ON_AMBIGUOUS_PATH, ON_RESERVATION_EXPIRY, ON_STORE_FAILURE, UNITS,
};
use super::values::{RATIO, ValueError, ValueKind, WEIGHT};
use super::yaml::YamlValue;
use crate::attribute::{Attribute, AttributeError};
use crate::limit::{AmbiguousPathPolicy, Cost, LimitConfig, TokenWeight};

const LIMITS_MAX: usize = 1_000;
/// The most kinds of tokens of a limit.
const TOKEN_KINDS_MAX: usize = 16;
const LIMITS: &str = "expected a list of limits, such as - { name: api, key: [client_ip], \
                      algorithm: sliding_window, limit: 100, window: 1m }";
const NAME: ValueKind<LimitName> = ValueKind::new(
    "name",
    "expected 1 to 47 letters, digits or any of - _ . : /",
    |text| {
        let name = LimitName::new(text).map_err(|_| ValueError::Unexpected)?;
        // These names are for quotas that a request brings along.
        if name.starts_with("override:") {
            return Err(ValueError::Reason("the prefix `override:` is reserved"));
        }
        Ok(name)
    },
);

/// The section `defaults`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitDefaults {
    pub(super) consistency: Consistency,
    pub(super) on_store_failure: FailurePolicy,
    pub(super) expected_replicas: NonZeroU32,
    /// Whether the case of a path matters.
    pub(super) match_case: Case,
    pub(super) on_ambiguous_path: AmbiguousPathPolicy,
}

impl Default for LimitDefaults {
    fn default() -> Self {
        Self {
            consistency: Consistency::default(),
            on_store_failure: FailurePolicy::default(),
            expected_replicas: NonZeroU32::MIN,
            // Express, Koa, Rails and ASP.NET ignore case.
            match_case: Case::Insensitive,
            on_ambiguous_path: AmbiguousPathPolicy::default(),
        }
    }
}

/// Reads the sections `tiers` and `limits`. `hashed` are the attributes that the file hashes.
pub(super) fn read(
    root: &FieldMap<'_>,
    defaults: LimitDefaults,
    hashed: &[Attribute],
) -> Option<Vec<LimitConfig>> {
    let tiers = root.read("tiers", read_tiers).unwrap_or_default();
    let field = root.require("limits", LIMITS)?;
    if let YamlValue::List(nodes) = &field.node.value
        && !(1..=LIMITS_MAX).contains(&nodes.len())
    {
        let found = nodes.len();
        return field.fail(format_args!(
            "expected 1 to {LIMITS_MAX} limits, found {found}"
        ));
    }

    let mut lines = HashMap::new();
    collect_all(field.items(LIMITS)?.iter().map(|item| {
        let mapping = FieldMap::new(item, LIMIT)?;
        let name = read_name(&mapping, &mut lines);
        read_limit(&mapping, name, defaults, &tiers, hashed)
    }))
}

/// Reads the name of a limit, which must be unique. `lines` has the names so far.
fn read_name(mapping: &FieldMap<'_>, lines: &mut HashMap<LimitName, usize>) -> Option<LimitName> {
    let field = mapping.require("name", NAME.expected)?;
    let name = field.value(&NAME)?;

    if let Some(line) = lines.insert(name, field.position().line) {
        let found = field.quoted();
        field.error(format_args!(
            "duplicate limit name {found}; first used on line {line}"
        ));
    }
    Some(name)
}

/// Reads one limit. Every field is read before the first `?`, so that all errors are reported.
fn read_limit(
    mapping: &FieldMap<'_>,
    name: Option<LimitName>,
    defaults: LimitDefaults,
    tiers: &[Tier<'_>],
    hashed: &[Attribute],
) -> Option<LimitConfig> {
    let algorithm = read_algorithm(mapping);
    let quotas = algorithm.and_then(|algorithm| read_quotas(mapping, algorithm, tiers));
    let case = mapping.choice_or("match_case", MATCH_CASES, defaults.match_case);
    let key = mapping
        .require("key", RECIPE)
        .and_then(|field| read_key(&field, case));
    let conditions = match mapping.get("match") {
        Some(field) => conditions::read(&field, case),
        None => Some(Vec::new()),
    };
    let on_ambiguous_path = mapping.choice_or(
        "on_ambiguous_path",
        ON_AMBIGUOUS_PATH,
        defaults.on_ambiguous_path,
    );

    let listed = key.as_ref().map(|recipe| ListedKey { recipe, hashed });
    let exempt = read_standing(mapping, "exempt", EXEMPT, listed);
    let blocked = read_standing(mapping, "block", BLOCK, listed);

    let quota = quotas.as_ref().map(|(quota, _)| *quota);
    let cost = mapping.read("cost", |field| read_cost(field, quota));
    let optional = mapping.value("optional", &BOOLEAN).unwrap_or_default();
    let rule = read_rule(mapping, name, algorithm, quota, defaults);

    let (_, tiers) = quotas?;
    Some(LimitConfig {
        rule: rule?,
        conditions: conditions?,
        on_ambiguous_path,
        key: key?,
        optional,
        tiers,
        cost,
        exempt: exempt?.list,
        blocked: blocked?,
    })
}

/// Reads a limit that a request brings along: it has neither conditions nor tiers, and its key and
/// cost are those of the request.
pub(super) fn read_inline(mapping: &FieldMap<'_>, defaults: LimitDefaults) -> Option<Rule> {
    let name = mapping.require_value("name", &NAME);
    let algorithm = read_algorithm(mapping);
    let quota = algorithm.and_then(|algorithm| read_quota(mapping, None, algorithm));
    read_rule(mapping, name, algorithm, quota, defaults)
}

/// Reads the settings of a limit besides its quota, and validates it.
fn read_rule(
    mapping: &FieldMap<'_>,
    name: Option<LimitName>,
    algorithm: Option<Algorithm>,
    quota: Option<Quota>,
    defaults: LimitDefaults,
) -> Option<Rule> {
    let shadow = mapping.value("shadow", &BOOLEAN).unwrap_or_default();
    let unit = mapping.read("unit", |field| read_unit(field, algorithm));
    let on_store_failure = mapping.choice("on_store_failure", ON_STORE_FAILURE);
    let consistency = mapping.read("consistency", |field| {
        read_consistency(field, mapping, algorithm)
    });
    let debt_max = mapping.read("debt_max", |field| field.integer_in(0..=AMOUNT_MAX));
    let reservation_max = mapping.read("reservation_max", read_reservation_max);
    let on_expiry = mapping.choice("on_reservation_expiry", ON_RESERVATION_EXPIRY);
    let lockout = mapping.read("lockout", read_lockout);

    let mut limit = Limit::new(name?.as_str(), quota?)
        .unit(unit.unwrap_or_default())
        .on_store_failure(on_store_failure.unwrap_or(defaults.on_store_failure))
        .consistency(consistency.unwrap_or(defaults.consistency))
        .on_reservation_expiry(on_expiry.unwrap_or_default());
    if let Some(units) = debt_max {
        limit = limit.debt_max(units);
    }
    if let Some(share) = reservation_max {
        limit = limit.reservation_max(share);
    }
    if let Some(lockout) = lockout {
        limit = limit.lockout(lockout);
    }
    let rule = limit.validate().map_err(|error| {
        // What is wrong with each field alone was reported; what is left is a lockout that does not
        // suit the limit.
        let lockout = mapping.get("lockout");
        lockout.as_ref().unwrap_or(&mapping.field).error(error);
    });
    Some(
        rule.ok()?
            .with_shadow(shadow)
            .with_replicas(defaults.expected_replicas),
    )
}

/// Reads the algorithm, and reports the fields that do not apply to it.
fn read_algorithm(mapping: &FieldMap<'_>) -> Option<Algorithm> {
    let names: Vec<&str> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
    let expected = format!("expected {}", list_or(&names));
    let algorithm = mapping
        .require("algorithm", &expected)?
        .choice(ALGORITHMS)?;

    let own = algorithm.fields();
    let all = ALGORITHMS.iter().flat_map(|(_, other)| other.fields());
    for name in all.filter(|name| !own.contains(name)) {
        let owners = ALGORITHMS
            .iter()
            .filter(|(_, other)| other.fields().contains(name));
        let owners: Vec<&str> = owners.map(|(name, _)| *name).collect();
        let (owners, own, algorithm) = (list_and(&owners), list_and(own), algorithm.name());
        mapping.reject(
            name,
            format_args!("`{name}` is only for {owners}; {algorithm} takes {own}"),
        );
    }
    Some(algorithm)
}

/// Reads the unit of a limit. A concurrency limit has its own.
fn read_unit(field: &ConfigField<'_>, algorithm: Option<Algorithm>) -> Option<QuotaUnit> {
    let unit = field.choice(UNITS)?;
    if algorithm == Some(Algorithm::Concurrency) && unit != QuotaUnit::Requests {
        return field.invalid("unit", "a concurrency limit counts requests in flight");
    }
    Some(unit)
}

/// Reads the largest share of the limit that one reservation may take.
fn read_reservation_max(field: &ConfigField<'_>) -> Option<f64> {
    let share = field.value(&RATIO)?;
    if share > 0.0 {
        return Some(share);
    }
    field.invalid(
        "share",
        "must be greater than 0, or no reservation would take anything",
    )
}

/// Reads the consistency of a limit. Adds a warning if the algorithm does not support it.
fn read_consistency(
    field: &ConfigField<'_>,
    mapping: &FieldMap<'_>,
    algorithm: Option<Algorithm>,
) -> Option<Consistency> {
    let consistency = field.choice(CONSISTENCIES)?;
    let is_queue = || read_mode(mapping) == LeakyMode::Queue;

    let warning = match (consistency, algorithm?) {
        (Consistency::Strict | Consistency::Local, _) => None,
        (_, Algorithm::Concurrency) => {
            Some("concurrency limits are always strict, so this setting has no effect")
        }
        (_, Algorithm::LeakyBucket) if is_queue() => {
            Some("queues are always strict, so this setting has no effect")
        }
        (Consistency::Eventual, Algorithm::SlidingLog) => {
            Some("sliding_log does not support eventual; leased, which is stricter, is used")
        }
        _ => None,
    };
    warning.into_iter().for_each(|warning| field.warn(warning));
    Some(consistency)
}

/// Reads the cost: a number, or the attribute that holds it.
fn read_cost(field: &ConfigField<'_>, quota: Option<Quota>) -> Option<Cost> {
    if field.scalar().is_some() {
        return Some(Cost {
            default: read_units(field, 1, quota)?,
            ..Cost::default()
        });
    }

    let mapping = FieldMap::new(field, COST)?;
    let default = mapping.read("default", |field| read_units(field, 0, quota));
    let mut cost = Cost {
        default: default.unwrap_or(1),
        ..Cost::default()
    };
    if let Some(tokens) = mapping.get("tokens") {
        mapping.reject("by", "`tokens` takes its place; use one of them");
        cost.tokens = read_tokens(&tokens)?;
    } else {
        cost.attribute = Some(mapping.require_value("by", &ATTRIBUTE)?);
    }
    Some(cost)
}

/// Reads the kinds of tokens that a limit counts, with their weights.
fn read_tokens(field: &ConfigField<'_>) -> Option<Vec<TokenWeight>> {
    let expected = "expected weights by the kind of tokens, such as { input: 1, output: 4 }";
    let mapping = FieldMap::with_free_keys(field, expected)?;
    if mapping.len() == 0 {
        return field.fail(expected);
    }
    field.at_most(TOKEN_KINDS_MAX, mapping.len(), "kinds of tokens")?;

    collect_all(mapping.entries().map(|(entry, field)| {
        let attribute = format!("tokens.{}", entry.key.text).parse();
        let attribute = attribute.map_err(|error: AttributeError| {
            mapping.error_at_key(entry, error);
        });
        Some(TokenWeight {
            attribute: attribute.ok()?,
            thousandths: field.value(&WEIGHT)?,
        })
    }))
}

/// Reads a number of units that the limit can allow at all.
fn read_units(field: &ConfigField<'_>, min: u64, quota: Option<Quota>) -> Option<u64> {
    let cost = field.integer_in(min..=AMOUNT_MAX)?;
    if quota.is_none_or(|quota| cost <= quota.limit()) {
        return Some(cost);
    }
    field.invalid(
        "cost",
        "it exceeds the limit, so no request would ever be allowed; lower the cost or raise the \
         limit",
    )
}
