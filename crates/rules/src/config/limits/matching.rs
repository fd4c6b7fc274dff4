//! `match`: which requests a limit is about.

use std::net::IpAddr;

use tollgate_subject::{Case, Glob};

use crate::attribute::{Attribute, AttributeKind};
use crate::config::field::{Field, every};
use crate::config::tree::{Entry, Value};
use crate::rule::{Condition, Match, Pattern};

const MATCH: &str = "write a mapping, such as { method: POST, path: \"/v1/**\" }";
const VALUE: &str = "write a text, or a list of texts one of which must fit";
const METHOD: &str = "write a method, such as GET or POST, or a list of them";
const ADDRESS: &str = "write an address, such as 203.0.113.7, or a pattern, such as 203.0.113.*";
const PATTERN: &str = "write a pattern of at most 255 bytes and 16 stars, such as /v1/**";
const TEXT_MAX: usize = 1_024;

pub(super) fn read(field: &Field<'_>) -> Option<Match> {
    let table = field.open_table(MATCH)?;
    let conditions = every(table.entries().map(|(entry, value)| {
        let attribute: Option<Attribute> = entry
            .key
            .written
            .parse()
            .map_err(|error| tell(&table, entry, &error))
            .ok();
        condition(&value, attribute?)
    }));
    Some(Match {
        conditions: conditions?,
    })
}

fn tell(
    table: &crate::config::table::Table<'_>,
    entry: &Entry,
    error: &crate::attribute::AttributeError,
) {
    if entry.key.is_private() {
        table.fault_at_key(
            entry,
            "a URL is no attribute; write one such as path, host or header:x-api-key",
        );
    } else {
        table.fault_at_key(entry, error);
    }
}

fn condition(field: &Field<'_>, attribute: Attribute) -> Option<Condition> {
    let items = if matches!(field.node.value, Value::Text(_)) {
        vec![field.clone()]
    } else {
        field.list(VALUE)?
    };
    if items.is_empty() {
        field.fault(
            "found an empty list, which nothing fits; name a value, or leave the condition out",
        );
        return None;
    }
    let any_of = every(items.iter().map(|item| pattern(item, attribute.kind())))?;
    Some(Condition { attribute, any_of })
}

/// Both sides are compared in one spelling, so a pattern is brought into it here, once.
fn pattern(field: &Field<'_>, kind: AttributeKind) -> Option<Pattern> {
    let text = field.text(VALUE)?;
    if text.len() > TEXT_MAX {
        field.fault(format_args!(
            "found {} bytes; a value has at most {TEXT_MAX}",
            text.len()
        ));
        return None;
    }
    let has_stars = text.contains('*');
    match kind {
        AttributeKind::Path => field
            .checked(Glob::for_path(text, Case::Sensitive), PATTERN)
            .map(Pattern::Glob),
        AttributeKind::Method => method(field, text),
        AttributeKind::Host if has_stars => glob(field, &text.to_lowercase(), Case::Insensitive),
        AttributeKind::Host => Some(Pattern::Exact(text.to_lowercase().into())),
        _ if has_stars => glob(field, text, Case::Sensitive),
        AttributeKind::ClientIp => address(field, text),
        _ => Some(Pattern::Exact(text.into())),
    }
}

fn glob(field: &Field<'_>, text: &str, case: Case) -> Option<Pattern> {
    field
        .checked(Glob::new(text, case), PATTERN)
        .map(Pattern::Glob)
}

fn method(field: &Field<'_>, text: &str) -> Option<Pattern> {
    let is_token = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
    if text.len() > 32 || !text.chars().all(is_token) {
        field.wrong(METHOD);
        return None;
    }
    Some(Pattern::Exact(text.to_ascii_uppercase().into()))
}

fn address(field: &Field<'_>, text: &str) -> Option<Pattern> {
    let Ok(address) = text.parse::<IpAddr>() else {
        field.wrong(ADDRESS);
        return None;
    };
    Some(Pattern::Exact(address.to_canonical().to_string().into()))
}
