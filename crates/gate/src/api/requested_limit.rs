//! The entries of `limits` in a request body: names, or objects with a key, a cost and perhaps the
//! limit's own numbers.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use smallvec::SmallVec;
use tollgate_rules::RequestedLimit;

use super::json::{AttributeText, BodyText};

/// The space that the text of a limit usually takes.
const INLINE_CAPACITY: usize = 160;

/// Reads `limits`.
pub(super) fn requested_limits<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<RequestedLimit<'de>>>, D::Error> {
    let limits: Option<Vec<LimitEntry<'de>>> = Deserialize::deserialize(from)?;
    Ok(limits.map(|limits| limits.into_iter().map(|LimitEntry(limit)| limit).collect()))
}

/// An entry of `limits`.
struct LimitEntry<'b>(RequestedLimit<'b>);

struct LimitEntryVisitor;

impl<'de> Visitor<'de> for LimitEntryVisitor {
    type Value = LimitEntry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a limit, or an object with its name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<LimitEntry<'de>, E> {
        Ok(named(Cow::Borrowed(name)))
    }

    fn visit_str<E>(self, name: &str) -> Result<LimitEntry<'de>, E> {
        Ok(named(Cow::Owned(name.to_owned())))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<LimitEntry<'de>, M::Error> {
        let mut members = LimitMembers::default();
        while let Some(BodyText(name)) = map.next_key()? {
            members.add(name, &mut map)?;
        }
        Ok(LimitEntry(members.into_limit()))
    }
}

impl<'de: 'b, 'b> Deserialize<'de> for LimitEntry<'b> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(LimitEntryVisitor)
    }
}

fn named(name: Cow<'_, str>) -> LimitEntry<'_> {
    LimitEntry(RequestedLimit {
        name,
        ..RequestedLimit::default()
    })
}

/// The members of an object. The key and the cost differ from request to request; all others make up
/// the limit, which is read from their text.
#[derive(Default)]
struct LimitMembers<'b> {
    key: Option<Cow<'b, str>>,
    cost: Option<u64>,
    has_key: bool,
    has_cost: bool,
    limit: SmallVec<[(Cow<'b, str>, &'b str); 8]>,
}

impl<'b> LimitMembers<'b> {
    fn add<M: MapAccess<'b>>(&mut self, name: Cow<'b, str>, map: &mut M) -> Result<(), M::Error> {
        let is_duplicate = match &*name {
            "key" => std::mem::replace(&mut self.has_key, true),
            "cost" => std::mem::replace(&mut self.has_cost, true),
            _ => self.limit.iter().any(|(known, _)| *known == name),
        };
        if is_duplicate {
            let name: String = name.chars().take(80).collect();
            return Err(M::Error::custom(format_args!("duplicate field `{name}`")));
        }

        match &*name {
            "key" => {
                let key: Option<AttributeText<'b>> = map.next_value()?;
                self.key = key.map(|AttributeText(key)| key);
            }
            "cost" => self.cost = map.next_value()?,
            _ => {
                let value: &RawValue = map.next_value()?;
                self.limit.push((name, value.get()));
            }
        }
        Ok(())
    }

    fn into_limit(self) -> RequestedLimit<'b> {
        let name = self.limit.iter().find(|(name, _)| name == "name");
        let name = name.and_then(|(_, value)| serde_json::from_str(value).ok());
        // Without a valid name there is nothing to look up: reading the limit reports that.
        let is_inline = name.is_none() || self.limit.len() > 1;

        RequestedLimit {
            name: name.map(|BodyText(name)| name).unwrap_or_default(),
            inline: is_inline.then(|| self.limit_text().into()),
            key: self.key,
            cost: self.cost,
        }
    }

    /// The members of the limit as a JSON object.
    fn limit_text(&self) -> String {
        let mut text = String::with_capacity(INLINE_CAPACITY);
        text.push('{');
        for (name, value) in &self.limit {
            if text.len() > 1 {
                text.push(',');
            }
            if name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                text.extend(["\"", name, "\":"]);
            } else {
                text.extend([&*Json::from(&**name).to_string(), ":"]);
            }
            text.push_str(value);
        }
        text.push('}');
        text
    }
}
