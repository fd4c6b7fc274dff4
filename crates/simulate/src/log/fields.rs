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

const TIME: &[&str] = &[
    "time",
    "ts",
    "timestamp",
    "@timestamp",
    "time_iso8601",
    "starttime",
    "startutc",
    "start_time",
    "msec",
    "time_local",
    "datetime",
    "date",
];
const CLIENT_IP: &[&str] = &[
    "client_ip",
    "request.client_ip",
    "remote_ip",
    "request.remote_ip",
    "remote_addr",
    "clienthost",
    "clientip",
    "remote_host",
    "client",
    "ip",
    "clientaddr",
    "request.remote_addr",
];
const METHOD: &[&str] = &[
    "method",
    "request_method",
    "requestmethod",
    "request.method",
    "http_method",
    "verb",
];
const TARGET: &[&str] = &[
    "path",
    "request_uri",
    "uri",
    "requestpath",
    "request.uri",
    "url",
    "request_path",
    "request.path",
];
const REQUEST: &[&str] = &["request", "request_line"];
const QUERY: &[&str] = &["args", "query_string", "query"];
const HOST: &[&str] = &[
    "host",
    "http_host",
    "requesthost",
    "request.host",
    "server_name",
    "vhost",
    "virtual_host",
];
const USER: &[&str] = &[
    "user",
    "remote_user",
    "user_id",
    "request.user_id",
    "clientusername",
    "username",
];

/// The meaning of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldRole {
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
    /// A header, a cookie, a query parameter or a custom attribute.
    Other(Attribute),
}

/// The meanings of field names.
#[derive(Clone, Debug, Default)]
pub struct LogFields {
    pub(super) slots: Vec<FieldRole>,
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
        for (name, field) in custom {
            if field.is_empty() {
                return Err(FieldError::NoField { name: name.clone() });
            }
            let meaning = if name == "time" {
                FieldRole::Time
            } else {
                meaning(&name.parse()?)
            };
            fields.add(meaning, [field.clone()]);
        }

        for (meaning, names) in [
            (FieldRole::Time, TIME),
            (FieldRole::ClientIp, CLIENT_IP),
            (FieldRole::Method, METHOD),
            (FieldRole::Target, TARGET),
            (FieldRole::Request, REQUEST),
            (FieldRole::Query, QUERY),
            (FieldRole::Host, HOST),
        ] {
            fields.add(meaning, names.iter().map(ToString::to_string));
        }

        for attribute in attributes {
            if let FieldRole::Other(attribute) = meaning(attribute) {
                let names = names(&attribute);
                fields.add(FieldRole::Other(attribute), names);
            }
        }

        if fields.slots.len() > SLOTS_MAX {
            Err(FieldError::TooMany)
        } else {
            Ok(fields)
        }
    }

    /// Adds names for a meaning. They rank below those it already has.
    fn add(&mut self, meaning: FieldRole, names: impl IntoIterator<Item = String>) {
        let slot = self
            .slots
            .iter()
            .position(|known| *known == meaning)
            .unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(meaning);
        }

        for name in names {
            let rank = self
                .names
                .values()
                .flatten()
                .filter(|(known, _)| *known == slot)
                .count();
            self.names
                .entry(normalized(&name).into())
                .or_default()
                .push((slot, rank));
        }
    }

    /// The slots for a normalized name, each with the rank of the name.
    pub(super) fn slots_for(&self, name: &str) -> &[(usize, usize)] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The meaning of a field that has the value of an attribute.
fn meaning(attribute: &Attribute) -> FieldRole {
    match attribute.kind() {
        AttributeKind::ClientIp => FieldRole::ClientIp,
        AttributeKind::Method => FieldRole::Method,
        AttributeKind::Path => FieldRole::Target,
        AttributeKind::Host => FieldRole::Host,
        AttributeKind::Header
        | AttributeKind::Query
        | AttributeKind::Cookie
        | AttributeKind::Custom => FieldRole::Other(attribute.clone()),
    }
}

/// The field names under which logs usually have an attribute without built-in names.
fn names(attribute: &Attribute) -> Vec<String> {
    let field = attribute.field();

    match attribute.kind() {
        AttributeKind::Header => {
            let prefixes = [
                "http_",
                "",
                "request.headers.",
                "headers.",
                "request_",
                "request_header_",
            ];
            prefixes
                .iter()
                .map(|prefix| format!("{prefix}{field}"))
                .collect()
        }
        AttributeKind::Cookie => vec![format!("cookie_{field}"), format!("cookies.{field}")],
        AttributeKind::Query => vec![format!("arg_{field}"), format!("query.{field}")],
        _ if field == "user" => USER.iter().map(ToString::to_string).collect(),
        _ => vec![field.to_owned()],
    }
}

/// The name in lower case, with `_` instead of `-`.
pub(super) fn normalized(name: &str) -> String {
    let mut normalized = String::new();
    push_normalized(&mut normalized, name);
    normalized
}

pub(super) fn push_normalized(to: &mut String, name: &str) {
    to.extend(name.chars().map(|c| {
        if c == '-' {
            '_'
        } else {
            c.to_ascii_lowercase()
        }
    }));
}
