//! `match`: the conditions under which a limit applies.

use std::net::IpAddr;

use tollgate_subject::{Case, Glob};

use crate::attribute::{Attribute, AttributeError, AttributeKind};
use crate::config::field::{ConfigField, Expectation, collect_all};
use crate::config::field_map::FieldMap;
use crate::config::yaml::{YamlEntry, YamlValue};
use crate::limit::{Condition, Pattern};

const MATCH: Expectation<'static> =
    Expectation::value("expected a mapping, such as { method: POST, path: \"/v1/**\" }");
const VALUE: Expectation<'static> = Expectation::value("expected a string or a list of strings");
const METHOD: Expectation<'static> = Expectation::new(
    "method",
    "expected an HTTP method, such as GET or POST, or a list of methods",
);
const ADDRESS: Expectation<'static> = Expectation::new(
    "address",
    "expected an IP address, such as 203.0.113.7, or a pattern, such as 203.0.113.*",
);
const PATTERN: Expectation<'static> = Expectation::new(
    "pattern",
    "expected a pattern of at most 255 bytes and 16 stars, such as /v1/**",
);
const TEXT_MAX: usize = 1_024;
const METHOD_MAX: usize = 32;

pub(super) fn read(field: &ConfigField<'_>) -> Option<Vec<Condition>> {
    let mapping = field.free_mapping(MATCH)?;

    collect_all(mapping.entries().map(|(entry, value)| {
        let attribute: Option<Attribute> = entry
            .key
            .text
            .parse()
            .map_err(|error| reject_attribute(&mapping, entry, &error))
            .ok();
        read_condition(&value, attribute?)
    }))
}

fn reject_attribute(mapping: &FieldMap<'_>, entry: &YamlEntry, error: &AttributeError) {
    // A URL may contain a password, so it is not shown.
    if entry.key.is_private() {
        mapping.error_at_key(
            entry,
            "a URL is not an attribute; expected one such as path, host or header:x-api-key",
        );
    } else {
        mapping.error_at_key(entry, error);
    }
}

fn read_condition(field: &ConfigField<'_>, attribute: Attribute) -> Option<Condition> {
    let items = if matches!(field.node.value, YamlValue::Scalar(_)) {
        vec![field.clone()]
    } else {
        field.list(VALUE)?
    };
    if items.is_empty() {
        field.error("the list is empty and never matches; add a value, or remove the condition");
        return None;
    }

    let patterns = items
        .iter()
        .map(|item| read_pattern(item, attribute.kind()));
    let any_of = collect_all(patterns)?;
    Some(Condition { attribute, any_of })
}

/// Reads a pattern and normalises it the way the values of requests are normalised.
fn read_pattern(field: &ConfigField<'_>, kind: AttributeKind) -> Option<Pattern> {
    let text = field.string(VALUE)?;
    if text.len() > TEXT_MAX {
        let found = text.len();
        field.error(format_args!(
            "value too long: found {found} bytes, at most {TEXT_MAX} are allowed"
        ));
        return None;
    }

    let has_stars = text.contains('*');
    match kind {
        AttributeKind::Path => field
            .parsed(Glob::for_path(text, Case::Sensitive), PATTERN)
            .map(Pattern::Glob),
        AttributeKind::Method => method(field, text),
        AttributeKind::Host if has_stars => glob(field, &text.to_lowercase(), Case::Insensitive),
        AttributeKind::Host => Some(Pattern::Exact(text.to_lowercase().into())),
        _ if has_stars => glob(field, text, Case::Sensitive),
        AttributeKind::ClientIp => address(field, text),
        _ => Some(Pattern::Exact(text.into())),
    }
}

fn glob(field: &ConfigField<'_>, text: &str, case: Case) -> Option<Pattern> {
    field
        .parsed(Glob::new(text, case), PATTERN)
        .map(Pattern::Glob)
}

fn method(field: &ConfigField<'_>, text: &str) -> Option<Pattern> {
    let is_valid = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
    if text.len() > METHOD_MAX || !text.chars().all(is_valid) {
        field.unexpected(METHOD);
        return None;
    }
    Some(Pattern::Exact(text.to_ascii_uppercase().into()))
}

fn address(field: &ConfigField<'_>, text: &str) -> Option<Pattern> {
    let Ok(address) = text.parse::<IpAddr>() else {
        field.unexpected(ADDRESS);
        return None;
    };
    Some(Pattern::Exact(address.to_canonical().to_string().into()))
}
