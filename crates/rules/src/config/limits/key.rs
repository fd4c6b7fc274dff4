//! `key`: the attributes that a limit counts by; `exempt` and `block`: keys and networks that it
//! always lets pass, or always denies.

use std::net::IpAddr;

use tollgate::EncodedKey;
use tollgate_subject::{Case, Network};

use crate::attribute::{Attribute, AttributeKind};
use crate::config::clients::NETWORK;
use crate::config::field::{ConfigField, FieldMap, collect_all};
use crate::config::names::BLOCK_STATUSES;
use crate::config::values::{ValueError, ValueKind};
use crate::config::yaml::YamlEntry;
use crate::key_attribute::KeyAttribute;
use crate::limit::{Recipe, StandingBlock, StandingKey, StandingList};

pub(super) const RECIPE: &str =
    "expected a list of attributes, such as [client_ip], or [] for one counter for all requests";
const ATTRIBUTE: ValueKind<KeyAttribute> = ValueKind::new(
    "attribute",
    "expected an attribute, such as client_ip, header:x-api-key or lower(email)",
    |text| text.parse().map_err(ValueError::message),
);
const PARTS_MAX: usize = 16;
const ALTERNATIVES_MAX: usize = 16;

/// Reads the key. `case` is for paths, which must not count apart what one condition matches.
pub(super) fn read_key(field: &ConfigField<'_>, case: Case) -> Option<Recipe> {
    // A single attribute without brackets is a common mistake, so the error shows the fix.
    if field.scalar().is_some() && !field.is_null() && !field.is_private() {
        let fix = format_args!("expected a list; write [{}]", field.quoted());
        return field.invalid("value", fix);
    }

    let items = field.items(RECIPE)?;
    field.at_most(PARTS_MAX, items.len(), "key parts")?;
    Some(Recipe {
        parts: collect_all(items.iter().map(|item| read_part(item, case)))?,
    })
}

/// Reads one part of the key: an attribute, or alternatives such as `header:x-api-key | client_ip`.
fn read_part(field: &ConfigField<'_>, case: Case) -> Option<Vec<KeyAttribute>> {
    let text = field.string(ATTRIBUTE.noun, ATTRIBUTE.expected)?;
    if text.split('|').count() > ALTERNATIVES_MAX {
        return field.fail(format_args!(
            "too many alternatives: at most {ALTERNATIVES_MAX} are allowed"
        ));
    }

    let attribute = |name: &str| {
        let attribute = field.parse(name.trim(), &ATTRIBUTE)?;
        Some(match case {
            Case::Sensitive => attribute,
            Case::Insensitive => attribute.with_folded_path(),
        })
    };
    collect_all(text.split('|').map(attribute))
}

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

/// Reads `exempt` or `block`, which needs the limit's key. Its default is empty.
pub(super) fn read_standing(
    limit: &FieldMap<'_>,
    name: &str,
    known: &'static [&'static str],
    key: Option<ListedKey<'_>>,
) -> Option<StandingBlock> {
    let Some(field) = limit.get(name) else {
        return Some(StandingBlock::default());
    };
    let key = key?;
    let mapping = FieldMap::new(&field, known)?;
    let status = mapping.choice_or("status", BLOCK_STATUSES, 429);
    let (keys, networks) = (mapping.get("keys"), mapping.get("networks"));
    if keys.is_none() && networks.is_none() {
        return field.fail(LIST);
    }

    let keys = keys.map_or(Some(Vec::new()), |field| {
        let items = field.items(KEYS)?;
        collect_all(items.iter().map(|item| read_standing_key(item, key)))
    });
    let networks = networks.map_or(Some(Vec::new()), |field| read_networks(&field, key));
    Some(StandingBlock {
        list: StandingList {
            keys: keys?,
            networks: networks?,
        },
        status,
    })
}

fn read_networks(field: &ConfigField<'_>, key: ListedKey<'_>) -> Option<Vec<Network>> {
    let is_address = |attribute: &Attribute| attribute.kind() == AttributeKind::ClientIp;
    if !key.recipe.attributes().any(is_address) {
        return field
            .fail("`client_ip` is not part of the limit's key, so it cannot tell networks");
    }
    if key.hashed.iter().any(is_address) {
        return field.fail("`client_ip` is in `hash_keys`, so the limit cannot tell networks");
    }
    field.values(NETWORKS, &NETWORK)
}

/// Reads one key: a value for an attribute of each part.
fn read_standing_key(field: &ConfigField<'_>, key: ListedKey<'_>) -> Option<StandingKey> {
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
            return field.fail(format_args!(
                "missing attribute `{names}` of the limit's key"
            ));
        }
    }

    // A hash has one length, whatever the value has.
    let is_clear = |(name, _): &&(Attribute, _)| !key.hashed.contains(name);
    let encoded = EncodedKey::from_writer(|parts| {
        parts.number(0);
        let texts = attributes.iter().filter(is_clear);
        texts.for_each(|(_, text)| parts.text(text));
    });
    match encoded {
        Ok(_) => Some(StandingKey(attributes)),
        Err(error) => field.fail(error),
    }
}

fn read_attribute(
    mapping: &FieldMap<'_>,
    entry: &YamlEntry,
    value: &ConfigField<'_>,
    recipe: &Recipe,
) -> Option<(Attribute, Box<str>)> {
    let attribute: Option<Attribute> = entry.key.text.parse().ok();
    let attribute = attribute.filter(|attribute| recipe.attributes().any(|own| own == attribute));
    let Some(attribute) = attribute else {
        let key = match recipe.part_names().as_slice() {
            [] => "empty".to_owned(),
            parts => parts.join(" and "),
        };
        let message = format_args!("not an attribute of the limit's key, which is {key}");
        mapping.error_at_key(entry, message);
        return None;
    };

    let text = value.string("value", "expected the value of the attribute")?;
    if attribute.kind() == AttributeKind::ClientIp && text.parse::<IpAddr>().is_err() {
        return value.invalid(
            "address",
            "expected an IP address, such as 203.0.113.7; put a network into `networks`",
        );
    }
    Some((attribute, text.into()))
}
