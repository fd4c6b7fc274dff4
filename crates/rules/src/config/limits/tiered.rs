//! `tier`: numbers by the value of an attribute.

use std::collections::BTreeMap;

use tollgate::Quota;

use super::numbers::{Source, in_tier};
use crate::config::field::{Field, all, every, nearest};
use crate::config::subjects::ATTRIBUTE;
use crate::config::table::Table;
use crate::config::tiers::Tier;
use crate::config::words::{Algorithm, TIER_CHOICE};
use crate::rule::Tiers;

/// The numbers of a limit: its own, or those of its default tier and of all others.
pub(super) struct Numbers {
    pub(super) quota: Quota,
    pub(super) tiers: Option<Tiers>,
}

pub(super) fn read(limit: &Table<'_>, algorithm: Algorithm, tiers: &[Tier<'_>]) -> Option<Numbers> {
    let Some(field) = limit.get("tier") else {
        let quota = Source {
            limit,
            tier: None,
            algorithm,
        }
        .quota()?;
        return Some(Numbers { quota, tiers: None });
    };
    for name in algorithm
        .fields()
        .iter()
        .filter(|name| in_tier(name).is_some())
    {
        limit.refuse(
            name,
            "the tiers give this number, because there is a `tier`; leave one of the two out",
        );
    }
    let choice = choice(&field, tiers);
    let quota = |tier| {
        Source {
            limit,
            tier: Some(tier),
            algorithm,
        }
        .quota()
    };
    let quotas = every(
        tiers
            .iter()
            .map(|tier| Some((Box::from(tier.name), quota(tier)?))),
    )?;
    let quotas: BTreeMap<Box<str>, Quota> = quotas.into_iter().collect();
    let (by, default) = choice?;
    let quota = *quotas.get(default)?;
    Some(Numbers {
        quota,
        tiers: Some(Tiers {
            by,
            default: default.into(),
            quotas,
        }),
    })
}

/// The attribute that names the tier, and the tier of those without.
fn choice<'a>(field: &Field<'a>, tiers: &[Tier<'_>]) -> Option<(crate::Attribute, &'a str)> {
    let table = field.table(TIER_CHOICE)?;
    let by = table
        .require("by", ATTRIBUTE)
        .and_then(|field| field.parsed(ATTRIBUTE));
    let default = table.require("default", "write the tier of requests that name none")?;
    let name = default.text("write the name of a tier")?;
    if tiers.iter().any(|tier| tier.name == name) {
        return Some((by?, name));
    }
    let names: Vec<&str> = tiers.iter().map(|tier| tier.name).take(20).collect();
    match nearest(name, &names).filter(|_| !default.is_private()) {
        Some(meant) => default.wrong(format_args!("did you mean the tier `{meant}`?")),
        None if names.is_empty() => default.wrong("there are no tiers; add them under `tiers`"),
        None => default.wrong(format_args!("the tiers are {}", all(&names))),
    }
    None
}
