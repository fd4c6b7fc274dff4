//! `client_ip`, `hash_keys` and `hash_secret`: how callers are identified, and which of their
//! attributes are hashed.

use tollgate::KeyHasher;
use tollgate_subject::{ClientResolver, Network};

use super::field::{ConfigField, collect_all};
use super::field_map::FieldMap;
use super::names::{CLIENT_IP, FORWARDED_BY};
use super::values::{ValueError, ValueKind};
use super::yaml::YamlValue;
use crate::attribute::Attribute;
use crate::limit::LimitConfig;

pub(super) const NETWORK: ValueKind<Network> = ValueKind::new(
    "network",
    "expected a network, such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1",
    |text| text.parse().map_err(ValueError::message),
);
const SECRET: ValueKind<KeyHasher> = ValueKind::new(
    "secret",
    "expected at least 16 bytes, for example from `openssl rand -hex 32`",
    |text| KeyHasher::new(text.as_bytes()).map_err(|_| ValueError::Unexpected),
);
pub(super) const ATTRIBUTE: ValueKind<Attribute> = ValueKind::new(
    "attribute",
    "expected an attribute, such as client_ip, header:x-api-key or a custom name",
    |text| text.parse().map_err(ValueError::message),
);

/// Attributes that are stored and displayed only as keyed hashes, and the secret of the hashes.
#[derive(Clone, Debug)]
pub struct HashConfig {
    /// The attributes to hash. Empty if there is only a secret.
    pub attributes: Vec<Attribute>,
    /// The hasher with the configured secret.
    pub hasher: KeyHasher,
}

/// Reads the section `client_ip`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<ClientResolver> {
    let mapping = FieldMap::new(field, CLIENT_IP)?;
    let trusted = mapping.read("trusted_proxies", |field| {
        let items =
            field.list("expected a list of networks, such as [\"127.0.0.0/8\", \"10.0.0.0/8\"]")?;
        collect_all(items.iter().map(|item| item.value(&NETWORK)))
    });
    let prefix = mapping.read("ipv6_prefix", |field| field.integer_in(1..=128));
    let header = mapping.read("header", |field| field.choice(FORWARDED_BY));

    ClientResolver::new(
        trusted.unwrap_or_default(),
        prefix.unwrap_or(64),
        header.unwrap_or_default(),
    )
    .map_err(|error| field.error(error))
    .ok()
}

/// Reads `hash_keys` and `hash_secret`. The first requires the second, which also protects permit
/// tokens.
pub(super) fn read_hashing(root: &FieldMap<'_>, limits: &[LimitConfig]) -> Option<HashConfig> {
    let (keys, secret) = (root.get("hash_keys"), root.get("hash_secret"));
    if keys.is_some() && secret.is_none() {
        root.missing(
            "hash_secret",
            "`hash_keys` requires it, for example `hash_secret: ${TOLLGATE_HASH_SECRET}`",
        );
    }

    let hasher = secret.and_then(|field| field.into_secret().value(&SECRET));
    let attributes = keys.map_or(Some(Vec::new()), |field| read_attributes(&field, limits));
    Some(HashConfig {
        attributes: attributes?,
        hasher: hasher?,
    })
}

/// The attributes that the file hashes. What is wrong with the list is reported where it is read.
pub(super) fn hashed_attributes(root: &FieldMap<'_>) -> Vec<Attribute> {
    let field = root.get("hash_keys");
    let items = match field.as_ref().map(|field| &field.node.value) {
        Some(YamlValue::List(items)) => items.as_slice(),
        _ => &[],
    };

    let parsed = items.iter().filter_map(|item| match &item.value {
        YamlValue::Scalar(scalar) => scalar.value.parse().ok(),
        _ => None,
    });
    parsed.collect()
}

fn read_attributes(field: &ConfigField<'_>, limits: &[LimitConfig]) -> Option<Vec<Attribute>> {
    let items = field.list("expected a list of attributes, such as [\"header:x-api-key\"]")?;
    if items.is_empty() {
        field.error("the list is empty; add an attribute, or remove `hash_keys` and `hash_secret`");
    }

    let keys = limits
        .iter()
        .flat_map(|limit| limit.key.parts.iter().flatten());
    collect_all(items.iter().map(|item| {
        let attribute = item.value(&ATTRIBUTE)?;
        if !keys.clone().any(|key| *key.attribute() == attribute) {
            item.warn("no limit's key uses this attribute, so hashing it has no effect");
        }
        Some(attribute)
    }))
}
