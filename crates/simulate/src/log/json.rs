//! Parses JSON lines. Only the fields that some limit uses are kept.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::{SmallVec, smallvec};
use tollgate::Micros;
use tollgate_rules::{Attribute, AttributeKind, Value};

use super::clf::{parse_request_line, present};
use super::duration::DurationUnit;
use super::fields::{BuiltInField, LogFields, push_normalized};
use super::target::RequestTarget;
use super::{LineError, time};

/// Objects nested deeper than this are ignored.
const DEPTH_MAX: usize = 6;
/// The maximum number of strings that are taken from a list.
const LIST_MAX: usize = 8;

/// A parsed line.
#[derive(Debug)]
pub(super) struct JsonLine<'l> {
    pub(super) time: Micros,
    fields: &'l LogFields,
    values: SlotValues<'l>,
}

/// The values by slot of the [`LogFields`], each with the rank of the name it was found under.
type SlotValues<'l> = SmallVec<[Option<(usize, Cow<'l, str>)>; 12]>;

impl<'l> JsonLine<'l> {
    pub(super) fn parse(line: &'l [u8], fields: &'l LogFields) -> Result<Self, LineError> {
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
        let mut walk = ObjectWalker {
            fields,
            values: smallvec![None; fields.slot_count()],
            path: String::new(),
            depth: 0,
        };
        let mut json = serde_json::Deserializer::from_str(text);
        json.deserialize_map(ValueSeed(&mut walk))
            .and_then(|()| json.end())
            .map_err(|_| LineError::Json)?;

        let mut line = Self {
            time: Micros::ZERO,
            fields,
            values: walk.values,
        };
        let time = line.built_in(BuiltInField::Time).ok_or(LineError::NoTime)?;
        line.time = time::parse_any(time).ok_or(LineError::Time)?;

        let has_request = line.built_in(BuiltInField::Request).is_some();
        if has_request && line.method().is_none() && line.target().is_none() {
            Err(LineError::Request)
        } else {
            Ok(line)
        }
    }

    /// The value in a slot. Empty values and `-` count as missing.
    fn value(&self, slot: usize) -> Option<&str> {
        let (_, text) = self.values.get(slot)?.as_ref()?;
        present(text)
    }

    fn built_in(&self, field: BuiltInField) -> Option<&str> {
        self.value(field as usize)
    }

    /// The rank of the name under which a field was found.
    fn rank(&self, field: BuiltInField) -> Option<usize> {
        let (rank, _) = self.values.get(field as usize)?.as_ref()?;
        Some(*rank)
    }

    /// How long the request took.
    pub(super) fn duration(&self) -> Option<Micros> {
        let text = self.built_in(BuiltInField::Duration)?;
        let unit = self
            .fields
            .duration_unit(self.rank(BuiltInField::Duration)?);
        let method = self.rank(BuiltInField::Method);
        let is_traefik = method.is_some_and(|rank| self.fields.is_traefik(rank));

        match unit {
            DurationUnit::ByForm if is_traefik => DurationUnit::Nanos.parse(text),
            unit => unit.parse(text),
        }
    }

    /// Whether the time is the start of the request.
    pub(super) fn has_start_time(&self) -> bool {
        let rank = self.rank(BuiltInField::Time);
        rank.is_some_and(|rank| self.fields.is_start(rank))
    }

    /// The value of a field that has nothing but this attribute.
    fn own_field(&self, attribute: &Attribute) -> Option<&str> {
        self.value(self.fields.slot(attribute)?)
    }

    /// The method and target from a field that has the whole request line.
    fn request(&self) -> Option<(&str, &str)> {
        parse_request_line(self.built_in(BuiltInField::Request)?).ok()
    }

    fn method(&self) -> Option<&str> {
        self.built_in(BuiltInField::Method)
            .or_else(|| Some(self.request()?.0))
    }

    fn target(&self) -> Option<RequestTarget<'_>> {
        let target = self.built_in(BuiltInField::Target);
        target
            .or_else(|| Some(self.request()?.1))
            .map(RequestTarget::parse)
    }

    /// A query parameter: from the target, from a field with the query string, or from a field of
    /// its own.
    fn query(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let query_string = self.built_in(BuiltInField::Query);
        let query_string = query_string
            .map(|query| RequestTarget::from_query(query.strip_prefix('?').unwrap_or(query)));
        let mut values = [self.target(), query_string]
            .into_iter()
            .flatten()
            .map(|target| target.query(attribute.field()));

        let values = values.find(|values| !values.as_slice().is_empty());
        let own_field = || Some(Value::Text(self.own_field(attribute)?.into()));
        values.map(Value::Texts).or_else(own_field)
    }

    pub(super) fn get(&self, attribute: &Attribute) -> Option<Value<'_>> {
        let text = match attribute.kind() {
            AttributeKind::ClientIp => self.built_in(BuiltInField::ClientIp)?,
            AttributeKind::Query => return self.query(attribute),
            AttributeKind::Method => self.method()?,
            AttributeKind::Path => self.target()?.path,
            AttributeKind::Host => self
                .built_in(BuiltInField::Host)
                .or_else(|| self.target()?.host)?,
            AttributeKind::Header | AttributeKind::Cookie | AttributeKind::Custom => {
                self.own_field(attribute)?
            }
        };

        Some(Value::Text(Cow::Borrowed(text)))
    }
}

/// The state while walking through the members of a line.
struct ObjectWalker<'l> {
    fields: &'l LogFields,
    values: SlotValues<'l>,
    /// The normalized names of the enclosing members, joined by dots.
    path: String,
    depth: usize,
}

/// A string, borrowed from the line unless it has escapes.
#[derive(Deserialize)]
struct Text<'l>(#[serde(borrow)] Cow<'l, str>);

/// An item of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum ListItem<'l> {
    Text(#[serde(borrow)] Cow<'l, str>),
    Other(IgnoredAny),
}

/// Deserializes the value of a member and stores it if it is wanted.
struct ValueSeed<'w, 'l>(&'w mut ObjectWalker<'l>);

impl<'l> ValueSeed<'_, 'l> {
    /// Stores the value of the current member in each slot that wants it and has none of a better
    /// rank.
    fn store(self, make: impl Fn() -> Cow<'l, str>) {
        let walk = self.0;
        for (slot, rank) in walk.fields.slots_for(&walk.path) {
            let value = &mut walk.values[*slot];
            if value.as_ref().is_none_or(|(known, _)| rank < known) {
                *value = Some((*rank, make()));
            }
        }
    }
}

impl<'l> DeserializeSeed<'l> for ValueSeed<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for ValueSeed<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_borrowed_str<E>(self, text: &'l str) -> Result<(), E> {
        self.store(|| Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.store(|| Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.store(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.store(|| Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // A float holds the time since 1970 to the microsecond, and no more.
        self.store(|| Cow::Owned(format!("{number:.6}")));
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.store(|| Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<(), M::Error> {
        let walk = self.0;
        if walk.depth == DEPTH_MAX {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        }

        let path_len = walk.path.len();
        walk.depth += 1;
        while let Some(Text(name)) = map.next_key()? {
            if path_len > 0 {
                walk.path.push('.');
            }
            push_normalized(&mut walk.path, &name);
            map.next_value_seed(ValueSeed(walk))?;
            walk.path.truncate(path_len);
        }
        walk.depth -= 1;
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

        match texts.as_slice() {
            [] => {}
            [text] => self.store(|| text.clone()),
            texts => self.store(|| texts.join(", ").into()),
        }
        Ok(())
    }
}
