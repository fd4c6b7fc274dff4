//! A view of one request's attributes that normalises them, and builds keys from them.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::{EncodedKey, KeyPart, KeyParts, Quota};
use tollgate_subject::{FieldValues, PathReadings, header_lines, header_values, parse_address};

use super::explanation::DisplayPart;
use super::{Attributes, KeyBuildError, Selector, Value};
use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::KeyAttribute;
use crate::limit::{Condition, Cost, LimitConfig, Tiers};

/// The most characters of an invalid value that an error shows.
const FOUND_MAX: usize = 40;
/// The most keys under which one limit counts a request whose attributes have several values.
const KEYS_MAX: usize = 16;

/// The attributes of one request, normalised.
pub(super) struct RequestView<'a, A> {
    pub(super) attributes: &'a A,
    /// The readings of the path. Cached, because most limits match on it and reading is expensive.
    pub(super) path: OnceCell<Option<PathReadings<'a>>>,
    /// The attributes with more values than are read, each once. Mostly empty.
    pub(super) crowded: RefCell<Vec<Attribute>>,
}

impl<'a, A: Attributes> RequestView<'a, A> {
    pub(super) const fn new(attributes: &'a A) -> Self {
        Self {
            attributes,
            path: OnceCell::new(),
            crowded: RefCell::new(Vec::new()),
        }
    }

    /// Whether the request has the attribute and one of its values, or readings, matches.
    pub(super) fn satisfies(&self, condition: &Condition) -> bool {
        if condition.attribute.kind() == AttributeKind::Path {
            let path = self.path(&condition.attribute);
            return path.is_some_and(|path| !path.is_readable() || condition.any_reading(path));
        }
        let values = self.texts(&condition.attribute);
        let mut values = values.as_slice().iter();
        values.any(|value| condition.matches(value))
    }

    /// The normalised values, none of them empty. There are several if a request repeats a header,
    /// a cookie or a query parameter with other values, or if its path has several readings,
    /// because backends differ in which one they use.
    pub(super) fn texts(&self, attribute: &Attribute) -> FieldValues<'_> {
        if attribute.kind() == AttributeKind::Path {
            return self.path_texts(attribute);
        }

        if !attribute.is_field() {
            let text = self.text(attribute);
            // Servers handle HEAD like GET.
            let is_head =
                attribute.kind() == AttributeKind::Method && text.as_deref() == Some("HEAD");
            let get = is_head.then_some(Cow::Borrowed("GET"));
            return text.into_iter().chain(get).collect();
        }

        let values = match self.attributes.get(attribute) {
            None => return FieldValues::default(),
            Some(Value::Texts(values)) => values,
            Some(value) => std::iter::once(value.into_text()).collect(),
        };
        self.note_crowd(attribute, &values);
        match attribute.kind() {
            AttributeKind::Header => header_lines(attribute.field(), values),
            _ => values,
        }
    }

    /// The normalised values as parts of a key: credentials are read without their scheme.
    fn key_texts(&self, attribute: &Attribute) -> FieldValues<'_> {
        let values = self.texts(attribute);
        if attribute.kind() != AttributeKind::Header {
            return values;
        }

        self.note_crowd(attribute, &values);
        let values = header_values(attribute.field(), values);
        self.note_crowd(attribute, &values);
        values
    }

    /// Notes that an attribute has more values than are read.
    fn note_crowd(&self, attribute: &Attribute, values: &FieldValues<'_>) {
        if values.has_more() {
            self.add_crowded(attribute);
        }
    }

    #[cold]
    pub(super) fn add_crowded(&self, attribute: &Attribute) {
        let mut crowded = self.crowded.borrow_mut();
        if !crowded.contains(attribute) {
            crowded.push(attribute.clone());
        }
    }

    /// The normalised value of an attribute that has only one. `None` if it is missing or empty.
    fn text(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let text = self.attributes.get(attribute)?.into_text();
        let text = match attribute.kind() {
            AttributeKind::Method => upper(text),
            AttributeKind::Host => lower(without_port(text)),
            _ => text,
        };
        Some(text).filter(|text| !text.is_empty())
    }

    /// The name of the caller's tier and its quota: of several, the lowest. The quota is `None` if
    /// the default tier, whose quota is the limit's own, applies.
    pub(super) fn tier<'t>(&self, tiers: &'t Tiers) -> (&'t str, Option<&'t Quota>) {
        let names = self.texts(&tiers.by);
        // A value that names no tier means the default one, which may be lower than the others.
        let tiers_of_values = names.as_slice().iter().filter_map(|name| {
            let tier = tiers.quotas.get_key_value(&**name);
            tier.or_else(|| tiers.quotas.get_key_value(&tiers.default))
        });
        let lowest = tiers_of_values.min_by_key(|(_, quota)| quota.limit());
        lowest
            .filter(|(name, _)| **name != tiers.default)
            .map_or((&tiers.default, None), |(name, quota)| (name, Some(quota)))
    }

    /// The cost: from the attribute, of several values the highest, or from token counts; else as
    /// stated by the request, else the default. The error is the start of the invalid value.
    pub(super) fn cost(&self, cost: &Cost, stated: Option<u64>) -> Result<u64, String> {
        if !cost.tokens.is_empty() {
            return self.weighed_cost(cost, stated);
        }
        let cost_min = u64::from(cost.attribute.as_ref().is_some_and(Attribute::is_field));
        let found = cost.attribute.as_ref().map(|name| self.texts(name));
        let costs = found.iter().flat_map(FieldValues::as_slice).map(|found| {
            // `parse` alone would also accept a leading `+`.
            let is_whole = found.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<u64> = found.parse().ok().filter(|_| is_whole);
            let number = number.ok_or_else(|| found.chars().take(FOUND_MAX).collect());
            // A client must not exempt itself by its cost.
            number.map(|number: u64| number.max(cost_min))
        });

        let highest = costs.reduce(|one, other| Ok(one?.max(other?)));
        highest.unwrap_or_else(|| Ok(stated.unwrap_or(cost.default)))
    }

    /// The cost of the tokens that a request counts.
    #[cold]
    fn weighed_cost(&self, cost: &Cost, stated: Option<u64>) -> Result<u64, String> {
        let mut counts = Vec::with_capacity(cost.tokens.len());
        for weight in &cost.tokens {
            for found in self.texts(&weight.attribute).as_slice() {
                let is_whole = found.bytes().all(|byte| byte.is_ascii_digit());
                let count: Option<u64> = found.parse().ok().filter(|_| is_whole);
                let invalid = || found.chars().take(FOUND_MAX).collect::<String>();
                counts.push((&weight.attribute, count.ok_or_else(invalid)?));
            }
        }

        let count = |attribute: &Attribute| {
            let of_kind = counts.iter().filter(|(kind, _)| *kind == attribute);
            of_kind.map(|(_, count)| *count).max()
        };
        let weighed = cost.weigh(count).or(stated);
        Ok(weighed.unwrap_or(cost.default))
    }
}

impl Selector {
    /// Builds the keys of a limit for a request: one, unless an attribute has several values. Then
    /// there is one for each combination.
    pub(super) fn keys(
        &self,
        limit: &LimitConfig,
        request: &RequestView<'_, impl Attributes>,
    ) -> Result<LimitKeys, KeyBuildError> {
        let mut keys = LimitKeys::new();
        loop {
            let (key, combinations) = self.key(limit, request, keys.len())?;
            if combinations > KEYS_MAX {
                return Err(KeyBuildError::TooMany);
            }

            keys.push(key);
            if keys.len() >= combinations {
                return Ok(keys);
            }
        }
    }

    /// Builds the key for one combination of values, and returns it with their number.
    fn key(
        &self,
        limit: &LimitConfig,
        request: &RequestView<'_, impl Attributes>,
        combination: usize,
    ) -> Result<(EncodedKey, usize), KeyBuildError> {
        let (mut rest, mut combinations) = (combination, 1_usize);
        let mut failure = None;

        let encoded = EncodedKey::from_writer(|parts| {
            for alternatives in &limit.key.parts {
                match self.first_of(alternatives, request) {
                    Ok((source, values)) => {
                        // Alternatives may have equal values for different callers, so the key
                        // includes the name of the attribute.
                        if alternatives.len() > 1 {
                            parts.text(source.name());
                        }
                        let value = values.get(rest % values.len());
                        self.write(source.attribute(), &value, parts);
                        rest /= values.len();
                        combinations = combinations.saturating_mul(values.len());
                    }
                    Err(error) => {
                        failure.get_or_insert(error);
                    }
                }
            }
        });

        match failure {
            Some(error) => Err(error),
            None => Ok((encoded.map_err(KeyBuildError::Invalid)?, combinations)),
        }
    }

    /// The parts of a key in readable form, of several keys the first. Hashed attributes show their
    /// hash.
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

        let parts = found.map(|(source, values)| {
            let (attribute, part) = (source.attribute(), values.get(0));
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
            let source = match &alternatives[..] {
                [only] => only,
                several => {
                    let KeyPart::Text(name) = parts.next()? else {
                        return None;
                    };
                    several.iter().find(|source| source.name() == name)?
                }
            };
            let attribute = source.attribute();

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

    /// Whether the keys of the limit with this index have the address of the client, so that they
    /// can be compared with networks.
    pub fn counts_by_address(&self, index: usize) -> bool {
        let parts = self.limits.get(index).map(|limit| limit.key.parts.iter());
        let mut attributes = parts.into_iter().flatten().flatten();
        attributes.any(|source| {
            let attribute = source.attribute();
            attribute.kind() == AttributeKind::ClientIp && self.hasher(attribute).is_none()
        })
    }

    /// The values of the first alternative that the request has.
    fn first_of<'s, 'r>(
        &self,
        alternatives: &'r [KeyAttribute],
        request: &'s RequestView<'_, impl Attributes>,
    ) -> Result<(&'r KeyAttribute, KeyPartValues<'s>), KeyBuildError> {
        for source in alternatives {
            if let Some(values) = self.part(source, request)? {
                return Ok((source, values));
            }
        }

        let names = alternatives.iter().map(|source| source.attribute().name());
        let names: Vec<&str> = names.collect();
        Err(KeyBuildError::Missing(names.join(" | ")))
    }

    fn part<'s>(
        &self,
        source: &KeyAttribute,
        request: &'s RequestView<'_, impl Attributes>,
    ) -> Result<Option<KeyPartValues<'s>>, KeyBuildError> {
        let attribute = source.attribute();
        if attribute.kind() != AttributeKind::ClientIp {
            let values = request.key_texts(attribute).into_iter();
            let values: FieldValues<'s> = values.map(|value| source.normalise(value)).collect();
            let is_missing = values.as_slice().is_empty();
            return Ok((!is_missing).then_some(KeyPartValues::Texts(values)));
        }

        let address = match request.attributes.get(attribute) {
            None => return Ok(None),
            Some(Value::Address(address)) => address,
            Some(value) => {
                let text = value.into_text();
                if text.is_empty() {
                    return Ok(None);
                }
                parse_address(&text).map_err(KeyBuildError::Address)?
            }
        };
        Ok(Some(KeyPartValues::Address(self.clients.group(address))))
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
    pub(super) fn hasher(&self, attribute: &Attribute) -> Option<&tollgate::KeyHasher> {
        let hashing = self.hashing.as_ref()?;
        hashing
            .attributes
            .contains(attribute)
            .then_some(&hashing.hasher)
    }
}

/// The keys of one limit for a request.
pub(super) type LimitKeys = SmallVec<[EncodedKey; 1]>;

/// The values of one part of a key, at least one. IPv6 addresses are grouped already.
enum KeyPartValues<'p> {
    Texts(FieldValues<'p>),
    Address(IpAddr),
}

impl KeyPartValues<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Texts(values) => values.as_slice().len(),
            Self::Address(_) => 1,
        }
    }

    /// The value at an index, which must be below the length.
    fn get(&self, index: usize) -> KeyPartValue<'_> {
        match self {
            Self::Texts(values) => KeyPartValue::Text(&values.as_slice()[index]),
            Self::Address(address) => KeyPartValue::Address(*address),
        }
    }
}

/// The value of one part of a key.
enum KeyPartValue<'p> {
    Text(&'p str),
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
