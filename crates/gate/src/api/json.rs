//! Request bodies: JSON objects, decoded without copying.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor,
};
use serde_json::Value as Json;
use smallvec::SmallVec;
use tollgate::algorithm::AMOUNT_MAX;
use tollgate_rules::{Attribute, AttributeKind, Attributes, TokenKinds, TokenName, Value};

use super::error::ApiError;
use crate::DecideError;

/// The most attributes of a request.
pub const ATTRIBUTES_MAX: usize = 64;

/// The bytes of a body that must be a JSON object.
#[derive(Clone, Copy, Debug)]
pub struct JsonBody<'b> {
    bytes: &'b [u8],
    /// Whether this is a request of a batch, in which a member names the operation.
    has_op: bool,
}

impl<'b> JsonBody<'b> {
    /// A body with these bytes.
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            has_op: false,
        }
    }

    /// The body of a request of a batch.
    pub(super) const fn for_batch(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            has_op: true,
        }
    }

    /// Decodes the object, without the member that names the operation of a batch.
    pub fn decode<T: Deserialize<'b>>(self) -> Result<T, ApiError> {
        self.decode_object(self.has_op)
    }

    /// Decodes the object with all its members.
    pub(super) fn decode_with_op<T: Deserialize<'b>>(self) -> Result<T, ApiError> {
        self.decode_object(false)
    }

    fn decode_object<T: Deserialize<'b>>(self, skips_op: bool) -> Result<T, ApiError> {
        let mut json = serde_json::Deserializer::from_slice(self.bytes);
        let object = JsonObject {
            skips_op,
            kind: PhantomData,
        };
        let value = json.deserialize_map(object);
        let value = value.and_then(|value| json.end().map(|()| value));
        value.map_err(|error| ApiError::json(&error))
    }
}

/// Reads a value that must be written as a JSON object: serde would also read a struct from a list,
/// by position.
struct JsonObject<T> {
    /// Whether the member `op` is left out.
    skips_op: bool,
    kind: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for JsonObject<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
        if self.skips_op {
            T::deserialize(MapAccessDeserializer::new(WithoutOp(map)))
        } else {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
}

/// The members of an object other than `op`.
struct WithoutOp<M>(M);

impl<'de, M: MapAccess<'de>> MapAccess<'de> for WithoutOp<M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        while let Some(BodyText(name)) = self.0.next_key()? {
            if name == "op" {
                self.0.next_value::<IgnoredAny>()?;
                continue;
            }
            return seed.deserialize(CowStrDeserializer::new(name)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.0.next_value_seed(seed)
    }
}

/// A string, borrowed from the body unless it has escapes.
#[derive(Debug, serde::Deserialize)]
pub(super) struct BodyText<'b>(#[serde(borrow)] pub(super) Cow<'b, str>);

/// The value of an attribute: a string, or a whole number or boolean as text; empty for null.
pub(super) struct AttributeText<'b>(pub(super) Cow<'b, str>);

struct AttributeTextVisitor;

impl<'b> Visitor<'b> for AttributeTextVisitor {
    type Value = AttributeText<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a whole number or a boolean as the value of an attribute")
    }

    fn visit_borrowed_str<E>(self, text: &'b str) -> Result<AttributeText<'b>, E> {
        Ok(AttributeText(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<AttributeText<'b>, E> {
        Ok(AttributeText(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<AttributeText<'b>, E> {
        Ok(AttributeText(number.to_string().into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<AttributeText<'b>, E> {
        Ok(AttributeText(number.to_string().into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<AttributeText<'b>, E> {
        Ok(AttributeText(if value { "true" } else { "false" }.into()))
    }

    /// Many languages write a value that is not there as null. An empty value counts as missing.
    fn visit_unit<E>(self) -> Result<AttributeText<'b>, E> {
        Ok(AttributeText(Cow::Borrowed("")))
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for AttributeText<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AttributeTextVisitor)
    }
}

/// The members of an object: at most `max`, of which no two have the same name. Errors say what one
/// of them is, and several.
#[inline]
fn members<'de: 'b, 'b, M: MapAccess<'de>, V>(
    mut map: M,
    max: usize,
    [one, several]: [&str; 2],
    is_same: impl Fn(&str, &str) -> bool,
    value: impl Fn(&mut M) -> Result<V, M::Error>,
) -> Result<NamedValues<'b, V>, M::Error> {
    let mut members = NamedValues::new();
    while let Some(BodyText(name)) = map.next_key::<BodyText<'b>>()? {
        let value = value(&mut map)?;
        if members.len() == max {
            return Err(M::Error::custom(format_args!("more than {max} {several}")));
        }
        if members.iter().any(|(other, _)| is_same(other, &name)) {
            let name: String = name.chars().take(80).collect();
            return Err(M::Error::custom(format_args!("duplicate {one} {name:?}")));
        }
        members.push((name, value));
    }
    Ok(members)
}

pub(super) type NamedValues<'b, V> = SmallVec<[(Cow<'b, str>, V); 4]>;

/// Attributes by name, as the caller sent them: at most [`ATTRIBUTES_MAX`].
#[derive(Debug, Default)]
pub struct NamedAttributes<'b>(pub NamedValues<'b, Cow<'b, str>>);

struct NamedAttributesVisitor<'b>(PhantomData<&'b str>);

impl<'de: 'b, 'b> Visitor<'de> for NamedAttributesVisitor<'b> {
    type Value = NamedAttributes<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of attributes")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<NamedAttributes<'b>, M::Error> {
        let value = |map: &mut M| map.next_value().map(|AttributeText(value)| value);
        let names = ["attribute", "attributes"];
        members(map, ATTRIBUTES_MAX, names, is_same_attribute, value).map(NamedAttributes)
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for NamedAttributes<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(NamedAttributesVisitor(PhantomData))
    }
}

/// Numbers of tokens by their kind, as the caller sent them: perhaps a whole usage object of a
/// provider. Members of members have the names of both, with a dot in between.
#[derive(Debug, Default)]
pub(super) struct CountedTokens<'b>(Vec<(Cow<'b, str>, TokenValue)>);

/// The most kinds of tokens in a body. A usage object has about a dozen.
const TOKEN_KINDS_MAX: usize = 32;

/// A value of a usage object.
#[derive(Debug)]
enum TokenValue {
    Count(u64),
    /// What was found instead of a count.
    Other(String),
}

struct CountedTokensVisitor<'b>(PhantomData<&'b str>);

impl<'de: 'b, 'b> Visitor<'de> for CountedTokensVisitor<'b> {
    type Value = CountedTokens<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of token counts, such as {\"input\": 400, \"output\": 100}")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<CountedTokens<'b>, M::Error> {
        let names = ["kind of tokens", "kinds of tokens"];
        let is_same = |one: &str, other: &str| one == other;
        let members = members(map, TOKEN_KINDS_MAX, names, is_same, M::next_value::<Json>)?;

        let mut counts = CountedTokens::default();
        for (name, value) in members {
            counts.add(name, value);
        }
        if counts.0.len() > TOKEN_KINDS_MAX {
            let text = format!("more than {TOKEN_KINDS_MAX} kinds of tokens");
            return Err(M::Error::custom(text));
        }
        Ok(counts)
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for CountedTokens<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(CountedTokensVisitor(PhantomData))
    }
}

impl<'b> CountedTokens<'b> {
    fn add(&mut self, name: Cow<'b, str>, value: Json) {
        let value = match value {
            // Many languages write a value that is not there as null.
            Json::Null => return,
            Json::Object(members) => {
                for (member, value) in members {
                    let name = format!("{name}.{member}").into();
                    let value = TokenValue::new(&value);
                    self.0.extend(value.map(|value| (name, value)));
                }
                return;
            }
            value => TokenValue::new(&value),
        };
        self.0.extend(value.map(|value| (name, value)));
    }

    /// The numbers that the limits use, by their kind.
    pub(super) fn counts(&self, kinds: &TokenKinds) -> Result<Vec<(&str, u64)>, ApiError> {
        let is_usage = |name: &str| kinds.find(name) == Ok(TokenName::Usage);
        let usage = self.0.iter().find(|(name, _)| is_usage(name));
        let mut counts: Vec<(&str, u64)> = Vec::new();

        for (name, value) in &self.0 {
            match (kinds.find(name), value) {
                (Ok(TokenName::Ignored), _) => {}
                // What a provider adds to its usage objects is no error unless it is a number.
                (Err(_), TokenValue::Other(_)) if usage.is_some() => {}
                (Ok(_), TokenValue::Count(count)) if *count <= AMOUNT_MAX => {
                    counts.push((name, *count));
                }
                (Ok(_), value) => return Err(ApiError::bad_token_count(name, &value.to_text())),
                (Err(error), _) => return Err(DecideError::from(error).into()),
            }
        }
        let own = counts
            .iter()
            .find(|(name, _)| TokenKinds::is_in_usage(name));
        match (usage, own) {
            (Some((usage, _)), Some((own, _))) => {
                let reason = format!(
                    "`tokens` has `{own}` and `{usage}`: send the names of Tollgate, or those of a \
                     provider's usage object"
                );
                Err(ApiError::unprocessable("bad-tokens", reason))
            }
            _ => Ok(counts),
        }
    }
}

impl TokenValue {
    /// None for null.
    fn new(value: &Json) -> Option<Self> {
        match (value, value.as_u64()) {
            (Json::Null, _) => None,
            (_, Some(count)) => Some(Self::Count(count)),
            (value, None) => Some(Self::Other(value.to_string())),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Other(text) => text.clone(),
        }
    }
}

impl NamedAttributes<'_> {
    /// Adds token counts as attributes, which limits refer to by their kind. Attributes that are
    /// token counts already must be of a known kind, too.
    pub(super) fn add_tokens(
        &mut self,
        tokens: Option<&CountedTokens<'_>>,
        kinds: &TokenKinds,
    ) -> Result<(), ApiError> {
        for (name, _) in &self.0 {
            if let Some(kind) = name.strip_prefix("tokens.") {
                kinds.find(kind).map_err(DecideError::from)?;
            }
        }
        let Some(tokens) = tokens else {
            return Ok(());
        };
        let counts = tokens.counts(kinds)?;
        if counts.is_empty() {
            return Err(ApiError::no_token_counts());
        }
        for (kind, count) in counts {
            let name = format!("tokens.{kind}");
            if self.0.len() >= ATTRIBUTES_MAX || self.0.iter().any(|(other, _)| *other == name) {
                return Err(ApiError::bad_tokens(&name));
            }
            self.0.push((name.into(), count.to_string().into()));
        }
        Ok(())
    }
}

/// Whether two names denote the same attribute. Names of headers ignore case.
pub fn is_same_attribute(one: &str, other: &str) -> bool {
    const HEADER: &str = "header:";
    one == other
        || (one.starts_with(HEADER) && other.starts_with(HEADER) && one.eq_ignore_ascii_case(other))
}

impl Attributes for NamedAttributes<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let is_wanted = |name: &str| match attribute.kind() {
            AttributeKind::Header => is_same_attribute(name, attribute.name()),
            _ => name == attribute.name(),
        };
        self.0
            .iter()
            .find(|(name, _)| is_wanted(name))
            .map(|(_, value)| Value::Text(Cow::Borrowed(value)))
    }
}
