//! Warnings about limits that are valid and still do not do what their author expects: a key that
//! forward-auth never has, a pair of attributes on a login, a condition that never holds.

use super::diagnostic::Diagnostic;
use super::field_map::FieldMap;
use super::match_warnings;
use crate::attribute::{Attribute, AttributeKind};
use crate::key_attribute::KeyAttribute;
use crate::limit::{LimitConfig, Pattern};

/// The most warnings about forward-auth.
const FORWARD_AUTH_MAX: usize = 100;
/// Parts of the names and paths of logins, in lower case and without `-` and `_`.
const LOGIN_WORDS: [&str; 10] = [
    "login", "logon", "signin", "signup", "register", "password", "passwd", "otp", "2fa", "mfa",
];

/// Adds the warnings about every limit. Returns those about forward-auth, which hold only if a
/// proxy uses it. The root must have been read without an error.
pub(super) fn add(root: &FieldMap<'_>, limits: &[LimitConfig]) -> Vec<Diagnostic> {
    let fields = root.read("limits", |field| field.items(""));
    let fields = fields.unwrap_or_default();
    let maps = fields
        .iter()
        .filter_map(|field| FieldMap::with_free_keys(field, ""));

    let mut forward_auth = Vec::new();
    for (limit, map) in limits.iter().zip(maps) {
        warn_about_pair(limit, &map);
        match_warnings::add(limit, &map);
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
