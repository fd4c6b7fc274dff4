//! `client_ip`, `hash_keys` and `hash_secret`: how callers are told apart, and under which names
//! they are kept.

use tollgate::KeyHasher;
use tollgate_subject::{ClientResolver, Network};

use super::HashConfig;
use super::field::{Field, every};
use super::table::Table;
use super::words::{CLIENT_IP, FORWARDED_BY};
use crate::attribute::Attribute;
use crate::rule::LimitConfig;

const PROXIES: &str = "write a list of networks, such as [\"127.0.0.0/8\", \"10.0.0.0/8\"]";
const NETWORK: &str = "write a network, such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1";
const HASH_KEYS: &str = "write a list of attributes, such as [\"header:x-api-key\"]";
const SECRET: &str = "write a secret of at least 16 bytes, such as ${TOLLGATE_HASH_SECRET}";
pub(super) const ATTRIBUTE: &str =
    "write an attribute, such as client_ip, header:x-api-key or a name of your own";

/// What `client_ip` says.
pub(super) fn clients(field: &Field<'_>) -> Option<ClientResolver> {
    let table = field.table(CLIENT_IP)?;
    let trusted = table.read("trusted_proxies", networks).unwrap_or_default();
    let prefix = table
        .read("ipv6_prefix", |field| field.whole_in(1..=128))
        .and_then(|bits| u8::try_from(bits).ok());
    let header = table
        .read("header", |field| field.choice(FORWARDED_BY))
        .unwrap_or_default();
    ClientResolver::new(trusted, prefix.unwrap_or(64), header)
        .map_err(|error| field.fault(error))
        .ok()
}

fn networks(field: &Field<'_>) -> Option<Vec<Network>> {
    every(field.list(PROXIES)?.iter().map(|item| item.parsed(NETWORK)))
}

/// What `hash_keys` and `hash_secret` say, which is nothing or both. An attribute that no key has
/// is worth a note.
pub(super) fn hashing(root: &Table<'_>, limits: &[LimitConfig]) -> Option<HashConfig> {
    let (keys, secret) = (
        root.get("hash_keys"),
        root.get("hash_secret").map(Field::secret),
    );
    match (&keys, &secret) {
        (Some(_), None) => {
            root.missing("hash_secret", format_args!("hash_keys need one; {SECRET}"))
        }
        (None, Some(_)) => root.missing(
            "hash_keys",
            format_args!("there is a hash_secret; {HASH_KEYS}"),
        ),
        _ => {}
    }
    let attributes = keys.and_then(|field| attributes(&field, limits));
    let hasher = secret.and_then(|field| hasher(&field));
    Some(HashConfig {
        attributes: attributes?,
        hasher: hasher?,
    })
}

fn attributes(field: &Field<'_>, limits: &[LimitConfig]) -> Option<Vec<Attribute>> {
    let items = field.list(HASH_KEYS)?;
    if items.is_empty() {
        field.wrong("name at least one attribute, or leave hash_keys and hash_secret out");
    }
    every(items.iter().map(|item| attribute(item, limits)))
}

fn attribute(item: &Field<'_>, limits: &[LimitConfig]) -> Option<Attribute> {
    let attribute = item.parsed(ATTRIBUTE)?;
    if !limits.iter().any(|rule| {
        rule.key
            .parts
            .iter()
            .flatten()
            .any(|part| *part == attribute)
    }) {
        item.note("no limit's key has this attribute, so nothing is hashed for it");
    }
    Some(attribute)
}

fn hasher(field: &Field<'_>) -> Option<KeyHasher> {
    let secret = field.text(SECRET)?;
    // The message tells the length of the secret and nothing else of it.
    KeyHasher::new(secret.as_bytes())
        .map_err(|error| field.fault(error))
        .ok()
}
