//! A line of JSON: the fields that some limit wants to know, and nothing of the rest.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::net::IpAddr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::{SmallVec, smallvec};
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};
use tollgate_subject::parse_address;

use super::clf::asked;
use super::fields::{Fields, Meaning, push_spelling};
use super::target::Target;
use super::{BadLine, time};

/// How deep objects are looked into.
const DEPTH_MAX: usize = 6;
/// The most texts of a list that count, as lines of one header do.
const LIST_MAX: usize = 8;

/// A line, with what it says in the order of the fields' slots.
#[derive(Debug)]
pub(super) struct JsonLine<'l> {
    pub(super) time: Micros,
    fields: &'l Fields,
    found: Found<'l>,
    address: OnceCell<Option<IpAddr>>,
}

type Found<'l> = SmallVec<[Option<(usize, Cow<'l, str>)>; 12]>;

impl<'l> JsonLine<'l> {
    pub(super) fn read(line: &'l str, fields: &'l Fields) -> Result<Self, BadLine> {
        let mut walk = Walk {
            fields,
            found: smallvec![None; fields.slots.len()],
            path: String::new(),
            depth: 0,
        };
        let mut json = serde_json::Deserializer::from_str(line);
        Object(&mut walk)
            .deserialize(&mut json)
            .and_then(|()| json.end())
            .map_err(|_| BadLine::Json)?;
        let mut line = Self {
            time: Micros::ZERO,
            fields,
            found: walk.found,
            address: OnceCell::new(),
        };
        let time = line.value(&Meaning::Time).ok_or(BadLine::NoTime)?;
        line.time = time::any(time).ok_or(BadLine::Time)?;
        let no_request = line.method().is_none()
            && line.target().is_none()
            && line.value(&Meaning::Request).is_some();
        if no_request {
            Err(BadLine::Request)
        } else {
            Ok(line)
        }
    }

    /// What was found of a meaning. What is empty or a dash says nothing.
    fn value(&self, meaning: &Meaning) -> Option<&str> {
        let slot = self
            .fields
            .slots
            .iter()
            .position(|known| known == meaning)?;
        let (_, text) = self.found.get(slot)?.as_ref()?;
        Some(&**text).filter(|text| !text.is_empty() && *text != "-")
    }

    /// The method and target of a request that is written as one text.
    fn request(&self) -> Option<(&str, &str)> {
        self.value(&Meaning::Request)
            .and_then(|request| asked(request).ok())
    }

    fn method(&self) -> Option<&str> {
        self.value(&Meaning::Method)
            .or_else(|| self.request().map(|(method, _)| method))
    }

    fn target(&self) -> Option<Target<'_>> {
        let text = self
            .value(&Meaning::Target)
            .or_else(|| self.request().map(|(_, target)| target))?;
        Some(Target::read(text))
    }

    fn query(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let with_target = || {
            self.target()
                .and_then(|target| target.query(attribute.field()))
        };
        let alone = || {
            let query = self.value(&Meaning::Query)?;
            Target::with_query(query.strip_prefix('?').unwrap_or(query)).query(attribute.field())
        };
        let by_itself = || {
            self.value(&Meaning::Other(attribute.clone()))
                .map(Cow::Borrowed)
        };
        with_target().or_else(alone).or_else(by_itself)
    }

    fn client_ip(&self) -> Option<Value<'_>> {
        let text = self.value(&Meaning::ClientIp)?;
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
                self.value(&Meaning::Host).or_else(in_target)?
            }
            AttributeKind::Header | AttributeKind::Cookie | AttributeKind::Own => {
                let is_it =
                    |known: &Meaning| matches!(known, Meaning::Other(other) if other == attribute);
                let slot = self.fields.slots.iter().position(is_it)?;
                let (_, text) = self.found.get(slot)?.as_ref()?;
                Some(&**text).filter(|text| !text.is_empty() && *text != "-")?
            }
        };
        Some(Value::Text(Cow::Borrowed(text)))
    }
}

/// The way through a line: where it is, and what was found.
struct Walk<'l> {
    fields: &'l Fields,
    found: Found<'l>,
    /// The names that lead here, in one spelling and joined by points.
    path: String,
    depth: usize,
}

impl<'l> Walk<'l> {
    /// Keeps a value, which is made if somebody wants it and has none by a better name.
    fn keep(&mut self, make: impl Fn() -> Cow<'l, str>) {
        for (slot, rank) in self.fields.of(&self.path) {
            let place = &mut self.found[*slot];
            if place.as_ref().is_none_or(|(kept, _)| rank < kept) {
                *place = Some((*rank, make()));
            }
        }
    }
}

/// An object: each member under its name.
struct Object<'w, 'l>(&'w mut Walk<'l>);

impl<'l> DeserializeSeed<'l> for Object<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'l> Visitor<'l> for Object<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'l>>(self, map: M) -> Result<(), M::Error> {
        members(self.0, map)
    }
}

fn members<'l, M: MapAccess<'l>>(walk: &mut Walk<'l>, mut map: M) -> Result<(), M::Error> {
    let before = walk.path.len();
    walk.depth += 1;
    while let Some(()) = map.next_key_seed(Name(walk))? {
        map.next_value_seed(Member(walk))?;
        walk.path.truncate(before);
    }
    walk.depth -= 1;
    Ok(())
}

/// The name of a member, put behind the path.
struct Name<'w, 'l>(&'w mut Walk<'l>);

impl<'l> DeserializeSeed<'l> for Name<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        if !self.0.path.is_empty() {
            self.0.path.push('.');
        }
        push_spelling(&mut self.0.path, name);
        Ok(())
    }
}

/// A member's value: kept if somebody wants it.
struct Member<'w, 'l>(&'w mut Walk<'l>);

impl<'l> DeserializeSeed<'l> for Member<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for Member<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'l str) -> Result<(), E> {
        self.0.keep(|| Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.keep(|| Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.keep(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.keep(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // Microseconds since 1970 are all that a number of this kind can tell apart.
        self.0.keep(|| Cow::Owned(format!("{number:.6}")));
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0
            .keep(|| Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<(), M::Error> {
        if self.0.depth < DEPTH_MAX {
            return members(self.0, map);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }

    /// The texts of a list are one, as lines of one header are.
    fn visit_seq<S: SeqAccess<'l>>(self, mut list: S) -> Result<(), S::Error> {
        let mut texts: SmallVec<[Cow<'l, str>; 1]> = SmallVec::new();
        while let Some(listed) = list.next_element()? {
            match listed {
                Listed::Text(text) if texts.len() < LIST_MAX => texts.push(text),
                Listed::Text(_) | Listed::Other(_) => {}
            }
        }
        if !texts.is_empty() {
            self.0.keep(|| {
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

/// What stands in a list.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Listed<'l> {
    Text(#[serde(borrow)] Cow<'l, str>),
    Other(IgnoredAny),
}
