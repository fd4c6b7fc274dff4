//! Builds the keys of a limit from the attributes of a request, and shows them.

use std::net::IpAddr;

use smallvec::SmallVec;
use tollgate::{EncodedKey, KeyHasher, KeyPart, KeyParts};
use tollgate_subject::{AddressError, FieldValues, parse_address};

use super::explanation::DisplayPart;
use super::request_view::RequestView;
use super::{Attributes, MissingKeyPolicy, SelectError, Selector, Value};
use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::KeyAttribute;
use crate::limit::LimitConfig;

/// The most keys under which one limit counts a request whose attributes have several values.
const KEYS_MAX: usize = 16;

/// The keys of one limit for a request.
type LimitKeys = SmallVec<[EncodedKey; 1]>;

/// The values of one part of a key, at least one. IPv6 addresses are grouped already.
enum KeyPartValues<'p> {
    Texts(FieldValues<'p>),
    Address(IpAddr),
}

impl Selector {
    /// Builds the keys of a limit for a request: one, unless an attribute has several values. Then
    /// there is one for each combination. None if the request lacks an attribute of the key, and
    /// that is not an error.
    pub(super) fn keys(
        &self,
        limit: &LimitConfig,
        request: &RequestView<'_, impl Attributes>,
        on_missing: MissingKeyPolicy,
    ) -> Result<LimitKeys, SelectError> {
        let mut keys = LimitKeys::new();
        loop {
            let Some((key, combinations)) = self.key(limit, request, on_missing, keys.len())?
            else {
                return Ok(keys);
            };
            if combinations > KEYS_MAX {
                let limit = limit.rule.name().to_string();
                return Err(SelectError::TooManyKeys { limit });
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
        on_missing: MissingKeyPolicy,
        combination: usize,
    ) -> Result<Option<(EncodedKey, usize)>, SelectError> {
        let (mut rest, mut combinations) = (combination, 1_usize);
        let mut failure = None;

        let encoded = EncodedKey::from_writer(|parts| {
            for alternatives in &limit.key.parts {
                match self.first_of(alternatives, request) {
                    Ok(Some((source, values))) => {
                        // Alternatives may have equal values for different callers, so the key
                        // includes the name of the attribute.
                        if alternatives.len() > 1 {
                            parts.text(source.name());
                        }
                        let count = values.len();
                        self.write(source.attribute(), &values, rest % count, parts);
                        rest /= count;
                        combinations = combinations.saturating_mul(count);
                    }
                    Ok(None) => {
                        failure.get_or_insert(Ok(&alternatives[..]));
                    }
                    Err(error) => {
                        failure.get_or_insert(Err(error));
                    }
                }
            }
        });

        // A shadow limit never refuses a request.
        let skips_missing =
            limit.optional || limit.rule.is_shadow() || on_missing == MissingKeyPolicy::Skip;
        match (failure, encoded) {
            (None, Ok(key)) => Ok(Some((key, combinations))),
            (None, Err(cause)) => Err(SelectError::Key {
                limit: limit.rule.name().to_string(),
                cause,
            }),
            (Some(Ok(_)), _) if skips_missing => Ok(None),
            (Some(failure), _) => Err(key_error(limit, failure)),
        }
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
        let limit = self.limits.get(index);
        let mut attributes = limit.into_iter().flat_map(|limit| limit.key.attributes());
        attributes.any(|attribute| {
            attribute.kind() == AttributeKind::ClientIp && self.hasher(attribute).is_none()
        })
    }

    /// The values of the first alternative that the request has.
    fn first_of<'s, 'r>(
        &self,
        alternatives: &'r [KeyAttribute],
        request: &'s RequestView<'_, impl Attributes>,
    ) -> Result<Option<(&'r KeyAttribute, KeyPartValues<'s>)>, AddressError> {
        for source in alternatives {
            if let Some(values) = self.part(source, request)? {
                return Ok(Some((source, values)));
            }
        }
        Ok(None)
    }

    fn part<'s>(
        &self,
        source: &KeyAttribute,
        request: &'s RequestView<'_, impl Attributes>,
    ) -> Result<Option<KeyPartValues<'s>>, AddressError> {
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
                parse_address(&text)?
            }
        };
        Ok(Some(KeyPartValues::Address(self.clients.group(address))))
    }

    /// Appends a value to a key, hashed if the configuration requires it.
    fn write(
        &self,
        attribute: &Attribute,
        values: &KeyPartValues<'_>,
        index: usize,
        parts: &mut KeyParts,
    ) {
        match (values, self.hasher(attribute)) {
            (KeyPartValues::Texts(texts), None) => parts.text(&texts.as_slice()[index]),
            (KeyPartValues::Texts(texts), Some(hasher)) => {
                parts.hashed(hasher.hash(texts.as_slice()[index].as_bytes()));
            }
            (KeyPartValues::Address(address), None) => parts.address(*address),
            (KeyPartValues::Address(address), Some(hasher)) => {
                parts.hashed(hasher.hash(address.to_string().as_bytes()));
            }
        }
    }

    /// The hasher for an attribute. `None` if the attribute is not hashed.
    pub(super) fn hasher(&self, attribute: &Attribute) -> Option<&KeyHasher> {
        let hashing = self.hashing.as_ref()?;
        let is_hashed = hashing.attributes.contains(attribute);
        is_hashed.then_some(&hashing.hasher)
    }
}

impl KeyPartValues<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Texts(values) => values.as_slice().len(),
            Self::Address(_) => 1,
        }
    }
}

/// The error for a request that lacks an attribute and its alternatives, or has an invalid address.
#[cold]
fn key_error(limit: &LimitConfig, failure: Result<&[KeyAttribute], AddressError>) -> SelectError {
    let limit = limit.rule.name().to_string();
    match failure {
        Ok(missing) => {
            let names = missing.iter().map(|source| source.attribute().name());
            let attribute = names.collect::<Vec<_>>().join(" | ");
            SelectError::MissingAttribute { limit, attribute }
        }
        Err(cause) => SelectError::Address { limit, cause },
    }
}
