//! The operations of the decision API: each has a path of its own, and a name in a batch.

use std::time::Duration;

use tollgate::Micros;
use tollgate::limiter::{RESERVATION_TTL_DEFAULT, RESERVATION_TTL_MAX};
use tollgate::store::{Intent, SettlementKind};
use tollgate_rules::{Permission, RequestedLimit};

use super::answer::Answer;
use super::error::ApiError;
use super::json::{BodyText, CountedTokens, JsonBody, NamedAttributes};
use super::requested_limit::LimitEntry;
use crate::{ActiveConfig, Caller, CheckOptions, Gate, GateSettlement, RequestOrigin, SettledCost};

/// An operation that a request body asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiOperation {
    /// Decides and charges.
    Check,
    /// Decides, and tells what the counters contain.
    Peek,
    /// Gives back what a check charged.
    Refund,
    /// Ends a permit.
    Release,
    /// Charges an estimate.
    Reserve,
    /// Applies the actual cost of a reservation.
    Settle,
    /// Gives back what was reserved.
    Cancel,
    /// Forgets what a key has used.
    Reset,
}

/// Every operation with its name in a batch.
const OPERATIONS: [(&str, ApiOperation); 8] = [
    ("check", ApiOperation::Check),
    ("peek", ApiOperation::Peek),
    ("refund", ApiOperation::Refund),
    ("release", ApiOperation::Release),
    ("reserve", ApiOperation::Reserve),
    ("settle", ApiOperation::Settle),
    ("cancel", ApiOperation::Cancel),
    ("reset", ApiOperation::Reset),
];

/// What all operations of a request share.
#[derive(Clone, Copy, Debug)]
pub struct ApiContext<'c> {
    /// Decides.
    pub gate: &'c Gate,
    /// The configuration that decides.
    pub active: &'c ActiveConfig,
    /// Who asks.
    pub caller: Caller,
    /// Where the request came from.
    pub origin: &'c RequestOrigin,
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
    pub const fn permission(self) -> Permission {
        match self {
            Self::Check | Self::Reserve | Self::Settle | Self::Cancel => Permission::Check,
            Self::Peek => Permission::Peek,
            Self::Refund => Permission::Refund,
            Self::Release => Permission::Release,
            Self::Reset => Permission::Reset,
        }
    }

    /// Carries out the operation, for which the caller has the permission.
    pub async fn answer(
        self,
        context: ApiContext<'_>,
        body: JsonBody<'_>,
    ) -> Result<Answer, ApiError> {
        // Less frequent operations are boxed, to keep the future of a check small.
        match self {
            Self::Check => check(context, body).await,
            Self::Peek => Box::pin(peek(context, body)).await,
            Self::Refund => Box::pin(refund(context, body)).await,
            Self::Release => Box::pin(release(context, body)).await,
            Self::Reserve => Box::pin(reserve(context, body)).await,
            Self::Settle => Box::pin(settle(context, body)).await,
            Self::Cancel => Box::pin(cancel(context, body)).await,
            Self::Reset => Box::pin(reset(context, body)).await,
        }
    }
}

async fn check(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;
    body.forbid_ttl()?;
    let is_count = body.count.unwrap_or_default();

    let intent = if is_count {
        Intent::Count
    } else {
        Intent::Spend
    };
    let options = body.options(intent, context.origin);
    let decision = gate.decide(active, &body.attributes, options).await?;
    Ok(if is_count {
        Answer::Counted(decision)
    } else {
        Answer::Decision(decision)
    })
}

async fn reserve(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;
    body.forbid_count("`count` charges whether it fits or not; use /v1/check")?;

    let ttl = body.ttl()?;
    let options = body.options(Intent::Spend, context.origin);
    let decision = gate.reserve(active, &body.attributes, options, ttl).await?;
    Ok(Answer::Decision(decision))
}

async fn settle(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: SettleBody<'_> = body.decode()?;
    let tokens: Vec<(&str, u64)> = body.tokens.iter().collect();
    if body.actual.is_none() && tokens.is_empty() {
        return Err(ApiError::unprocessable(
            "no-actual",
            "missing field `actual`: what the work has cost, in units, or `tokens` by their kind",
        ));
    }

    let reservation = context.gate.open_reservation(&body.reservation.0)?;
    let actual = SettledCost {
        units: body.actual,
        tokens: &tokens,
    };
    let settled = context.gate.settle(&reservation, Some(actual)).await?;
    Ok(settled_answer(settled))
}

async fn cancel(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: CancelBody<'_> = body.decode()?;

    let reservation = context.gate.open_reservation(&body.reservation.0)?;
    let settled = context.gate.settle(&reservation, None).await?;
    Ok(settled_answer(settled))
}

/// The answer to a settlement. `reservation` tells whether it was open.
fn settled_answer(GateSettlement { kind, charged }: GateSettlement) -> Answer {
    let reservation = if kind == SettlementKind::Reserved {
        "open"
    } else if kind == SettlementKind::Repeated {
        "settled"
    } else {
        "unknown"
    };
    let text = format!(r#"{{"settled":true,"charged":{charged},"reservation":"{reservation}"}}"#);
    Answer::Done(text.into())
}

async fn peek(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;
    body.forbid_ttl()?;
    body.forbid_count("a peek charges nothing; use /v1/check")?;

    let options = body.options(Intent::Peek, context.origin);
    let inspection = gate.inspect(active, &body.attributes, options).await?;
    Ok(Answer::Inspection(inspection))
}

async fn refund(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;
    body.forbid_ttl()?;
    body.forbid_count("a refund charges nothing; leave `count` out")?;

    let options = body.options(Intent::Spend, context.origin);
    gate.refund(active, &body.attributes, options).await?;
    Ok(Answer::Done(r#"{"refunded":true}"#.into()))
}

async fn reset(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body = CheckBody::decode(body, context)?;
    let ApiContext { gate, active, .. } = context;
    body.forbid_ttl()?;
    body.forbid_count("a reset charges nothing; leave `count` out")?;

    let options = body.options(Intent::Spend, context.origin);
    gate.reset(active, &body.attributes, options).await?;
    Ok(Answer::Done(r#"{"reset":true}"#.into()))
}

async fn release(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: ReleaseBody<'_> = body.decode()?;

    let permit = context.gate.open_permit(&body.permit.0)?;
    let was_held = context.gate.release(&permit).await?;
    let text = if was_held {
        r#"{"released":true}"#
    } else {
        r#"{"released":false}"#
    };
    Ok(Answer::Done(text.into()))
}

/// The body of `/v1/check`, `/v1/peek`, `/v1/refund`, `/v1/reserve` and `/v1/reset`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFields<'b> {
    #[serde(borrow, default)]
    attributes: NamedAttributes<'b>,
    #[serde(borrow, default)]
    limits: Option<Vec<LimitEntry<'b>>>,
    #[serde(default)]
    cost: Option<u64>,
    #[serde(default)]
    count: Option<bool>,
    #[serde(borrow, default)]
    tokens: CountedTokens<'b>,
    #[serde(borrow, default)]
    ttl: Option<BodyText<'b>>,
}

/// The body of `/v1/settle`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleBody<'b> {
    #[serde(borrow)]
    reservation: BodyText<'b>,
    #[serde(default)]
    actual: Option<u64>,
    #[serde(borrow, default)]
    tokens: CountedTokens<'b>,
}

/// The body of `/v1/cancel`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody<'b> {
    #[serde(borrow)]
    reservation: BodyText<'b>,
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
    count: Option<bool>,
    ttl: Option<BodyText<'b>>,
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

        let mut attributes = fields.attributes;
        attributes.add_tokens(&fields.tokens)?;
        Ok(Self {
            attributes,
            limits,
            cost: fields.cost,
            count: fields.count,
            ttl: fields.ttl,
        })
    }

    fn forbid_count(&self, reason: &'static str) -> Result<(), ApiError> {
        match self.count {
            Some(true) => Err(ApiError::unprocessable("bad-count", reason)),
            _ => Ok(()),
        }
    }

    /// How long the reservation is open.
    fn ttl(&self) -> Result<Micros, ApiError> {
        let Some(BodyText(text)) = &self.ttl else {
            return Ok(Micros::from_duration(RESERVATION_TTL_DEFAULT).unwrap_or_default());
        };
        let range = Duration::from_millis(1)..=RESERVATION_TTL_MAX;
        let length = Micros::from_text(text).ok();
        let valid = length.filter(|length| range.contains(&Duration::from(*length)));
        valid.ok_or_else(|| {
            let found: String = text.chars().take(80).collect();
            let expected = "a duration between 1ms and 1h, such as \"60s\"";
            let detail = format!("invalid `ttl` {found:?}; expected {expected}");
            ApiError::unprocessable("bad-ttl", detail)
        })
    }

    fn forbid_ttl(&self) -> Result<(), ApiError> {
        match self.ttl {
            None => Ok(()),
            Some(_) => Err(ApiError::unprocessable(
                "bad-ttl",
                "`ttl` is for reservations; use /v1/reserve, or leave it out",
            )),
        }
    }

    fn options<'q>(&'q self, intent: Intent, origin: &'q RequestOrigin) -> CheckOptions<'q> {
        CheckOptions {
            limits: self.limits.as_deref(),
            cost: self.cost,
            intent,
            origin,
        }
    }
}
