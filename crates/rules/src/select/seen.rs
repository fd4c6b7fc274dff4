//! The attributes of one request, in one spelling, each worked out at most once.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;

use tollgate::{EncodedKey, KeyPart, KeyParts, Quota};
use tollgate_subject::{normalise, parse_address};

use super::meeting::DisplayPart;
use super::{Attributes, KeyFailure, Selector, Value};
use crate::attribute::{Attribute, AttributeKind};
use crate::rule::{Condition, Cost, LimitConfig, Tiers};

/// The longest piece of a wrong value that an error shows.
const SHOWN_MAX: usize = 40;

pub(super) struct RequestView<'a, A> {
    attributes: &'a A,
    /// The path is looked at by every rule, and costs most to spell.
    path: OnceCell<Option<Cow<'a, str>>>,
}

impl<'a, A: Attributes> RequestView<'a, A> {
    pub(super) const fn new(attributes: &'a A) -> Self {
        Self {
            attributes,
            path: OnceCell::new(),
        }
    }

    /// True when the attribute is there and fits.
    pub(super) fn fits(&self, condition: &Condition) -> bool {
        self.text(&condition.attribute)
            .is_some_and(|value| condition.fits(&value))
    }

    /// The value in one spelling. A value that is empty says nothing.
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

    /// The name of the caller's tier and its numbers, if they are not the limit's own.
    pub(super) fn tier<'t>(&self, tiers: &'t Tiers) -> (&'t str, Option<&'t Quota>) {
        let named = self
            .text(&tiers.by)
            .and_then(|name| tiers.quotas.get_key_value(&*name));
        named.map_or((&tiers.default, None), |(name, quota)| (name, Some(quota)))
    }

    /// The cost: the attribute's, else the request's own word, else the limit's. Wrong ones are
    /// given back to be shown.
    pub(super) fn cost(&self, cost: &Cost, stated: Option<u64>) -> Result<u64, String> {
        let Some(found) = cost.by.as_ref().and_then(|by| self.text(by)) else {
            return Ok(stated.unwrap_or(cost.default));
        };
        // The standard library would also take a sign.
        let is_whole = found.bytes().all(|byte| byte.is_ascii_digit());
        let number = found.parse().ok().filter(|_| is_whole);
        number.ok_or_else(|| found.chars().take(SHOWN_MAX).collect())
    }
}

impl Selector {
    /// The key of a rule for a request.
    pub(super) fn key(
        &self,
        rule: &LimitConfig,
        seen: &RequestView<'_, impl Attributes>,
    ) -> Result<EncodedKey, KeyFailure> {
        let mut unkeyed = None;
        let encoded = EncodedKey::from_writer(|parts| {
            for alternatives in &rule.key.parts {
                match self.first_of(alternatives, seen) {
                    Ok((attribute, part)) => {
                        // Two attributes may have the same value for different callers.
                        if alternatives.len() > 1 {
                            parts.text(attribute.name());
                        }
                        self.write(attribute, &part, parts);
                    }
                    Err(why) => {
                        unkeyed.get_or_insert(why);
                    }
                }
            }
        });
        unkeyed.map_or(encoded.map_err(KeyFailure::Unusable), Err)
    }

    /// The parts of a key for people: a hashed one stays hashed.
    pub(super) fn shown<'r>(
        &self,
        rule: &'r LimitConfig,
        seen: &RequestView<'_, impl Attributes>,
    ) -> Vec<DisplayPart<'r>> {
        let found = rule
            .key
            .parts
            .iter()
            .filter_map(|alternatives| self.first_of(alternatives, seen).ok());
        let shown = found.map(|(attribute, part)| {
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
        shown.collect()
    }

    /// The parts of a key that was made by a rule, for people. Nothing when the rule, as it is now,
    /// makes no such keys, or when it now hashes what the key has in the clear.
    pub fn shown_key<'r>(&'r self, index: usize, key: &EncodedKey) -> Option<Vec<DisplayPart<'r>>> {
        let (_, rule) = self.rules.get(index)?;
        let mut parts = key.parts();
        let shown = rule.key.parts.iter().map(|alternatives| {
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
            let is_right = is_hashed == self.hasher(attribute).is_some();
            is_right.then_some(DisplayPart {
                attribute,
                value,
                is_hashed,
            })
        });
        let shown = shown.collect::<Option<_>>()?;
        parts.next().is_none().then_some(shown)
    }

    fn first_of<'s, 'r>(
        &self,
        alternatives: &'r [Attribute],
        seen: &'s RequestView<'_, impl Attributes>,
    ) -> Result<(&'r Attribute, Part<'s>), KeyFailure> {
        for attribute in alternatives {
            if let Some(part) = self.part(attribute, seen)? {
                return Ok((attribute, part));
            }
        }
        let names: Vec<&str> = alternatives.iter().map(Attribute::name).collect();
        Err(KeyFailure::Missing(names.join(" | ")))
    }

    fn part<'s>(
        &self,
        attribute: &Attribute,
        seen: &'s RequestView<'_, impl Attributes>,
    ) -> Result<Option<Part<'s>>, KeyFailure> {
        if attribute.kind() != AttributeKind::ClientIp {
            return Ok(seen.text(attribute).map(Part::Text));
        }
        let address = match seen.attributes.get(attribute) {
            None => return Ok(None),
            Some(Value::Address(address)) => address,
            Some(Value::Text(text)) if text.is_empty() => return Ok(None),
            Some(Value::Text(text)) => parse_address(&text).map_err(KeyFailure::Address)?,
        };
        Ok(Some(Part::Address(self.clients.group(address))))
    }

    fn write(&self, attribute: &Attribute, part: &Part<'_>, parts: &mut KeyParts) {
        match (self.hasher(attribute), part) {
            (Some(hasher), part) => parts.hashed(hasher.hash(part.to_text().as_bytes())),
            (None, Part::Text(text)) => parts.text(text),
            (None, Part::Address(address)) => parts.address(*address),
        }
    }

    fn hasher(&self, attribute: &Attribute) -> Option<&tollgate::KeyHasher> {
        let hashing = self.hashing.as_ref()?;
        hashing
            .attributes
            .contains(attribute)
            .then_some(&hashing.hasher)
    }
}

/// A part of a key.
enum Part<'p> {
    Text(Cow<'p, str>),
    Address(IpAddr),
}

impl Part<'_> {
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

/// A host without its port and without the dot that may close it.
fn without_port(host: Cow<'_, str>) -> Cow<'_, str> {
    let cut = |host: &str| {
        let end = match host.rsplit_once(':') {
            // The colons of an IPv6 address are inside brackets.
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
