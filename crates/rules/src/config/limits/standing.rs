//! `exempt` and `block`: keys and networks that a limit always lets pass, or always denies.

use std::net::IpAddr;

use tollgate::EncodedKey;
use tollgate_subject::Network;

use crate::attribute::{Attribute, AttributeKind};
use crate::config::clients::NETWORK;
use crate::config::field::{ConfigField, collect_all};
use crate::config::field_map::FieldMap;
use crate::config::names::{BLOCK, BLOCK_STATUSES, EXEMPT};
use crate::config::yaml::YamlEntry;
use crate::key_attribute::KeyAttribute;
use crate::limit::{Recipe, StandingBlock, StandingKey, StandingList};

/// The most keys, and the most networks, of a list.
const ENTRIES_MAX: usize = 1_000;
const KEYS: &str = "expected a list of keys, each with the attributes of the limit's key, such as \
                    [{ client_ip: 203.0.113.7 }]";
const KEY: &str = "expected the attributes of the limit's key, such as { client_ip: 203.0.113.7 }";
const NETWORKS: &str = "expected a list of networks, such as [203.0.113.0/24]";
const LIST: &str = "it has neither `keys` nor `networks`; add one of them, or remove it";

/// The key of a limit, as far as lists need it.
#[derive(Clone, Copy)]
pub(super) struct ListedKey<'k> {
    pub(super) recipe: &'k Recipe,
    /// The attributes that the file hashes.
    pub(super) hashed: &'k [Attribute],
}

/// Reads `exempt`.
pub(super) fn read_exempt(field: &ConfigField<'_>, key: ListedKey<'_>) -> Option<StandingList> {
    read_list(&FieldMap::new(field, EXEMPT)?, key)
}

/// Reads `block`.
pub(super) fn read_block(field: &ConfigField<'_>, key: ListedKey<'_>) -> Option<StandingBlock> {
    let mapping = FieldMap::new(field, BLOCK)?;
    let status = mapping.read("status", |field| field.choice(BLOCK_STATUSES));
    Some(StandingBlock {
        list: read_list(&mapping, key)?,
        status: status.unwrap_or(429),
    })
}

fn read_list(mapping: &FieldMap<'_>, key: ListedKey<'_>) -> Option<StandingList> {
    if mapping.get("keys").is_none() && mapping.get("networks").is_none() {
        mapping.field.error(LIST);
        return None;
    }
    let keys = mapping.get("keys").map_or(Some(Vec::new()), |field| {
        let items = field.list(KEYS)?;
        field.at_most(ENTRIES_MAX, items.len(), "keys")?;
        collect_all(items.iter().map(|item| read_key(item, key)))
    });
    let networks = mapping
        .get("networks")
        .map_or(Some(Vec::new()), |field| read_networks(&field, key));
    Some(StandingList {
        keys: keys?,
        networks: networks?,
    })
}

fn read_networks(field: &ConfigField<'_>, key: ListedKey<'_>) -> Option<Vec<Network>> {
    let is_address = |attribute: &Attribute| attribute.kind() == AttributeKind::ClientIp;
    let mut own = key.recipe.parts.iter().flatten();
    if !own.any(|own| is_address(own.attribute())) {
        field.error("`client_ip` is not part of the limit's key, so it cannot tell networks");
        return None;
    }
    if key.hashed.iter().any(is_address) {
        field.error("`client_ip` is in `hash_keys`, so the limit cannot tell networks");
        return None;
    }

    let items = field.list(NETWORKS)?;
    field.at_most(ENTRIES_MAX, items.len(), "networks")?;
    collect_all(items.iter().map(|item| item.value(&NETWORK)))
}

/// Reads one key: a value for an attribute of each part.
fn read_key(field: &ConfigField<'_>, key: ListedKey<'_>) -> Option<StandingKey> {
    let mapping = FieldMap::with_free_keys(field, KEY)?;
    let attributes = mapping
        .entries()
        .map(|(entry, value)| read_attribute(&mapping, entry, &value, key.recipe));
    let attributes = collect_all(attributes)?;

    for part in &key.recipe.parts {
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

    // A hash has one length, whatever the value has.
    let in_clear = attributes.iter();
    let in_clear = in_clear.filter(|(name, _)| !key.hashed.contains(name));
    let encoded = EncodedKey::from_writer(|parts| {
        parts.number(0);
        in_clear.for_each(|(_, text)| parts.text(text));
    });
    encoded.map_err(|error| field.error(error)).ok()?;
    Some(StandingKey(attributes))
}

fn read_attribute(
    mapping: &FieldMap<'_>,
    entry: &YamlEntry,
    value: &ConfigField<'_>,
    recipe: &Recipe,
) -> Option<(Attribute, Box<str>)> {
    let attribute: Option<Attribute> = entry.key.text.parse().ok();
    let mut own = recipe.parts.iter().flatten().map(KeyAttribute::attribute);
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
