//! `match`: the conditions under which a limit applies.

use std::net::IpAddr;

use tollgate_subject::{Case, Glob, GlobError};

use crate::attribute::{Attribute, AttributeKind};
use crate::config::field::{ConfigField, FieldMap, collect_all};
use crate::config::values::{ValueError, ValueKind};
use crate::limit::{Condition, Pattern};

const TEXT_MAX: usize = 1_024;
const METHOD_MAX: usize = 32;
const VALUE: &str = "expected a string or a list of strings";
const GLOB: &str = "expected a pattern of at most 255 bytes and 16 stars, such as /v1/**";

// Patterns are normalised the way the values of requests are normalised.
const EXACT_PATH: ValueKind<Pattern> = ValueKind::new("pattern", GLOB, |text| {
    glob(Glob::for_path(text, Case::Sensitive))
});
const PATH: ValueKind<Pattern> = ValueKind::new("pattern", GLOB, |text| {
    glob(Glob::for_path(text, Case::Insensitive))
});
const HOST: ValueKind<Pattern> = ValueKind::new("pattern", GLOB, |text| {
    exact_or_glob(&text.to_lowercase(), Case::Insensitive)
});
const TEXT: ValueKind<Pattern> =
    ValueKind::new("pattern", GLOB, |text| exact_or_glob(text, Case::Sensitive));
const METHOD: ValueKind<Pattern> = ValueKind::new(
    "method",
    "expected an HTTP method, such as GET or POST, or a list of methods",
    |text| {
        let is_valid = |c: char| c.is_ascii_alphabetic() || c == '-' || c == '_';
        (text.len() <= METHOD_MAX && text.chars().all(is_valid))
            .then(|| Pattern::Exact(text.to_ascii_uppercase().into()))
            .ok_or(ValueError::Unexpected)
    },
);
const ADDRESS: ValueKind<Pattern> = ValueKind::new(
    "address",
    "expected an IP address, such as 203.0.113.7, or a pattern, such as 203.0.113.*",
    |text| {
        let address: IpAddr = text.parse().map_err(|_| ValueError::Unexpected)?;
        Ok(Pattern::Exact(address.to_canonical().to_string().into()))
    },
);
fn exact_or_glob(text: &str, case: Case) -> Result<Pattern, ValueError> {
    if text.contains('*') {
        glob(Glob::new(text, case))
    } else {
        Ok(Pattern::Exact(text.into()))
    }
}

fn glob(glob: Result<Glob, GlobError>) -> Result<Pattern, ValueError> {
    glob.map(Pattern::Glob).map_err(ValueError::message)
}

/// Reads the conditions. `case` is for paths; everything else has a rule of its own.
pub(super) fn read(field: &ConfigField<'_>, case: Case) -> Option<Vec<Condition>> {
    let expected = "expected a mapping, such as { method: POST, path: \"/v1/**\" }";
    let mapping = FieldMap::with_free_keys(field, expected)?;

    collect_all(mapping.entries().map(|(entry, value)| {
        let attribute = entry.key.text.parse::<Attribute>().map_err(|error| {
            // A URL may contain a password, so it is not shown.
            let message = if entry.key.is_private() {
                "a URL is not an attribute; expected one such as path, host or header:x-api-key"
                    .into()
            } else {
                error.to_string()
            };
            mapping.error_at_key(entry, message);
        });
        read_condition(&value, attribute.ok()?, case)
    }))
}

fn read_condition(field: &ConfigField<'_>, attribute: Attribute, case: Case) -> Option<Condition> {
    let items = if field.scalar().is_some() {
        vec![field.clone()]
    } else {
        field.items(VALUE)?
    };
    if items.is_empty() {
        return field
            .fail("the list is empty and never matches; add a value, or remove the condition");
    }

    let pattern = |item: &ConfigField<'_>| read_pattern(item, attribute.kind(), case);
    let any_of = collect_all(items.iter().map(pattern))?;
    Some(Condition { attribute, any_of })
}

fn read_pattern(field: &ConfigField<'_>, attribute: AttributeKind, case: Case) -> Option<Pattern> {
    let text = field.string("value", VALUE)?;
    if text.len() > TEXT_MAX {
        let found = text.len();
        return field.fail(format_args!(
            "value too long: found {found} bytes, at most {TEXT_MAX} are allowed"
        ));
    }

    field.value(match attribute {
        AttributeKind::Path if case == Case::Sensitive => &EXACT_PATH,
        AttributeKind::Path => &PATH,
        AttributeKind::Method => &METHOD,
        AttributeKind::Host => &HOST,
        AttributeKind::ClientIp if !text.contains('*') => &ADDRESS,
        _ => &TEXT,
    })
}
