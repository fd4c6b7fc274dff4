//! `/v1/limits`: the configured limits, for clients that check names before the first request and
//! follow the limits' failure policies when they cannot reach the service.

use serde_json::{Value, json};
use tollgate::FailurePolicy;
use tollgate_rules::Attribute;

use super::error::ApiError;
use super::json::JsonBody;
use super::operation::{Answer, ApiContext};

/// The body of `/v1/limits`: an object without members.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsBody {}

/// Lists the limits in the order of the file, each with the attributes of its key.
pub(super) fn limits(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let LimitsBody {} = body.decode()?;

    let limits = context.active.config.limits.iter().map(|limit| {
        let key: Vec<_> = limit.key.attributes().map(Attribute::name).collect();
        let policy = match limit.rule.on_store_failure() {
            FailurePolicy::Deny => "deny",
            FailurePolicy::Local => "local",
            _ => "allow",
        };
        json!({"name": limit.rule.name().as_str(), "key": key, "on_store_failure": policy})
    });
    let limits: Value = limits.collect();
    Ok(Answer::done(json!({ "limits": limits }).to_string()))
}
