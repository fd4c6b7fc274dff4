//! A descriptor as attributes: its entries by name, and the domain beside them.

use std::borrow::Cow;

use tollgate_envoy::{Entry, RateLimitDescriptor, RateLimitRequest};
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};

use super::error::Fault;

/// The most descriptors of a request: as many as it may have checks.
const DESCRIPTORS_MAX: usize = 16;
/// The most entries of a descriptor.
const ENTRIES_MAX: usize = 64;
/// The longest domain, which is part of every override's key.
const DOMAIN_MAX: usize = 256;

/// The name under which limits see the domain.
const DOMAIN: &str = "domain";
/// What Envoy calls the client's address. Operators cannot give it another name.
const REMOTE_ADDRESS: &str = "remote_address";

/// What a descriptor tells of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Described<'d> {
    pub(super) domain: &'d str,
    pub(super) entries: &'d [Entry],
}

impl<'d> Described<'d> {
    pub(super) fn new(domain: &'d str, descriptor: &'d RateLimitDescriptor) -> Self {
        Self {
            domain,
            entries: &descriptor.entries,
        }
    }

    fn find(&self, is_it: impl Fn(&str) -> bool) -> Option<&'d Entry> {
        self.entries.iter().find(|entry| is_it(&entry.key))
    }
}

impl Attributes for Described<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let name = attribute.name();
        if name == DOMAIN {
            // The proxy's own word, whatever an entry of that name says.
            return Some(Value::Text(Cow::Borrowed(self.domain)));
        }
        let entry = match attribute.kind() {
            AttributeKind::Header => self.find(|key| key.eq_ignore_ascii_case(name)),
            AttributeKind::ClientIp => self
                .find(|key| key == name)
                .or_else(|| self.find(|key| key == REMOTE_ADDRESS)),
            _ => self.find(|key| key == name),
        };
        entry.map(|entry| Value::Text(String::from_utf8_lossy(&entry.value)))
    }
}

/// Refuses what no proxy that is set up well sends.
pub(super) fn check(request: &RateLimitRequest) -> Result<(), Fault> {
    let RateLimitRequest {
        domain,
        descriptors,
        ..
    } = request;
    if domain.is_empty() {
        return Err(Fault::wrong(
            "the domain is empty; set `domain` in the rate limit filter",
        ));
    }
    if domain.len() > DOMAIN_MAX {
        return Err(Fault::wrong(format!(
            "the domain has {} bytes; it may have {DOMAIN_MAX}",
            domain.len()
        )));
    }
    if descriptors.is_empty() {
        return Err(Fault::wrong(
            "there is no descriptor; a request is decided about by what its descriptors say",
        ));
    }
    if descriptors.len() > DESCRIPTORS_MAX {
        let found = descriptors.len();
        return Err(Fault::wrong(format!(
            "there are {found} descriptors; there may be {DESCRIPTORS_MAX}"
        )));
    }
    match descriptors
        .iter()
        .map(|descriptor| descriptor.entries.len())
        .max()
    {
        Some(found) if found > ENTRIES_MAX => Err(Fault::wrong(format!(
            "a descriptor has {found} entries; it may have {ENTRIES_MAX}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &'static [u8]) -> Entry {
        Entry {
            key: key.to_owned(),
            value: value.into(),
        }
    }

    fn get(entries: &[Entry], name: &str) -> Option<String> {
        let described = Described {
            domain: "shop",
            entries,
        };
        match described.get(&name.parse().expect("an attribute"))? {
            Value::Text(text) => Some(text.into_owned()),
            Value::Address(_) => None,
        }
    }

    #[test]
    fn entries_are_attributes_by_name() {
        let entries = [
            entry("tenant", b"acme"),
            entry("Header:X-Api-Key", b"k"),
            entry("query:MetricsPage", b"2"),
        ];
        assert_eq!(get(&entries, "tenant").as_deref(), Some("acme"));
        assert_eq!(get(&entries, "header:x-api-key").as_deref(), Some("k"));
        assert_eq!(get(&entries, "query:MetricsPage").as_deref(), Some("2"));
        assert_eq!(get(&entries, "query:page"), None);
        assert_eq!(get(&entries, "client_ip"), None);
    }

    #[test]
    fn the_domain_is_the_proxys_word() {
        assert_eq!(
            get(&[entry("domain", b"another")], "domain").as_deref(),
            Some("shop")
        );
    }

    #[test]
    fn the_clients_address_is_where_envoy_puts_it_unless_an_entry_says_otherwise() {
        let remote = entry("remote_address", b"192.0.2.1");
        let own = entry("client_ip", b"192.0.2.2");
        assert_eq!(
            get(std::slice::from_ref(&remote), "client_ip").as_deref(),
            Some("192.0.2.1")
        );
        assert_eq!(
            get(&[remote, own], "client_ip").as_deref(),
            Some("192.0.2.2")
        );
    }

    #[test]
    fn what_is_no_text_is_still_a_value() {
        assert_eq!(
            get(&[entry("tenant", b"a\xffb")], "tenant").as_deref(),
            Some("a\u{fffd}b")
        );
    }
}
