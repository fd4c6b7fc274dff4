//! `client_ip`, `hash_keys` and `hash_secret`: how callers are identified, and which of their
//! attributes are hashed.

use tollgate::KeyHasher;
use tollgate_subject::{ClientResolver, ForwardedBy, Network};

use super::field::{ConfigField, FieldMap};
use super::names::{CLIENT_IP, FORWARDED_BY};
use super::values::{ValueError, ValueKind};
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
    let expected = "expected a list of networks, such as [\"127.0.0.0/8\", \"10.0.0.0/8\"]";
    let trusted = mapping.read("trusted_proxies", |field| field.values(expected, &NETWORK));
    let prefix = mapping.integer_or("ipv6_prefix", 1..=128, 64);
    let header = mapping.choice_or("header", FORWARDED_BY, ForwardedBy::default());

    ClientResolver::new(trusted.unwrap_or_default(), prefix, header)
        .map_err(|error| field.error(error))
        .ok()
}

/// Reads `hash_keys`, the attributes that the file hashes.
pub(super) fn read_hash_keys(field: &ConfigField<'_>) -> Option<Vec<Attribute>> {
    let expected = "expected a list of attributes, such as [\"header:x-api-key\"]";
    let attributes = field.values(expected, &ATTRIBUTE)?;
    if attributes.is_empty() {
        field.error("the list is empty; add an attribute, or remove `hash_keys` and `hash_secret`");
    }
    Some(attributes)
}

/// Reads `hash_secret`, which the attributes require, and which also protects permit tokens.
pub(super) fn read_hashing(
    root: &FieldMap<'_>,
    attributes: Option<Vec<Attribute>>,
    limits: &[LimitConfig],
) -> Option<HashConfig> {
    let keys = root.get("hash_keys");
    if keys.is_some() && root.get("hash_secret").is_none() {
        root.missing(
            "hash_secret",
            "`hash_keys` requires it, for example `hash_secret: ${TOLLGATE_HASH_SECRET}`",
        );
    }

    let hasher = root.get("hash_secret")?.into_secret().value(&SECRET);
    let attributes = attributes.unwrap_or_default();
    let items = keys.and_then(|field| field.items("")).unwrap_or_default();
    for (attribute, item) in attributes.iter().zip(items) {
        let mut keys = limits.iter().flat_map(|limit| limit.key.attributes());
        if !keys.any(|key| key == attribute) {
            item.warn("no limit's key uses this attribute, so hashing it has no effect");
        }
    }
    Some(HashConfig {
        attributes,
        hasher: hasher?,
    })
}
