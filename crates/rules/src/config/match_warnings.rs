//! Warnings about conditions that hold for no request, so that their limit never applies. What can
//! be recognised in a single pattern of a path is an error of its reader instead.

use super::field::ConfigField;
use super::field_map::FieldMap;
use crate::attribute::AttributeKind;
use crate::limit::{Condition, LimitConfig, Pattern};

/// Warns about each condition that never holds.
pub(super) fn add(limit: &LimitConfig, map: &FieldMap<'_>) {
    let Some(fields) = map.read("match", |field| FieldMap::with_free_keys(field, "")) else {
        return;
    };

    let values = fields.entries().map(|(_, value)| value);
    for (index, (condition, field)) in limit.conditions.iter().zip(values).enumerate() {
        let kind = condition.attribute.kind();
        let patterns = condition.any_of.iter();
        let reasons = patterns.map(|pattern| mismatch(kind, pattern.as_str()));
        let reasons: Option<Vec<String>> = reasons.collect();
        if let Some([reason, ..]) = reasons.as_deref() {
            warn(&field, reason);
        }

        let before = &limit.conditions[..index];
        if before.iter().any(|other| is_disjoint(other, condition)) {
            warn(
                &field,
                "both conditions on this attribute must hold, and no value meets both; write one \
                 condition with a list",
            );
        }
    }
}

fn warn(field: &ConfigField<'_>, reason: &str) {
    field.warn(format_args!(
        "the condition never holds, so the limit never applies: {reason}"
    ));
}

/// Whether two conditions are on the same attribute and have no value in common. Names of headers
/// can be written twice, in upper and in lower case.
fn is_disjoint(one: &Condition, other: &Condition) -> bool {
    let is_exact = |pattern: &Pattern| matches!(pattern, Pattern::Exact(_));
    one.attribute == other.attribute
        && one.any_of.iter().chain(&other.any_of).all(is_exact)
        && !one
            .any_of
            .iter()
            .any(|pattern| other.any_of.contains(pattern))
}

/// Why no value of this kind matches the pattern. `None` if one may.
fn mismatch(kind: AttributeKind, pattern: &str) -> Option<String> {
    match kind {
        AttributeKind::Host => host_mismatch(pattern),
        AttributeKind::ClientIp => {
            let is_part = |c: char| matches!(c, '0'..='9' | 'a'..='f' | '.' | ':' | '*');
            let odd = pattern.chars().find(|c| !is_part(*c))?;
            Some(format!(
                "no address contains {odd:?}; addresses are compared in lower case, and `*` is any \
                 text, as in 203.0.113.*"
            ))
        }
        AttributeKind::Header | AttributeKind::Cookie => {
            if pattern.trim_matches([' ', '\t']) != pattern {
                return Some("values are compared without spaces at their ends".to_owned());
            }
            let control = pattern.chars().find(|c| c.is_control() && *c != '\t')?;
            Some(format!("no value contains {control:?}"))
        }
        AttributeKind::Method
        | AttributeKind::Path
        | AttributeKind::Query
        | AttributeKind::Custom => None,
    }
}

fn host_mismatch(pattern: &str) -> Option<String> {
    if let Some((_, rest)) = pattern.split_once("://") {
        let host = rest.split(['/', ':']).next().unwrap_or_default();
        return Some(format!("a host has no scheme; write {host:?}"));
    }
    if let Some(sign) = pattern
        .chars()
        .find(|c| matches!(c, '/' | '?' | '#' | '@') || c.is_whitespace())
    {
        return Some(format!("no host contains {sign:?}"));
    }
    if let Some((host, port)) = pattern.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.contains(':')
    {
        return Some(format!("hosts are compared without a port; write {host:?}"));
    }
    let host = pattern.strip_suffix('.')?;
    Some(format!(
        "hosts are compared without a dot at the end; write {host:?}"
    ))
}
