//! `client_ip`, `hash_keys` and `hash_secret`: how callers are identified, and which of their
//! attributes are hashed.

use tollgate::KeyHasher;
use tollgate_subject::{ClientResolver, Network};

use super::HashConfig;
use super::field::{ConfigField, Expectation, collect_all};
use super::field_map::FieldMap;
use super::names::{CLIENT_IP, FORWARDED_BY};
use crate::attribute::Attribute;
use crate::limit::LimitConfig;

const PROXIES: Expectation<'static> =
    Expectation::value("expected a list of networks, such as [\"127.0.0.0/8\", \"10.0.0.0/8\"]");
const NETWORK: Expectation<'static> = Expectation::new(
    "network",
    "expected a network, such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1",
);
const HASH_KEYS: Expectation<'static> =
    Expectation::value("expected a list of attributes, such as [\"header:x-api-key\"]");
const SECRET: Expectation<'static> = Expectation::new(
    "secret",
    "expected at least 16 bytes, for example from `openssl rand -hex 32`",
);
pub(super) const ATTRIBUTE: Expectation<'static> = Expectation::new(
    "attribute",
    "expected an attribute, such as client_ip, header:x-api-key or a custom name",
);

/// Reads the section `client_ip`.
pub(super) fn read(field: &ConfigField<'_>) -> Option<ClientResolver> {
    let mapping = field.mapping(CLIENT_IP)?;
    let trusted = mapping
        .read("trusted_proxies", read_networks)
        .unwrap_or_default();
    let prefix = mapping
        .read("ipv6_prefix", |field| field.integer_in(1..=128))
        .and_then(|bits| u8::try_from(bits).ok());
    let header = mapping
        .read("header", |field| field.choice(FORWARDED_BY))
        .unwrap_or_default();

    ClientResolver::new(trusted, prefix.unwrap_or(64), header)
        .map_err(|error| field.error(error))
        .ok()
}

fn read_networks(field: &ConfigField<'_>) -> Option<Vec<Network>> {
    collect_all(field.list(PROXIES)?.iter().map(|item| item.parse(NETWORK)))
}

/// Reads `hash_keys` and `hash_secret`. Each requires the other.
pub(super) fn read_hashing(root: &FieldMap<'_>, limits: &[LimitConfig]) -> Option<HashConfig> {
    let (keys, secret) = (
        root.get("hash_keys"),
        root.get("hash_secret").map(ConfigField::into_secret),
    );
    match (&keys, &secret) {
        (Some(_), None) => root.missing(
            "hash_secret",
            "`hash_keys` requires it, for example `hash_secret: ${TOLLGATE_HASH_SECRET}`",
        ),
        (None, Some(_)) => root.missing(
            "hash_keys",
            "`hash_secret` requires it, for example `hash_keys: [\"header:x-api-key\"]`",
        ),
        _ => {}
    }

    let attributes = keys.and_then(|field| read_attributes(&field, limits));
    let hasher = secret.and_then(|field| read_hasher(&field));
    Some(HashConfig {
        attributes: attributes?,
        hasher: hasher?,
    })
}

fn read_attributes(field: &ConfigField<'_>, limits: &[LimitConfig]) -> Option<Vec<Attribute>> {
    let items = field.list(HASH_KEYS)?;
    if items.is_empty() {
        field.error("the list is empty; add an attribute, or remove `hash_keys` and `hash_secret`");
    }
    collect_all(items.iter().map(|item| read_attribute(item, limits)))
}

fn read_attribute(item: &ConfigField<'_>, limits: &[LimitConfig]) -> Option<Attribute> {
    let attribute = item.parse(ATTRIBUTE)?;
    let is_used = limits.iter().any(|limit| {
        let mut attributes = limit.key.parts.iter().flatten();
        attributes.any(|part| *part == attribute)
    });
    if !is_used {
        item.note("no limit's key uses this attribute, so hashing it has no effect");
    }
    Some(attribute)
}

fn read_hasher(field: &ConfigField<'_>) -> Option<KeyHasher> {
    let secret = field.string(SECRET)?;
    KeyHasher::new(secret.as_bytes())
        .map_err(|_| field.unexpected(SECRET))
        .ok()
}
