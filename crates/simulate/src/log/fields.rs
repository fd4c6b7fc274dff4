//! Maps the fields of JSON lines to the attributes of requests.
//!
//! Every program that logs JSON uses its own names. Those of common nginx configurations, Caddy and
//! Traefik are built in; others are given with `--field`. Names are compared in lower case and with
//! `_` instead of `-`. The names of nested objects are joined by dots.

use std::collections::HashMap;

use ahash::RandomState;
use tollgate_rules::{Attribute, AttributeError, AttributeKind};

use super::duration::DurationUnit;

/// The maximum number of values taken from a line.
const SLOTS_MAX: usize = 256;

/// A field with built-in names. Its number is that of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BuiltInField {
    Time,
    ClientIp,
    Method,
    /// A path, with or without host and query.
    Target,
    /// Method, target and version.
    Request,
    /// The query string.
    Query,
    Host,
    /// How long the request took.
    Duration,
}

/// The names of the built-in fields, in the order of [`BuiltInField`]. The first names win.
const BUILT_IN_NAMES: [&str; 8] = [
    "time ts timestamp @timestamp time_iso8601 starttime startutc start_time msec time_local \
     datetime date",
    "client_ip request.client_ip remote_ip request.remote_ip remote_addr clienthost clientip \
     remote_host client ip clientaddr request.remote_addr",
    "method request_method requestmethod request.method http_method verb",
    "path request_uri uri requestpath request.uri url request_path request.path",
    "request request_line",
    "args query_string query",
    "host http_host requesthost request.host server_name vhost virtual_host",
    "request_time duration_ms duration_us duration_ns duration_s duration_seconds duration \
     latency_ms elapsed_ms response_time_ms latency elapsed httprequest.latency",
];

/// The names of times that are the start of a request.
const START_NAMES: [&str; 3] = ["starttime", "startutc", "start_time"];
/// The name that only Traefik uses, whose durations are in nanoseconds.
const TRAEFIK_METHOD: &str = "requestmethod";

/// The names of the attribute `user`.
const USER_NAMES: &str = "user remote_user user_id request.user_id clientusername username";

/// Which values to take from a line. Each has a slot.
#[derive(Clone, Debug, Default)]
pub struct LogFields {
    /// The attributes without built-in names. Their slots follow those of the built-in fields.
    others: Vec<Attribute>,
    /// For each name, the slots that its value may fill, each with a rank. If several names fill
    /// the same slot, the lowest rank wins.
    names: HashMap<Box<str>, Vec<(usize, usize)>, RandomState>,
    /// The units of the names of durations, by rank.
    units: HashMap<usize, DurationUnit, RandomState>,
    /// The rank of the first built-in name. Those of custom names are below.
    first_rank: usize,
}

/// An invalid field mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// The attribute name is invalid.
    #[error("{0}")]
    Attribute(#[from] AttributeError),
    /// The field name is empty.
    #[error("missing field name for `{name}`; expected NAME=FIELD, such as time=ts")]
    NoField {
        /// The attribute.
        name: String,
    },
    /// The limits use too many attributes.
    #[error("the limits use more than {SLOTS_MAX} attributes, which is the maximum")]
    TooMany,
}

impl LogFields {
    /// The mapping for these attributes. `custom` has pairs of attribute and field name, such as
    /// `("time", "ts")`, which take precedence over the built-in names.
    pub fn new<'a>(
        attributes: impl IntoIterator<Item = &'a Attribute>,
        custom: &[(String, String)],
    ) -> Result<Self, FieldError> {
        let mut fields = Self {
            first_rank: custom.len(),
            ..Self::default()
        };

        for (rank, (name, field)) in custom.iter().enumerate() {
            if field.is_empty() {
                return Err(FieldError::NoField { name: name.clone() });
            }
            let slot = match name.as_str() {
                "time" => BuiltInField::Time as usize,
                name if is_duration(name) => {
                    fields.units.insert(rank, custom_unit(name, field));
                    BuiltInField::Duration as usize
                }
                name => fields.add_slot(&name.parse()?),
            };
            fields.add_names(slot, rank, [field.as_str()]);
        }

        for (slot, names) in BUILT_IN_NAMES.iter().enumerate() {
            fields.add_names(slot, custom.len(), built_in_names(names));
        }
        let durations = built_in_names(BUILT_IN_NAMES[BuiltInField::Duration as usize]);
        let units = durations.map(DurationUnit::from_name);
        fields.units.extend((custom.len()..).zip(units));
        for attribute in attributes {
            let slot = fields.add_slot(attribute);
            if slot >= BUILT_IN_NAMES.len() {
                let names = usual_names(attribute);
                fields.add_names(slot, custom.len(), names.iter().map(String::as_str));
            }
        }

        if fields.slot_count() > SLOTS_MAX {
            Err(FieldError::TooMany)
        } else {
            Ok(fields)
        }
    }

    /// The slot of an attribute, which it gets now if it has none.
    fn add_slot(&mut self, attribute: &Attribute) -> usize {
        self.slot(attribute).unwrap_or_else(|| {
            self.others.push(attribute.clone());
            self.slot_count() - 1
        })
    }

    /// Adds names for a slot, in the order of their ranks.
    fn add_names<'n>(
        &mut self,
        slot: usize,
        first_rank: usize,
        names: impl IntoIterator<Item = &'n str>,
    ) {
        for (rank, name) in (first_rank..).zip(names) {
            let mut normalized = String::new();
            push_normalized(&mut normalized, name);
            self.names
                .entry(normalized.into())
                .or_default()
                .push((slot, rank));
        }
    }

    /// The unit of a duration under the name with this rank.
    pub(super) fn duration_unit(&self, rank: usize) -> DurationUnit {
        let unit = self.units.get(&rank).copied();
        unit.unwrap_or(DurationUnit::ByForm)
    }

    /// Whether a built-in name of the time with this rank is that of a start.
    pub(super) fn is_start(&self, rank: usize) -> bool {
        let name = self.built_in_name(BuiltInField::Time, rank);
        name.is_some_and(|name| START_NAMES.contains(&name))
    }

    /// Whether the name of the method with this rank is that of Traefik.
    pub(super) fn is_traefik(&self, rank: usize) -> bool {
        self.built_in_name(BuiltInField::Method, rank) == Some(TRAEFIK_METHOD)
    }

    /// The built-in name with this rank.
    fn built_in_name(&self, field: BuiltInField, rank: usize) -> Option<&'static str> {
        built_in_names(BUILT_IN_NAMES[field as usize]).nth(rank.checked_sub(self.first_rank)?)
    }

    /// The number of slots.
    pub(super) fn slot_count(&self) -> usize {
        BUILT_IN_NAMES.len() + self.others.len()
    }

    /// The slot of an attribute.
    pub(super) fn slot(&self, attribute: &Attribute) -> Option<usize> {
        let field = match attribute.kind() {
            AttributeKind::ClientIp => BuiltInField::ClientIp,
            AttributeKind::Method => BuiltInField::Method,
            AttributeKind::Path => BuiltInField::Target,
            AttributeKind::Host => BuiltInField::Host,
            AttributeKind::Header
            | AttributeKind::Query
            | AttributeKind::Cookie
            | AttributeKind::Custom => {
                let index = self.others.iter().position(|other| other == attribute)?;
                return Some(BUILT_IN_NAMES.len() + index);
            }
        };
        Some(field as usize)
    }

    /// The slots for a normalized name, each with the rank of the name.
    pub(super) fn slots_for(&self, name: &str) -> &[(usize, usize)] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }
}

fn built_in_names(names: &'static str) -> impl Iterator<Item = &'static str> {
    names.split_ascii_whitespace()
}

/// Whether `--field` maps a duration: `duration`, or with its unit such as `duration_us`.
fn is_duration(name: &str) -> bool {
    let unit = name.strip_prefix("duration");
    unit.is_some_and(|unit| {
        unit.is_empty() || DurationUnit::from_name(name) != DurationUnit::ByForm
    })
}

/// The unit of a mapped duration: that of the attribute, otherwise that of the field.
fn custom_unit(name: &str, field: &str) -> DurationUnit {
    match DurationUnit::from_name(name) {
        DurationUnit::ByForm => DurationUnit::from_name(field),
        unit => unit,
    }
}

/// The names under which logs usually have an attribute without built-in names.
fn usual_names(attribute: &Attribute) -> Vec<String> {
    let field = attribute.field();
    let prefixes: &[&str] = match attribute.kind() {
        AttributeKind::Header => &[
            "http_",
            "",
            "request.headers.",
            "headers.",
            "request_",
            "request_header_",
        ],
        AttributeKind::Cookie => &["cookie_", "cookies."],
        AttributeKind::Query => &["arg_", "query."],
        _ if field == "user" => return USER_NAMES.split(' ').map(str::to_owned).collect(),
        _ => &[""],
    };

    prefixes
        .iter()
        .map(|prefix| format!("{prefix}{field}"))
        .collect()
}

/// Appends a name in lower case, with `_` instead of `-`.
pub(super) fn push_normalized(to: &mut String, name: &str) {
    to.extend(name.chars().map(|c| match c {
        '-' => '_',
        c => c.to_ascii_lowercase(),
    }));
}
