//! The operations of the decision API: each has a path of its own, and a name in a batch.

use tollgate::store::Intent;
use tollgate_rules::{Permission, RequestedLimit};

use super::body::{BodyText, JsonBody, NamedAttributes};
use super::error::ApiError;
use super::requested_limit::LimitEntry;
use crate::gate::{ActiveConfig, Caller, CheckOptions, Gate, GateDecision, GateInspection};

/// An operation that a request body asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiOperation {
    Check,
    Peek,
    Refund,
    Release,
}

/// Every operation with its name in a batch.
const OPERATIONS: [(&str, ApiOperation); 4] = [
    ("check", ApiOperation::Check),
    ("peek", ApiOperation::Peek),
    ("refund", ApiOperation::Refund),
    ("release", ApiOperation::Release),
];

/// What an operation answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// A decision: 200, 429 or 503.
    Decision(GateDecision),
    /// The decision of a peek, with what the counters contain.
    Inspection(GateInspection),
    /// A JSON text with status 200.
    Done(&'static str),
}

/// What all operations of a request share.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiContext<'c> {
    pub(super) gate: &'c Gate,
    pub(super) active: &'c ActiveConfig,
    /// Who asks.
    pub(super) caller: Caller,
}

impl ApiOperation {
    /// The operation with this name in a batch.
    pub(super) fn from_name(name: Option<&str>) -> Result<Self, ApiError> {
        let mut operations = OPERATIONS.iter();
        let found = operations.find(|(known, _)| Some(*known) == name);
        found.map(|(_, operation)| *operation).ok_or_else(|| {
            let names = OPERATIONS.map(|(known, _)| known).join(", ");
            let found = match name {
                None => "missing field `op`".to_owned(),
                Some("batch") => "a batch cannot contain a batch".to_owned(),
                Some(name) => {
                    let name: String = name.chars().take(80).collect();
                    format!("unknown `op` {name:?}")
                }
            };
            let detail = format!("{found}; expected one of {names}");
            ApiError::unprocessable("unknown-operation", detail)
        })
    }

    /// What a token must allow for this operation.
    pub(super) const fn permission(self) -> Permission {
        match self {
            Self::Check => Permission::Check,
            Self::Peek => Permission::Peek,
            Self::Refund => Permission::Refund,
            Self::Release => Permission::Release,
        }
    }

    /// Carries out the operation, for which the caller has the permission.
    pub(super) async fn answer(
        self,
        context: ApiContext<'_>,
        body: JsonBody<'_>,
    ) -> Result<Answer, ApiError> {
        // Less frequent operations are boxed, to keep the future of a check small.
        match self {
            Self::Check => decide(context, body, Intent::Spend).await,
            Self::Peek => Box::pin(peek(context, body)).await,
            Self::Refund => Box::pin(refund(context, body)).await,
            Self::Release => Box::pin(release(context, body)).await,
        }
    }
}

async fn decide(
    context: ApiContext<'_>,
    body: JsonBody<'_>,
    intent: Intent,
) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;

    let options = body.options(intent);
    let decision = gate.decide(active, &body.attributes, options).await?;
    Ok(Answer::Decision(decision))
}

async fn peek(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;

    let options = body.options(Intent::Peek);
    let inspection = gate.inspect(active, &body.attributes, options).await?;
    Ok(Answer::Inspection(inspection))
}

async fn refund(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;

    let options = body.options(Intent::Spend);
    gate.refund(active, &body.attributes, options).await?;
    Ok(Answer::Done(r#"{"refunded":true}"#))
}

async fn release(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: ReleaseBody<'_> = body.decode()?;

    let permit = context.gate.open_permit(&body.permit.0)?;
    let was_held = context.gate.release(&permit).await?;
    Ok(Answer::Done(if was_held {
        r#"{"released":true}"#
    } else {
        r#"{"released":false}"#
    }))
}

/// The body of `/v1/check`, `/v1/peek` and `/v1/refund`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFields<'b> {
    #[serde(borrow, default)]
    attributes: NamedAttributes<'b>,
    #[serde(borrow, default)]
    limits: Option<Vec<LimitEntry<'b>>>,
    #[serde(default)]
    cost: Option<u64>,
}

/// The body of `/v1/release`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody<'b> {
    #[serde(borrow)]
    permit: BodyText<'b>,
}

/// What a check, a peek or a refund asks for.
struct CheckBody<'b> {
    attributes: NamedAttributes<'b>,
    limits: Option<Vec<RequestedLimit<'b>>>,
    cost: Option<u64>,
}

impl<'b> CheckBody<'b> {
    fn decode(body: JsonBody<'b>, context: ApiContext<'_>) -> Result<Self, ApiError> {
        let fields: CheckFields<'b> = body.decode()?;
        let limits: Option<Vec<RequestedLimit<'b>>> = fields
            .limits
            .map(|limits| limits.into_iter().map(|LimitEntry(limit)| limit).collect());

        let requested = limits.as_deref().unwrap_or_default();
        if limits.is_some() && requested.is_empty() {
            return Err(ApiError::unprocessable(
                "no-limits",
                "`limits` is empty: leave it out to check every limit whose conditions match",
            ));
        }
        if requested.iter().any(|limit| limit.inline.is_some()) {
            context.active.permit(context.caller, Permission::Inline)?;
        }

        Ok(Self {
            attributes: fields.attributes,
            limits,
            cost: fields.cost,
        })
    }

    fn options(&self, intent: Intent) -> CheckOptions<'_> {
        CheckOptions {
            limits: self.limits.as_deref(),
            cost: self.cost,
            intent,
        }
    }
}
