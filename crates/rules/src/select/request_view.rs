//! A view of one request's attributes that normalises them, and builds keys from them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;

use tollgate::{EncodedKey, KeyPart, KeyParts, Quota};
use tollgate_subject::{normalise, parse_address};

use super::explanation::DisplayPart;
use super::{Attributes, KeyBuildError, Selector, Value};
use crate::attribute::{Attribute, AttributeKind};
use crate::limit::{Condition, Cost, LimitConfig, Tiers};

/// The most characters of an invalid value that an error shows.
const FOUND_MAX: usize = 40;

/// The attributes of one request, normalised.
pub(super) struct RequestView<'a, A> {
    attributes: &'a A,
    /// The normalised path. Cached, because most limits match on it and normalising is expensive.
    path: OnceCell<Option<Cow<'a, str>>>,
}

impl<'a, A: Attributes> RequestView<'a, A> {
    pub(super) const fn new(attributes: &'a A) -> Self {
        Self {
            attributes,
            path: OnceCell::new(),
        }
    }

    /// Whether the request has the attribute and its value matches.
    pub(super) fn satisfies(&self, condition: &Condition) -> bool {
        self.text(&condition.attribute)
            .is_some_and(|value| condition.matches(&value))
    }

    /// The normalised value. `None` if the attribute is missing or empty.
    pub(super) fn text(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        if attribute.kind() == AttributeKind::Path {
            let path = self
                .path
                .get_or_init(|| match self.attributes.get(attribute)? {
                    Value::Text(path) if path.is_empty() => None,
                    Value::Text(Cow::Borrowed(path)) => Some(normalise(path)),
                    Value::Text(Cow::Owned(path)) => {
                        Some(Cow::Owned(normalise(&path).into_owned()))
                    }
                    Value::Address(address) => Some(address.to_string().into()),
                });
            return path.as_deref().map(Cow::Borrowed);
        }

        let text = match self.attributes.get(attribute)? {
            Value::Address(address) => return Some(address.to_canonical().to_string().into()),
            Value::Text(text) => text,
        };
        let text = match attribute.kind() {
            AttributeKind::Method => upper(text),
            AttributeKind::Host => lower(without_port(text)),
            _ => text,
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// The name of the caller's tier and its quota. The quota is `None` if the default tier, whose
    /// quota is the limit's own, applies.
    pub(super) fn tier<'t>(&self, tiers: &'t Tiers) -> (&'t str, Option<&'t Quota>) {
        let tier = self
            .text(&tiers.by)
            .and_then(|name| tiers.quotas.get_key_value(&*name));
        tier.map_or((&tiers.default, None), |(name, quota)| (name, Some(quota)))
    }

    /// The cost: from the attribute, else as stated by the request, else the default. The error is
    /// the start of the invalid value.
    pub(super) fn cost(&self, cost: &Cost, stated: Option<u64>) -> Result<u64, String> {
        let Some(found) = cost.attribute.as_ref().and_then(|name| self.text(name)) else {
            return Ok(stated.unwrap_or(cost.default));
        };
        // `parse` alone would also accept a leading `+`.
        let is_whole = found.bytes().all(|byte| byte.is_ascii_digit());
        let number = found.parse().ok().filter(|_| is_whole);
        number.ok_or_else(|| found.chars().take(FOUND_MAX).collect())
    }
}

impl Selector {
    /// Builds the key of a limit for a request.
    pub(super) fn key(
        &self,
        limit: &LimitConfig,
        request: &RequestView<'_, impl Attributes>,
    ) -> Result<EncodedKey, KeyBuildError> {
        let mut failure = None;

        let encoded = EncodedKey::from_writer(|parts| {
            for alternatives in &limit.key.parts {
                match self.first_of(alternatives, request) {
                    Ok((attribute, part)) => {
                        // Alternatives may have equal values for different callers, so the key
                        // includes the name of the attribute.
                        if alternatives.len() > 1 {
                            parts.text(attribute.name());
                        }
                        self.write(attribute, &part, parts);
                    }
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
        });

        failure.map_or(encoded.map_err(KeyBuildError::Invalid), Err)
    }

    /// The parts of a key in readable form. Hashed attributes show their hash.
    pub(super) fn display_parts<'r>(
        &self,
        limit: &'r LimitConfig,
        request: &RequestView<'_, impl Attributes>,
    ) -> Vec<DisplayPart<'r>> {
        let found = limit
            .key
            .parts
            .iter()
            .filter_map(|alternatives| self.first_of(alternatives, request).ok());

        let parts = found.map(|(attribute, part)| {
            let is_hashed = self.hasher(attribute).is_some();
            let value = match self.hasher(attribute) {
                Some(hasher) => hasher.hash(part.to_text().as_bytes()).to_string(),
                None => part.to_text().into_owned(),
            };
            DisplayPart {
                attribute,
                value,
                is_hashed,
            }
        });
        parts.collect()
    }

    /// The parts of a stored key of the limit with this index, in readable form.
    ///
    /// `None` if the limit's current configuration cannot have built the key, or if it now hashes
    /// an attribute that the key holds in plain text.
    pub fn display_key<'r>(
        &'r self,
        index: usize,
        key: &EncodedKey,
    ) -> Option<Vec<DisplayPart<'r>>> {
        let limit = self.limits.get(index)?;
        let mut parts = key.parts();

        let shown = limit.key.parts.iter().map(|alternatives| {
            let attribute = match &alternatives[..] {
                [only] => only,
                several => {
                    let KeyPart::Text(name) = parts.next()? else {
                        return None;
                    };
                    several.iter().find(|attribute| attribute.name() == name)?
                }
            };

            let (value, is_hashed) = match parts.next()? {
                KeyPart::Text(text) => (text.to_owned(), false),
                KeyPart::Address(address) => (address.to_string(), false),
                KeyPart::Hash(hashed) => (hashed.to_string(), true),
                KeyPart::Bytes(_) | KeyPart::Number(_) => return None,
            };

            let is_consistent = is_hashed == self.hasher(attribute).is_some();
            is_consistent.then_some(DisplayPart {
                attribute,
                value,
                is_hashed,
            })
        });

        let shown = shown.collect::<Option<_>>()?;
        parts.next().is_none().then_some(shown)
    }

    /// The value of the first alternative that the request has.
    fn first_of<'s, 'r>(
        &self,
        alternatives: &'r [Attribute],
        request: &'s RequestView<'_, impl Attributes>,
    ) -> Result<(&'r Attribute, KeyPartValue<'s>), KeyBuildError> {
        for attribute in alternatives {
            if let Some(part) = self.part(attribute, request)? {
                return Ok((attribute, part));
            }
        }

        let names: Vec<&str> = alternatives.iter().map(Attribute::name).collect();
        Err(KeyBuildError::Missing(names.join(" | ")))
    }

    fn part<'s>(
        &self,
        attribute: &Attribute,
        request: &'s RequestView<'_, impl Attributes>,
    ) -> Result<Option<KeyPartValue<'s>>, KeyBuildError> {
        if attribute.kind() != AttributeKind::ClientIp {
            return Ok(request.text(attribute).map(KeyPartValue::Text));
        }

        let address = match request.attributes.get(attribute) {
            None => return Ok(None),
            Some(Value::Address(address)) => address,
            Some(Value::Text(text)) if text.is_empty() => return Ok(None),
            Some(Value::Text(text)) => parse_address(&text).map_err(KeyBuildError::Address)?,
        };
        Ok(Some(KeyPartValue::Address(self.clients.group(address))))
    }

    /// Appends a part to a key, hashed if the configuration requires it.
    fn write(&self, attribute: &Attribute, part: &KeyPartValue<'_>, parts: &mut KeyParts) {
        match (self.hasher(attribute), part) {
            (Some(hasher), part) => parts.hashed(hasher.hash(part.to_text().as_bytes())),
            (None, KeyPartValue::Text(text)) => parts.text(text),
            (None, KeyPartValue::Address(address)) => parts.address(*address),
        }
    }

    /// The hasher for an attribute. `None` if the attribute is not hashed.
    fn hasher(&self, attribute: &Attribute) -> Option<&tollgate::KeyHasher> {
        let hashing = self.hashing.as_ref()?;
        hashing
            .attributes
            .contains(attribute)
            .then_some(&hashing.hasher)
    }
}

/// The value of one part of a key. IPv6 addresses are grouped already.
enum KeyPartValue<'p> {
    Text(Cow<'p, str>),
    Address(IpAddr),
}

impl KeyPartValue<'_> {
    fn to_text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Address(address) => address.to_string().into(),
        }
    }
}

fn upper(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        text.to_ascii_uppercase().into()
    } else {
        text
    }
}

fn lower(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text
    }
}

/// Removes the port and a trailing dot from a host.
fn without_port(host: Cow<'_, str>) -> Cow<'_, str> {
    let cut = |host: &str| {
        let end = match host.rsplit_once(':') {
            // A bare IPv6 address such as `::1` has no port; with a port it is in brackets.
            Some((name, port))
                if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') =>
            {
                name.len()
            }
            _ => host.len(),
        };
        host[..end].trim_end_matches('.').len()
    };

    match host {
        Cow::Borrowed(host) => Cow::Borrowed(&host[..cut(host)]),
        Cow::Owned(mut host) => {
            host.truncate(cut(&host));
            Cow::Owned(host)
        }
    }
}
