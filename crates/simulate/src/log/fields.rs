//! Where a line of JSON holds what a limit wants to know.
//!
//! Every program that logs JSON has its own names. Those of nginx's usual configurations, Caddy and
//! Traefik are known here; others are told with `--field`. Names are compared in small letters and
//! with `_` for `-`, and the names of objects within objects are joined by points.

use std::collections::HashMap;

use ahash::RandomState;
use tollgate_rules::{Attribute, AttributeError, AttributeKind};

/// The most values that are taken from a line.
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

/// What a value of a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Time,
    ClientIp,
    Method,
    /// A path, with or without host and query.
    Target,
    /// Method, target and version.
    Request,
    /// A query by itself.
    Query,
    Host,
    /// A header, a cookie or an attribute of one's own.
    Other(Attribute),
}

/// The names of fields, and what their values are.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    pub(super) slots: Vec<Meaning>,
    /// For each name the slots that its value may fill, each with a rank: of several names the
    /// lowest rank counts.
    names: HashMap<Box<str>, Vec<(usize, usize)>, RandomState>,
}

/// `--field` says something that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// There is no attribute of this name.
    #[error("{0}")]
    Attribute(#[from] AttributeError),
    /// No field is named.
    #[error("the field for `{name}` has no name; write NAME=FIELD, as in time=ts")]
    NoField {
        /// What the field is for.
        name: String,
    },
    /// The limits look at more attributes than are taken from a line.
    #[error("the limits look at more than {SLOTS_MAX} attributes; leave some limits out")]
    TooMany,
}

impl Fields {
    /// The fields for these attributes. `given` are names and fields as in `time=ts`, which go
    /// before those that are known here.
    pub fn new<'a>(
        attributes: impl IntoIterator<Item = &'a Attribute>,
        given: &[(String, String)],
    ) -> Result<Self, FieldError> {
        let mut fields = Self::default();
        for (name, field) in given {
            if field.is_empty() {
                return Err(FieldError::NoField { name: name.clone() });
            }
            let meaning = if name == "time" {
                Meaning::Time
            } else {
                meaning(&name.parse()?)
            };
            fields.add(meaning, [field.clone()]);
        }
        for (meaning, names) in [
            (Meaning::Time, TIME),
            (Meaning::ClientIp, CLIENT_IP),
            (Meaning::Method, METHOD),
            (Meaning::Target, TARGET),
            (Meaning::Request, REQUEST),
            (Meaning::Query, QUERY),
            (Meaning::Host, HOST),
        ] {
            fields.add(meaning, names.iter().map(ToString::to_string));
        }
        for attribute in attributes {
            if let Meaning::Other(attribute) = meaning(attribute) {
                let names = names(&attribute);
                fields.add(Meaning::Other(attribute), names);
            }
        }
        if fields.slots.len() > SLOTS_MAX {
            Err(FieldError::TooMany)
        } else {
            Ok(fields)
        }
    }

    /// Adds names, which count less than those that are there.
    fn add(&mut self, meaning: Meaning, names: impl IntoIterator<Item = String>) {
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
                .entry(one_spelling(&name).into())
                .or_default()
                .push((slot, rank));
        }
    }

    /// The slots for a name that is in one spelling.
    pub(super) fn of(&self, name: &str) -> &[(usize, usize)] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }
}

/// What a value is that stands for an attribute. A query's parameters come with the target.
fn meaning(attribute: &Attribute) -> Meaning {
    match attribute.kind() {
        AttributeKind::ClientIp => Meaning::ClientIp,
        AttributeKind::Method => Meaning::Method,
        AttributeKind::Path => Meaning::Target,
        AttributeKind::Host => Meaning::Host,
        AttributeKind::Header
        | AttributeKind::Query
        | AttributeKind::Cookie
        | AttributeKind::Own => Meaning::Other(attribute.clone()),
    }
}

/// The names under which logs have an attribute that is not known by itself.
fn names(attribute: &Attribute) -> Vec<String> {
    let field = attribute.field();
    match attribute.kind() {
        AttributeKind::Header => {
            let before = [
                "http_",
                "",
                "request.headers.",
                "headers.",
                "request_",
                "request_header_",
            ];
            before
                .iter()
                .map(|before| format!("{before}{field}"))
                .collect()
        }
        AttributeKind::Cookie => vec![format!("cookie_{field}"), format!("cookies.{field}")],
        AttributeKind::Query => vec![format!("arg_{field}"), format!("query.{field}")],
        _ if field == "user" => USER.iter().map(ToString::to_string).collect(),
        _ => vec![field.to_owned()],
    }
}

/// Small letters, and `_` for `-`.
pub(super) fn one_spelling(name: &str) -> String {
    let mut spelt = String::new();
    push_spelling(&mut spelt, name);
    spelt
}

pub(super) fn push_spelling(spelt: &mut String, name: &str) {
    spelt.extend(name.chars().map(|c| {
        if c == '-' {
            '_'
        } else {
            c.to_ascii_lowercase()
        }
    }));
}
