//! `tier`: the quota of a limit by the value of an attribute.

use std::collections::BTreeMap;

use tollgate::Quota;

use super::quota::{QuotaReader, tier_field_name};
use crate::Attribute;
use crate::config::clients::ATTRIBUTE;
use crate::config::field::{ConfigField, Expectation, collect_all, list_or, nearest};
use crate::config::field_map::FieldMap;
use crate::config::names::{Algorithm, TIER_CHOICE};
use crate::config::tiers::Tier;
use crate::limit::Tiers;

/// The most tier names that an error lists.
const TIERS_SHOWN: usize = 20;
const TIER_NAME: Expectation<'static> = Expectation::new("tier", "expected the name of a tier");
const DEFAULT_TIER: Expectation<'static> =
    Expectation::new("tier", "expected the tier of requests that do not name one");

/// The quotas of a limit.
pub(super) struct LimitQuotas {
    /// The limit's own quota, or that of its default tier.
    pub(super) quota: Quota,
    /// The quotas of all tiers. `None` if the limit has no `tier`.
    pub(super) tiers: Option<Tiers>,
}

pub(super) fn read(
    limit: &FieldMap<'_>,
    algorithm: Algorithm,
    tiers: &[Tier<'_>],
) -> Option<LimitQuotas> {
    let reader = |tier| QuotaReader {
        limit,
        tier,
        algorithm,
    };
    let Some(field) = limit.get("tier") else {
        let quota = reader(None).read()?;
        return Some(LimitQuotas { quota, tiers: None });
    };

    // The numbers come from the tiers, so the limit must not have its own.
    for name in algorithm.fields() {
        if tier_field_name(name).is_some() {
            limit.reject(
                name,
                format_args!(
                    "`{name}` conflicts with `tier`, which takes it from `tiers`; remove one"
                ),
            );
        }
    }

    let choice = read_choice(&field, tiers);
    let quotas = collect_all(
        tiers
            .iter()
            .map(|tier| Some((Box::from(tier.name), reader(Some(tier)).read()?))),
    )?;
    let quotas: BTreeMap<Box<str>, Quota> = quotas.into_iter().collect();

    let (by, default) = choice?;
    let quota = *quotas.get(default)?;
    Some(LimitQuotas {
        quota,
        tiers: Some(Tiers {
            by,
            default: default.into(),
            quotas,
        }),
    })
}

/// Reads the attribute that names the tier, and the default tier.
fn read_choice<'a>(field: &ConfigField<'a>, tiers: &[Tier<'_>]) -> Option<(Attribute, &'a str)> {
    let mapping = field.mapping(TIER_CHOICE)?;
    let by = mapping
        .require("by", ATTRIBUTE)
        .and_then(|field| field.parse(ATTRIBUTE));

    let default = mapping.require("default", DEFAULT_TIER)?;
    let name = default.string(TIER_NAME)?;
    if tiers.iter().any(|tier| tier.name == name) {
        return Some((by?, name));
    }

    let found = default.quoted();
    let names: Vec<&str> = tiers
        .iter()
        .map(|tier| tier.name)
        .take(TIERS_SHOWN)
        .collect();
    match nearest(name, &names).filter(|_| !default.is_private()) {
        Some(suggestion) => default.error(format_args!(
            "unknown tier {found}; did you mean `{suggestion}`?"
        )),
        None if names.is_empty() => default.error(format_args!(
            "unknown tier {found}; define the tiers under `tiers`"
        )),
        None => default.error(format_args!(
            "unknown tier {found}; expected {}",
            list_or(&names)
        )),
    }
    None
}
