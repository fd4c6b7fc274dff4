//! `tier`: the quota of a limit by the value of an attribute.

use std::collections::BTreeMap;

use tollgate::Quota;

use super::quota::{QuotaReader, tier_field_name};
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
    let read_quota = |tier| {
        let reader = QuotaReader {
            limit,
            tier,
            algorithm,
        };
        reader.read()
    };
    let Some(field) = limit.get("tier") else {
        return Some((read_quota(None)?, None));
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
    let quotas = tiers
        .iter()
        .map(|tier| Some((tier.name.into(), read_quota(Some(tier))?)));
    let quotas: BTreeMap<Box<str>, Quota> = collect_all(quotas)?.into_iter().collect();

    let (by, default) = choice?;
    let quota = *quotas.get(default)?;
    let tiers = Tiers {
        by,
        default: default.into(),
        quotas,
    };
    Some((quota, Some(tiers)))
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

    let names = tiers.iter().map(|tier| tier.name).take(TIERS_SHOWN);
    let names: Vec<&str> = names.collect();
    let fix = match nearest(name, &names).filter(|_| !default.is_private()) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None if names.is_empty() => "define the tiers under `tiers`".into(),
        None => format!("expected {}", list_or(&names)),
    };
    let found = default.quoted();
    default.error(format_args!("unknown tier {found}; {fix}"));
    None
}
