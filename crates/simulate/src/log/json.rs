//! Parses JSON lines. Only the fields that some limit uses are kept.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::net::IpAddr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::{SmallVec, smallvec};
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};
use tollgate_subject::parse_address;

use super::clf::parse_request_line;
use super::fields::{FieldRole, LogFields, push_normalized};
use super::target::RequestTarget;
use super::{LineErrorKind, time};

/// Objects nested deeper than this are ignored.
const DEPTH_MAX: usize = 6;
/// The maximum number of strings that are taken from a list.
const LIST_MAX: usize = 8;

/// A parsed line.
#[derive(Debug)]
pub(super) struct JsonLine<'l> {
    pub(super) time: Micros,
    fields: &'l LogFields,
    values: FieldValues<'l>,
    /// The parsed client address, for all limits.
    address: OnceCell<Option<IpAddr>>,
}

/// The values by slot of the [`LogFields`], each with the rank of the name it was found under.
type FieldValues<'l> = SmallVec<[Option<(usize, Cow<'l, str>)>; 12]>;

impl<'l> JsonLine<'l> {
    pub(super) fn parse(line: &'l str, fields: &'l LogFields) -> Result<Self, LineErrorKind> {
        let mut walk = ObjectWalker {
            fields,
            values: smallvec![None; fields.slots.len()],
            path: String::new(),
            depth: 0,
        };

        let mut json = serde_json::Deserializer::from_str(line);
        ObjectSeed(&mut walk)
            .deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|_| LineErrorKind::Json)?;

        let mut line = Self {
            time: Micros::ZERO,
            fields,
            values: walk.values,
            address: OnceCell::new(),
        };

        let time = line.value(&FieldRole::Time).ok_or(LineErrorKind::NoTime)?;
        line.time = time::parse_any(time).ok_or(LineErrorKind::Time)?;

        let no_request = line.method().is_none()
            && line.target().is_none()
            && line.value(&FieldRole::Request).is_some();
        if no_request {
            Err(LineErrorKind::Request)
        } else {
            Ok(line)
        }
    }

    /// The value with a meaning. Empty values and `-` count as missing.
    fn value(&self, meaning: &FieldRole) -> Option<&str> {
        let slot = self
            .fields
            .slots
            .iter()
            .position(|known| known == meaning)?;
        let (_, text) = self.values.get(slot)?.as_ref()?;
        Some(&**text).filter(|text| !text.is_empty() && *text != "-")
    }

    /// The method and target from a field that has the whole request line.
    fn request(&self) -> Option<(&str, &str)> {
        self.value(&FieldRole::Request)
            .and_then(|request| parse_request_line(request).ok())
    }

    fn method(&self) -> Option<&str> {
        self.value(&FieldRole::Method)
            .or_else(|| self.request().map(|(method, _)| method))
    }

    fn target(&self) -> Option<RequestTarget<'_>> {
        let text = self
            .value(&FieldRole::Target)
            .or_else(|| self.request().map(|(_, target)| target))?;
        Some(RequestTarget::parse(text))
    }

    /// A query parameter: from the target, from a field with the query string, or from a field of
    /// its own.
    fn query(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let from_target = || {
            self.target()
                .and_then(|target| target.query(attribute.field()))
        };
        let from_query_string = || {
            let query = self.value(&FieldRole::Query)?;
            RequestTarget::from_query(query.strip_prefix('?').unwrap_or(query))
                .query(attribute.field())
        };
        let from_own_field = || {
            self.value(&FieldRole::Other(attribute.clone()))
                .map(Cow::Borrowed)
        };

        from_target()
            .or_else(from_query_string)
            .or_else(from_own_field)
    }

    fn client_ip(&self) -> Option<Value<'_>> {
        let text = self.value(&FieldRole::ClientIp)?;
        let address = self.address.get_or_init(|| parse_address(text).ok());
        Some(address.map_or(Value::Text(Cow::Borrowed(text)), Value::Address))
    }

    pub(super) fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => return self.client_ip(),
            AttributeKind::Query => return self.query(attribute).map(Value::Text),
            AttributeKind::Method => self.method()?,
            AttributeKind::Path => self.target()?.path,
            AttributeKind::Host => {
                let in_target = || self.target().and_then(|target| target.host);
                self.value(&FieldRole::Host).or_else(in_target)?
            }
            AttributeKind::Header | AttributeKind::Cookie | AttributeKind::Custom => {
                let is_wanted = |known: &FieldRole| match known {
                    FieldRole::Other(other) => other == attribute,
                    _ => false,
                };
                let slot = self.fields.slots.iter().position(is_wanted)?;
                let (_, text) = self.values.get(slot)?.as_ref()?;
                Some(&**text).filter(|text| !text.is_empty() && *text != "-")?
            }
        };

        Some(Value::Text(Cow::Borrowed(text)))
    }
}

/// The state while walking through the members of a line.
struct ObjectWalker<'l> {
    fields: &'l LogFields,
    values: FieldValues<'l>,
    /// The normalized names of the enclosing members, joined by dots.
    path: String,
    depth: usize,
}

impl<'l> ObjectWalker<'l> {
    /// Stores the value of the current member in each slot that wants it and has none of a better
    /// rank.
    fn store(&mut self, make: impl Fn() -> Cow<'l, str>) {
        for (slot, rank) in self.fields.slots_for(&self.path) {
            let value = &mut self.values[*slot];
            if value.as_ref().is_none_or(|(known, _)| rank < known) {
                *value = Some((*rank, make()));
            }
        }
    }
}

/// Deserializes an object, member by member.
struct ObjectSeed<'w, 'l>(&'w mut ObjectWalker<'l>);

impl<'l> DeserializeSeed<'l> for ObjectSeed<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for ObjectSeed<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'l>>(self, map: M) -> Result<(), M::Error> {
        walk_members(self.0, map)
    }
}

fn walk_members<'l, M: MapAccess<'l>>(
    walk: &mut ObjectWalker<'l>,
    mut map: M,
) -> Result<(), M::Error> {
    let path_len = walk.path.len();
    walk.depth += 1;

    while let Some(()) = map.next_key_seed(NameSeed(walk))? {
        map.next_value_seed(ValueSeed(walk))?;
        walk.path.truncate(path_len);
    }

    walk.depth -= 1;
    Ok(())
}

/// Deserializes the name of a member and appends it to the path.
struct NameSeed<'w, 'l>(&'w mut ObjectWalker<'l>);

impl<'l> DeserializeSeed<'l> for NameSeed<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for NameSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        if !self.0.path.is_empty() {
            self.0.path.push('.');
        }
        push_normalized(&mut self.0.path, name);
        Ok(())
    }
}

/// Deserializes the value of a member and stores it if it is wanted.
struct ValueSeed<'w, 'l>(&'w mut ObjectWalker<'l>);

impl<'l> DeserializeSeed<'l> for ValueSeed<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for ValueSeed<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'l str) -> Result<(), E> {
        self.0.store(|| Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.store(|| Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.store(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.store(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // A float holds the time since 1970 to the microsecond, and no more.
        self.0.store(|| Cow::Owned(format!("{number:.6}")));
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0
            .store(|| Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<(), M::Error> {
        if self.0.depth < DEPTH_MAX {
            return walk_members(self.0, map);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    /// Joins the strings of a list with commas, like the lines of a repeated header.
    fn visit_seq<S: SeqAccess<'l>>(self, mut list: S) -> Result<(), S::Error> {
        let mut texts: SmallVec<[Cow<'l, str>; 1]> = SmallVec::new();
        while let Some(item) = list.next_element()? {
            match item {
                ListItem::Text(text) if texts.len() < LIST_MAX => texts.push(text),
                ListItem::Text(_) | ListItem::Other(_) => {}
            }
        }

        if !texts.is_empty() {
            self.0.store(|| {
                if texts.len() == 1 {
                    texts[0].clone()
                } else {
                    texts.join(", ").into()
                }
            });
        }
        Ok(())
    }
}

/// An item of a list.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum ListItem<'l> {
    Text(#[serde(borrow)] Cow<'l, str>),
    Other(IgnoredAny),
}
