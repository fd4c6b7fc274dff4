//! Warnings about settings that are valid and still do not do what their author expects: a key that
//! forward-auth never has, a pair of attributes on a login, a condition that holds for no request,
//! a setting that has no effect with the memory store.

use tollgate::Consistency;

use super::diagnostic::Diagnostic;
use super::field::{ConfigField, FieldMap};
use super::names::CONSISTENCIES;
use super::store::StoreConfig;
use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::KeyAttribute;
use crate::limit::{Condition, LimitConfig, Pattern};

/// The most warnings about forward-auth.
const FORWARD_AUTH_MAX: usize = 100;
/// Parts of the names and paths of logins, in lower case and without `-` and `_`.
const LOGIN_WORDS: [&str; 10] = [
    "login", "logon", "signin", "signup", "register", "password", "passwd", "otp", "2fa", "mfa",
];

/// Adds the warnings about every limit. Returns those about forward-auth, which hold only if a
/// proxy uses it. The root must have been read without an error.
pub(super) fn add_for_limits(root: &FieldMap<'_>, limits: &[LimitConfig]) -> Vec<Diagnostic> {
    let fields = root.read("limits", |field| field.items(""));
    let fields = fields.unwrap_or_default();
    let maps = fields
        .iter()
        .filter_map(|field| FieldMap::with_free_keys(field, ""));

    let mut forward_auth = Vec::new();
    for (limit, map) in limits.iter().zip(maps) {
        warn_about_pair(limit, &map);
        warn_about_conditions(limit, &map);
        forward_auth.extend(forward_auth_warnings(limit, &map));
    }

    forward_auth.truncate(FORWARD_AUTH_MAX);
    if is_behind_proxy(root) {
        for warning in &forward_auth {
            root.field.diagnostics.warn(warning.clone());
        }
    }
    forward_auth
}

/// Whether the file has settings that are for forward-auth alone.
fn is_behind_proxy(root: &FieldMap<'_>) -> bool {
    let clients = root.get("client_ip");
    let trusted = clients.and_then(|field| field.node.get("trusted_proxies"));
    let has_trusted = trusted.is_some_and(|networks| !networks.items().is_empty());
    has_trusted || root.get("denial").is_some()
}

/// What of a limit cannot work with forward-auth. A proxy describes a request of HTTP, so custom
/// attributes are never among what it sends.
fn forward_auth_warnings(limit: &LimitConfig, map: &FieldMap<'_>) -> Vec<Diagnostic> {
    let at = |field: &str, message: String| Some(map.get(field)?.diagnostic(message));
    let mut conditions = limit
        .conditions
        .iter()
        .map(|condition| &condition.attribute);
    if let Some(attribute) = conditions.find(|attribute| is_custom(attribute)) {
        let message = format!(
            "forward-auth never has `{attribute}`, so this limit never applies there; match by \
             what a proxy sends: client_ip, method, path, host, a header, a query parameter or a \
             cookie"
        );
        return at("match", message).into_iter().collect();
    }

    let is_missing = |part: &&Vec<KeyAttribute>| part.iter().all(|key| is_custom(key.attribute()));
    let missing = limit.key.parts.iter().find(is_missing);
    let key = missing.filter(|_| !limit.optional).and_then(|part| {
        let names: Vec<&str> = part.iter().map(|key| key.attribute().name()).collect();
        let names = names.join(" | ");
        let effect = if limit.rule.is_shadow() {
            "so this limit counts nothing there"
        } else {
            "so every request that matches is refused there"
        };
        let message = format!(
            "forward-auth never has `{names}`, {effect}; write `optional: true` if only other \
             callers send it, or count by what a proxy sends, such as client_ip or a header"
        );
        at("key", message)
    });

    let tiers = limit.tiers.as_ref().filter(|tiers| is_custom(&tiers.by));
    let tier = tiers.and_then(|tiers| {
        let (by, default) = (&tiers.by, &tiers.default);
        let message = format!(
            "forward-auth never has `{by}`, so the tier is always `{default}` there; use a header \
             that your proxy sets and clients cannot, such as `by: header:x-tier`"
        );
        at("tier", message)
    });
    key.into_iter().chain(tier).collect()
}

fn is_custom(attribute: &Attribute) -> bool {
    attribute.kind() == AttributeKind::Custom
}

/// Warns about a login that is counted by the address and the account together: that stops neither
/// one address with many accounts nor many addresses with one account.
fn warn_about_pair(limit: &LimitConfig, map: &FieldMap<'_>) {
    let has_address = |part: &Vec<KeyAttribute>| {
        let mut kinds = part.iter().map(|key| key.attribute().kind());
        kinds.any(|kind| kind == AttributeKind::ClientIp)
    };
    let is_account = |part: &&Vec<KeyAttribute>| {
        let mut attributes = part.iter().map(KeyAttribute::attribute);
        attributes.any(|attribute| is_custom(attribute) || attribute.is_field())
    };
    let parts = &limit.key.parts;
    let account = parts
        .iter()
        .find(|part| !has_address(part) && is_account(part));

    if parts.iter().any(has_address)
        && is_login(limit)
        && let Some(account) = account.and_then(|part| part.first())
        && let Some(field) = map.get("key")
    {
        field.warn(format_args!(
            "this counts pairs: one address may try every account, and many addresses may try one \
             account, without using up the limit; write two limits, one with `key: [client_ip]` \
             and one with `key: [\"{account}\"]`"
        ));
    }
}

/// Whether the name or a path of a limit looks like a login.
fn is_login(limit: &LimitConfig) -> bool {
    let paths = limit
        .conditions
        .iter()
        .filter(|condition| condition.attribute.kind() == AttributeKind::Path)
        .flat_map(|condition| &condition.any_of)
        .map(Pattern::as_str);

    let mut texts = paths.chain([limit.rule.name().as_str()]);
    texts.any(|text| {
        let mut text = text.to_ascii_lowercase();
        text.retain(|c| c.is_ascii_alphanumeric());
        LOGIN_WORDS.iter().any(|word| text.contains(word))
    })
}

/// Warns about each condition that never holds.
fn warn_about_conditions(limit: &LimitConfig, map: &FieldMap<'_>) {
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

/// Adds one warning for each such setting, at the first place where the file has it. The root must
/// have been read without an error.
pub(super) fn add_for_memory(root: &FieldMap<'_>, store: &StoreConfig) {
    let StoreConfig::Memory { snapshot, .. } = store else {
        return;
    };

    let limits = root.read("limits", |field| field.items(""));
    let sections = root
        .get("defaults")
        .into_iter()
        .chain(limits.into_iter().flatten());
    let sections: Vec<_> = sections
        .filter_map(|field| FieldMap::with_free_keys(&field, ""))
        .collect();
    let settings = |name: &'static str| sections.iter().filter_map(move |map| map.get(name));
    let consistencies = |wanted: &'static [Consistency]| {
        settings("consistency").filter(move |field| {
            let found = field.choice(CONSISTENCIES);
            found.is_some_and(|found| wanted.contains(&found))
        })
    };

    warn_once(
        settings("expected_replicas").filter(is_several),
        "the memory store is not shared: every process counts by itself, so several replicas \
         together admit a multiple of each limit; share the counters with a Redis store",
    );
    warn_once(
        consistencies(&[Consistency::Leased, Consistency::Eventual]),
        "no effect with the memory store: every process counts by itself; use a Redis store to \
         share the counters, or remove the setting",
    );
    warn_once(
        settings("on_store_failure"),
        "no effect with the memory store: it is never unavailable, but every process counts by \
         itself; use a Redis store to share the counters, or remove the setting",
    );
    if snapshot.is_some() {
        warn_once(
            consistencies(&[Consistency::Local]),
            "the snapshot does not contain `local` limits, so a restart resets them; `strict` is \
             the same with the memory store, and is saved",
        );
    }
}

fn is_several(replicas: &ConfigField<'_>) -> bool {
    replicas.integer_in::<u64>(1..=u64::MAX) > Some(1)
}

fn warn_once<'a>(mut settings: impl Iterator<Item = ConfigField<'a>>, message: &str) {
    let Some(first) = settings.next() else { return };
    match settings.count() {
        0 => first.warn(message),
        1 => first.warn(format_args!("{message} (also in 1 other place)")),
        more => first.warn(format_args!("{message} (also in {more} other places)")),
    }
}
