//! Request bodies: JSON objects, decoded without copying.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{CowStrDeserializer, MapAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor,
};
use smallvec::SmallVec;
use tollgate_rules::{Attribute, AttributeKind, Attributes, Value};

use super::error::ApiError;

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

/// Numbers of tokens by their kind, as the caller sent them.
#[derive(Debug, Default)]
pub(super) struct CountedTokens<'b>(NamedValues<'b, u64>);

/// The most kinds of tokens in a body.
const TOKEN_KINDS_MAX: usize = 16;

struct CountedTokensVisitor<'b>(PhantomData<&'b str>);

impl<'de: 'b, 'b> Visitor<'de> for CountedTokensVisitor<'b> {
    type Value = CountedTokens<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of token counts, such as {\"input\": 400, \"output\": 100}")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<CountedTokens<'b>, M::Error> {
        let names = ["kind of tokens", "kinds of tokens"];
        let is_same = |one: &str, other: &str| one == other;
        members(map, TOKEN_KINDS_MAX, names, is_same, M::next_value).map(CountedTokens)
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for CountedTokens<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(CountedTokensVisitor(PhantomData))
    }
}

impl CountedTokens<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(kind, count)| (&**kind, *count))
    }
}

impl NamedAttributes<'_> {
    /// Adds token counts as attributes, which limits refer to by their kind.
    pub(super) fn add_tokens(&mut self, tokens: &CountedTokens<'_>) -> Result<(), ApiError> {
        for (kind, count) in tokens.iter() {
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
