//! `TOLLGATE.CHECK`: a limit of the configuration, with the value of its only key attribute.

use tollgate::algorithm::LeakyMode;
use tollgate::{Demand, EncodedKey, Quota};
use tollgate_gate::ActiveConfig;
use tollgate_gate::api::{NamedAttributes, select_code};
use tollgate_rules::{Attribute, LimitConfig, SelectError};

use super::error::RespError;
use super::integer::integer;

pub(super) const USAGE: &str = "TOLLGATE.CHECK limit key [cost]";

/// The largest cost that a store takes.
const COST_MAX: u64 = 1 << 53;

/// What a call asks of the counter of its key.
pub(super) fn select<'r>(
    active: &'r ActiveConfig,
    arguments: &[&[u8]],
) -> Result<Demand<'r, EncodedKey>, RespError> {
    let (limit, key, cost) = match arguments {
        [limit, key] => (limit, key, None),
        [limit, key, cost] => (limit, key, Some(integer(cost, "cost", 0..=COST_MAX)?)),
        _ => return Err(RespError::usage("tollgate.check", USAGE)),
    };
    let name = String::from_utf8_lossy(limit);
    let limit = active.selector.limit(&name)?;
    expect_plain(limit)?;

    let value = std::str::from_utf8(key).ok().filter(|key| !key.is_empty());
    let Some(value) = value else {
        let text = "invalid key; must be UTF-8 text that is not empty";
        return Err(RespError::new(text).because("bad-key"));
    };
    let mut attributes = NamedAttributes::default();
    let attribute = only_attribute(limit)?;
    attributes.0.push((attribute.name().into(), value.into()));

    let mut demands = active.selector.select_named(&[&name], &attributes, cost)?;
    // A single value makes a single key.
    let demand = demands.pop();
    demand.ok_or_else(|| RespError::new(format!("the limit `{name}` does not count this key")))
}

/// Rejects limits whose decisions do not fit into five integers.
fn expect_plain(limit: &LimitConfig) -> Result<(), RespError> {
    let reason = match limit.rule.quota() {
        Quota::Concurrency(_) => "gives permits, which must be released",
        Quota::LeakyBucket(bucket) if bucket.mode() == LeakyMode::Queue => "tells how long to wait",
        _ => return Ok(()),
    };
    Err(RespError::new(format!(
        "the limit `{}` {reason}; use POST /v1/check over HTTP",
        limit.rule.name()
    )))
}

/// The only attribute of a limit's key.
fn only_attribute(limit: &LimitConfig) -> Result<&Attribute, RespError> {
    if let [part] = limit.key.parts.as_slice()
        && let [attribute] = part.as_slice()
    {
        return Ok(attribute.attribute());
    }

    let name = limit.rule.name();
    let parts = limit.key.part_names();
    let found = if parts.is_empty() {
        "no attribute".to_owned()
    } else {
        format!("several attributes: {}", parts.join(", "))
    };
    Err(RespError::new(format!(
        "the key of the limit `{name}` has {found}; TOLLGATE.CHECK needs exactly one, use POST \
         /v1/check over HTTP"
    )))
}

impl From<SelectError> for RespError {
    fn from(error: SelectError) -> Self {
        Self::new(error.to_string()).because(select_code(&error))
    }
}
