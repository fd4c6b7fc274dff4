//! `exempt` and `block`: keys and networks that a limit always lets pass, or always denies.

use std::net::IpAddr;

use tollgate_subject::Network;

use crate::attribute::{Attribute, AttributeKind};
use crate::config::clients::NETWORK;
use crate::config::field::{ConfigField, collect_all};
use crate::config::field_map::FieldMap;
use crate::config::names::{BLOCK, BLOCK_STATUSES, EXEMPT};
use crate::config::yaml::YamlEntry;
use crate::limit::{Recipe, StandingBlock, StandingKey, StandingList};

/// The most keys, and the most networks, of a list.
const ENTRIES_MAX: usize = 1_000;
const KEYS: &str = "expected a list of keys, each with the attributes of the limit's key, such as \
                    [{ client_ip: 203.0.113.7 }]";
const NETWORKS: &str = "expected a list of networks, such as [203.0.113.0/24]";
const LIST: &str = "it has neither `keys` nor `networks`; add one of them, or remove it";

/// Reads `exempt`.
pub(super) fn read_exempt(field: &ConfigField<'_>, recipe: &Recipe) -> Option<StandingList> {
    read_list(&FieldMap::new(field, EXEMPT)?, recipe)
}

/// Reads `block`.
pub(super) fn read_block(field: &ConfigField<'_>, recipe: &Recipe) -> Option<StandingBlock> {
    let mapping = FieldMap::new(field, BLOCK)?;
    let status = mapping.read("status", |field| field.choice(BLOCK_STATUSES));
    Some(StandingBlock {
        list: read_list(&mapping, recipe)?,
        status: status.unwrap_or(429),
    })
}

fn read_list(mapping: &FieldMap<'_>, recipe: &Recipe) -> Option<StandingList> {
    if mapping.get("keys").is_none() && mapping.get("networks").is_none() {
        mapping.field.error(LIST);
        return None;
    }
    let keys = mapping.get("keys").map_or(Some(Vec::new()), |field| {
        let items = field.list(KEYS)?;
        field.at_most(ENTRIES_MAX, items.len(), "keys")?;
        collect_all(items.iter().map(|item| read_key(item, recipe)))
    });
    let networks = mapping
        .get("networks")
        .map_or(Some(Vec::new()), |field| read_networks(&field, recipe));
    Some(StandingList {
        keys: keys?,
        networks: networks?,
    })
}

fn read_networks(field: &ConfigField<'_>, recipe: &Recipe) -> Option<Vec<Network>> {
    let mut own = recipe.parts.iter().flatten();
    if !own.any(|own| own.attribute().kind() == AttributeKind::ClientIp) {
        field.error("`client_ip` is not part of the limit's key, so it cannot tell networks");
        return None;
    }

    let items = field.list(NETWORKS)?;
    field.at_most(ENTRIES_MAX, items.len(), "networks")?;
    collect_all(items.iter().map(|item| item.value(&NETWORK)))
}

/// Reads one key: a value for an attribute of each part.
fn read_key(field: &ConfigField<'_>, recipe: &Recipe) -> Option<StandingKey> {
    let mapping = FieldMap::with_free_keys(field, KEYS)?;
    let attributes = mapping
        .entries()
        .map(|(entry, value)| read_attribute(&mapping, entry, &value, recipe));
    let attributes = collect_all(attributes)?;

    for part in &recipe.parts {
        let is_given = part
            .iter()
            .any(|own| attributes.iter().any(|(name, _)| name == own.attribute()));
        if !is_given {
            let names: Vec<&str> = part.iter().map(|own| own.attribute().name()).collect();
            let names = names.join("` or `");
            field.error(format_args!(
                "missing attribute `{names}` of the limit's key"
            ));
            return None;
        }
    }
    Some(StandingKey(attributes))
}

fn read_attribute(
    mapping: &FieldMap<'_>,
    entry: &YamlEntry,
    value: &ConfigField<'_>,
    recipe: &Recipe,
) -> Option<(Attribute, Box<str>)> {
    let attribute: Option<Attribute> = entry.key.text.parse().ok();
    let mut own = recipe.parts.iter().flatten().map(|own| own.attribute());
    let attribute = attribute.filter(|attribute| own.any(|own| own == attribute));
    let Some(attribute) = attribute else {
        let parts = recipe.part_names();
        let key = match parts.as_slice() {
            [] => "empty".to_owned(),
            parts => parts.join(" and "),
        };
        let message = format_args!("not an attribute of the limit's key, which is {key}");
        mapping.error_at_key(entry, message);
        return None;
    };

    let text = value.string("value", "expected the value of the attribute")?;
    if attribute.kind() == AttributeKind::ClientIp && text.parse::<IpAddr>().is_err() {
        value.invalid(
            "address",
            "expected an IP address, such as 203.0.113.7; put a network into `networks`",
        );
        return None;
    }
    Some((attribute, text.into()))
}
