//! A view of one request's attributes that normalises them.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

use tollgate::Quota;
use tollgate::algorithm::AMOUNT_MAX;
use tollgate_subject::{FieldValues, PathReadings, header_lines, header_values};

use super::{Attributes, Value};
use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::ascii_lower;
use crate::limit::{Condition, Cost, Tiers};

/// The most characters of an invalid value that an error shows.
const FOUND_MAX: usize = 40;

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
        if condition.is_path() {
            let path = self.path(&condition.attribute);
            return path.is_some_and(|path| {
                !path.is_readable() || path.iter().any(|reading| condition.matches(reading))
            });
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
    pub(super) fn key_texts(&self, attribute: &Attribute) -> FieldValues<'_> {
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
            AttributeKind::Host => ascii_lower(without_port(text)),
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
    /// stated by the request, else the default. The error is an attribute, and the start of its
    /// value, which is invalid, or `tokens` and their weighted sum, which is too large.
    pub(super) fn cost(&self, cost: &Cost, stated: Option<u64>) -> Result<u64, (String, String)> {
        let highest = |attribute: &Attribute| {
            let highest = self.highest(attribute).transpose();
            highest.map_err(|found| (attribute.to_string(), found))
        };
        let measured = cost.measure(highest)?;
        if let Some(units) = measured.filter(|units| *units > AMOUNT_MAX) {
            return Err(("tokens".to_owned(), units.to_string()));
        }
        // A client must not exempt itself by its cost.
        let least = u64::from(cost.attribute.as_ref().is_some_and(Attribute::is_field));
        let measured = measured.map(|units| units.max(least));
        Ok(measured.or(stated).unwrap_or(cost.default))
    }

    /// The highest of the values of an attribute, which are whole numbers. `None` if there is none.
    /// The error is the start of a value that is no such number.
    fn highest(&self, attribute: &Attribute) -> Option<Result<u64, String>> {
        let values = self.texts(attribute);
        let numbers = values.as_slice().iter().map(|found| {
            // `parse` alone would also accept a leading `+`.
            let is_whole = found.bytes().all(|byte| byte.is_ascii_digit());
            let number: Option<u64> = found.parse().ok().filter(|_| is_whole);
            let number = number.filter(|number| *number <= AMOUNT_MAX);
            number.ok_or_else(|| found.chars().take(FOUND_MAX).collect())
        });
        numbers.reduce(|one, other| Ok(one?.max(other?)))
    }
}

fn upper(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        text.to_ascii_uppercase().into()
    } else {
        text
    }
}

/// Removes the port and a trailing dot from a host.
fn without_port(host: Cow<'_, str>) -> Cow<'_, str> {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        // A bare IPv6 address such as `::1` has no port; with a port it is in brackets.
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => &host,
    };
    let length = name.trim_end_matches('.').len();

    match host {
        Cow::Borrowed(host) => Cow::Borrowed(&host[..length]),
        Cow::Owned(mut host) => {
            host.truncate(length);
            Cow::Owned(host)
        }
    }
}
