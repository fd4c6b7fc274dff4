//! A descriptor's attributes: its entries by name, and the domain of the request.

use std::borrow::Cow;

use tollgate_envoy::{Entry, RateLimitDescriptor, RateLimitRequest};
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};
use tollgate_subject::joined_lines;

use super::error::GrpcError;

/// The most descriptors of a request.
const DESCRIPTORS_MAX: usize = 256;
/// The most entries of a descriptor.
const ENTRIES_MAX: usize = 64;
/// The longest domain in bytes; it is part of every override's key.
const DOMAIN_MAX: usize = 256;

/// The name of the attribute that holds the domain.
const DOMAIN: &str = "domain";
/// Envoy's name for the client's address, which operators cannot change.
const REMOTE_ADDRESS: &str = "remote_address";

/// The attributes of a request, as one descriptor gives them.
#[derive(Clone, Copy, Debug)]
pub(super) struct DescriptorAttributes<'d> {
    pub(super) domain: &'d str,
    pub(super) entries: &'d [Entry],
}

impl<'d> DescriptorAttributes<'d> {
    pub(super) fn new(domain: &'d str, descriptor: &'d RateLimitDescriptor) -> Self {
        Self {
            domain,
            entries: &descriptor.entries,
        }
    }

    fn find(&self, is_wanted: impl Fn(&str) -> bool) -> Option<&'d Entry> {
        self.entries.iter().find(|entry| is_wanted(&entry.key))
    }
}

impl Attributes for DescriptorAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let name = attribute.name();
        if name == DOMAIN {
            // Set by the proxy; an entry of that name could hold a client's value.
            return Some(Value::Text(Cow::Borrowed(self.domain)));
        }

        let entry = match attribute.kind() {
            AttributeKind::Header => self.find(|key| key.eq_ignore_ascii_case(name)),
            AttributeKind::ClientIp => self
                .find(|key| key == name)
                .or_else(|| self.find(|key| key == REMOTE_ADDRESS)),
            _ => self.find(|key| key == name),
        };
        let text = String::from_utf8_lossy(&entry?.value);
        Some(match attribute.kind() {
            // Envoy joins the lines of a header.
            AttributeKind::Header => Value::Texts(joined_lines(attribute.field(), text)),
            _ => Value::Text(text),
        })
    }
}

/// Rejects requests that only a misconfigured proxy sends.
pub(super) fn validate(request: &RateLimitRequest) -> Result<(), GrpcError> {
    let RateLimitRequest {
        domain,
        descriptors,
        ..
    } = request;

    if domain.is_empty() {
        return Err(GrpcError::invalid(
            "the domain is empty; set `domain` in the rate limit filter",
        ));
    }
    if domain.len() > DOMAIN_MAX {
        return Err(GrpcError::invalid(format!(
            "the domain has {} bytes; it may have at most {DOMAIN_MAX}",
            domain.len()
        )));
    }

    if descriptors.is_empty() {
        return Err(GrpcError::invalid(
            "the request has no descriptors; configure at least one action on the route",
        ));
    }
    if descriptors.len() > DESCRIPTORS_MAX {
        let found = descriptors.len();
        // A client may influence which descriptors the proxy sends.
        let reason = format_args!(
            "the request has {found} descriptors; it may have at most {DESCRIPTORS_MAX}"
        );
        return Err(GrpcError::denied("too-many-limits", reason));
    }

    match descriptors
        .iter()
        .map(|descriptor| descriptor.entries.len())
        .max()
    {
        Some(found) if found > ENTRIES_MAX => Err(GrpcError::invalid(format!(
            "a descriptor has {found} entries; it may have at most {ENTRIES_MAX}"
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
        let attributes = DescriptorAttributes {
            domain: "shop",
            entries,
        };
        match attributes.get(&name.parse().expect("an attribute"))? {
            Value::Text(text) => Some(text.into_owned()),
            Value::Texts(texts) => Some(texts.as_slice().join(" | ")),
            Value::Address(_) => None,
        }
    }

    #[test]
    fn entries_are_attributes_by_name() {
        let entries = [
            entry("tenant", b"acme"),
            entry("Header:X-Api-Key", b"k"),
            entry("header:x-tenant", b"a,b,c"),
            entry("query:MetricsPage", b"2"),
        ];
        assert_eq!(get(&entries, "tenant").as_deref(), Some("acme"));
        assert_eq!(get(&entries, "header:x-api-key").as_deref(), Some("k"));
        assert_eq!(get(&entries, "header:x-tenant").as_deref(), Some("a | c"));
        assert_eq!(get(&entries, "query:MetricsPage").as_deref(), Some("2"));
        assert_eq!(get(&entries, "query:page"), None);
        assert_eq!(get(&entries, "client_ip"), None);
    }

    #[test]
    fn an_entry_cannot_replace_the_domain() {
        assert_eq!(
            get(&[entry("domain", b"another")], "domain").as_deref(),
            Some("shop")
        );
    }

    #[test]
    fn an_entry_client_ip_takes_precedence_over_envoys_own() {
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
    fn a_value_that_is_not_text_is_still_a_value() {
        assert_eq!(
            get(&[entry("tenant", b"a\xffb")], "tenant").as_deref(),
            Some("a\u{fffd}b")
        );
    }
}
