//! Maps the fields of JSON lines to the attributes of requests.
//!
//! Every program that logs JSON uses its own names. Those of common nginx configurations, Caddy and
//! Traefik are built in; others are given with `--field`. Names are compared in lower case and with
//! `_` instead of `-`. The names of nested objects are joined by dots.

use std::collections::HashMap;

use ahash::RandomState;
use tollgate_rules::{Attribute, AttributeError, AttributeKind};

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
}

/// The names of the built-in fields, in the order of [`BuiltInField`]. The first names win.
const BUILT_IN_NAMES: [&str; 7] = [
    "time ts timestamp @timestamp time_iso8601 starttime startutc start_time msec time_local \
     datetime date",
    "client_ip request.client_ip remote_ip request.remote_ip remote_addr clienthost clientip \
     remote_host client ip clientaddr request.remote_addr",
    "method request_method requestmethod request.method http_method verb",
    "path request_uri uri requestpath request.uri url request_path request.path",
    "request request_line",
    "args query_string query",
    "host http_host requesthost request.host server_name vhost virtual_host",
];

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
        let mut fields = Self::default();

        for (rank, (name, field)) in custom.iter().enumerate() {
            if field.is_empty() {
                return Err(FieldError::NoField { name: name.clone() });
            }
            let slot = if name == "time" {
                BuiltInField::Time as usize
            } else {
                fields.add_slot(&name.parse()?)
            };
            fields.add_names(slot, rank, [field.as_str()]);
        }

        for (slot, names) in BUILT_IN_NAMES.iter().enumerate() {
            fields.add_names(slot, custom.len(), names.split(' '));
        }
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
