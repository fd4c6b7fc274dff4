//! `tier`: the quota of a limit by the value of an attribute.

use std::collections::BTreeMap;

use tollgate::Quota;

use super::quota::{self, tier_field_name};
use super::tiers::Tier;
use crate::attribute::Attribute;
use crate::config::clients::ATTRIBUTE;
use crate::config::field::{ConfigField, collect_all, list_or, nearest};
use crate::config::field_map::FieldMap;
use crate::config::names::{Algorithm, TIER_CHOICE};
use crate::limit::Tiers;

/// The most tier names that an error lists.
const TIERS_SHOWN: usize = 20;

/// Reads the quota of a limit, and the quotas of its tiers. With tiers, its own quota is that of
/// the default tier.
pub(super) fn read(
    limit: &FieldMap<'_>,
    algorithm: Algorithm,
    tiers: &[Tier<'_>],
) -> Option<(Quota, Option<Tiers>)> {
    let Some(field) = limit.get("tier") else {
        return Some((quota::read(limit, None, algorithm)?, None));
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
    let quota = |tier: &Tier<'_>| {
        let quota = quota::read(limit, Some(tier), algorithm)?;
        Some((tier.name.into(), quota))
    };
    let quotas: BTreeMap<Box<str>, Quota> =
        collect_all(tiers.iter().map(quota))?.into_iter().collect();

    let (by, default) = choice?;
    let tiers = Tiers {
        by,
        default: default.into(),
        quotas,
    };
    Some((*tiers.quotas.get(default)?, Some(tiers)))
}

/// Reads the attribute that names the tier, and the default tier.
fn read_choice<'a>(field: &ConfigField<'a>, tiers: &[Tier<'_>]) -> Option<(Attribute, &'a str)> {
    let mapping = FieldMap::new(field, TIER_CHOICE)?;
    let by = mapping.require_value("by", &ATTRIBUTE);

    let default = mapping.require(
        "default",
        "expected the tier of requests that do not name one",
    )?;
    let name = default.string("tier", "expected the name of a tier")?;
    if tiers.iter().any(|tier| tier.name == name) {
        return Some((by?, name));
    }

    let shown = tiers.iter().take(TIERS_SHOWN);
    let names: Vec<&str> = shown.map(|tier| tier.name).collect();
    let fix = match nearest(name, &names).filter(|_| !default.is_private()) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None if names.is_empty() => "define the tiers under `tiers`".into(),
        None => format!("expected {}", list_or(&names)),
    };
    default.fail(format_args!("unknown tier {}; {fix}", default.quoted()))
}
