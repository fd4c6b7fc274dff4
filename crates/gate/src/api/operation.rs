//! The operations of the decision API: each decodes its body, asks the gate and encodes the answer.
//! Each has a path of its own, and a name in a batch.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize as _, Deserializer};
use tollgate::limiter::{RESERVATION_TTL_DEFAULT, RESERVATION_TTL_MAX};
use tollgate::store::Intent;
use tollgate::{Decision, Micros};
use tollgate_http::{DecisionBody, Problem};
use tollgate_rules::{Permission, RequestedLimit};

use super::error::ApiError;
use super::json::{BodyText, CountedTokens, JsonBody, NamedAttributes};
use super::limits::limits;
use super::requested_limit::requested_limits;
use crate::{ActiveConfig, Caller, CheckOptions, Gate, GateDecision, RequestOrigin, SettledCost};

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
    /// Lists the configured limits.
    Limits,
}

/// Every operation with its name in a batch.
const OPERATIONS: [(&str, ApiOperation); 9] = [
    ("check", ApiOperation::Check),
    ("peek", ApiOperation::Peek),
    ("refund", ApiOperation::Refund),
    ("release", ApiOperation::Release),
    ("reserve", ApiOperation::Reserve),
    ("settle", ApiOperation::Settle),
    ("cancel", ApiOperation::Cancel),
    ("reset", ApiOperation::Reset),
    ("limits", ApiOperation::Limits),
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

/// What an operation answers: a status and a JSON object.
#[derive(Debug)]
pub struct Answer {
    /// The status of the response.
    pub status: StatusCode,
    /// Whether the body is a problem document (RFC 9457).
    pub is_problem: bool,
    /// The body.
    pub body: Cow<'static, str>,
    /// The decision, for the header fields. None if the operation decides nothing.
    pub decision: Option<Decision>,
}

/// The most limits that a request may name or bring: each is work for the store, and one caller must
/// not delay the others. Any number may apply by their conditions.
const NAMED_MAX: usize = 128;

/// The warning of a decision whose limits do not use the numbers of tokens in the request.
const TOKENS_UNUSED: &str =
    "no limit of this request counts tokens by their kind, so `tokens` changed nothing";

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
            Self::Check | Self::Reserve | Self::Settle | Self::Cancel | Self::Limits => {
                Permission::Check
            }
            Self::Peek => Permission::Peek,
            Self::Refund => Permission::Refund,
            Self::Release => Permission::Release,
            Self::Reset => Permission::Reset,
        }
    }

    /// Why the operation cannot charge a request whether it fits or not; none if it can.
    const fn count_error(self) -> Option<&'static str> {
        match self {
            Self::Reserve => Some("`count` charges whether it fits or not; use /v1/check"),
            Self::Peek => Some("a peek charges nothing; use /v1/check"),
            Self::Refund => Some("a refund charges nothing; leave `count` out"),
            Self::Reset => Some("a reset charges nothing; leave `count` out"),
            _ => None,
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
            Self::Release => Box::pin(release(context, body)).await,
            Self::Settle => Box::pin(settle(context, body)).await,
            Self::Cancel => Box::pin(cancel(context, body)).await,
            Self::Limits => limits(context, body),
            Self::Check | Self::Peek | Self::Refund | Self::Reserve | Self::Reset => {
                self.answer_by_limits(context, body).await
            }
        }
    }

    /// Carries out an operation on the limits that its body selects: decodes, selects, spends and
    /// encodes.
    async fn answer_by_limits(
        self,
        context: ApiContext<'_>,
        body: JsonBody<'_>,
    ) -> Result<Answer, ApiError> {
        let (gate, active, origin) = (context.gate, context.active, context.origin);
        let body = CheckBody::decode(self, body, context)?;
        let (ttl, is_count) = (body.ttl()?, body.count == Some(true));
        let intent = match self {
            Self::Peek | Self::Refund | Self::Reset => Intent::Peek,
            _ if is_count => Intent::Count,
            _ => Intent::Spend,
        };
        let options = CheckOptions {
            limits: body.limits.as_deref(),
            cost: body.cost,
            intent,
            origin,
        };

        let inline = active.inline_rules(options)?;
        let demands = gate.select(active, &body.attributes, &inline, options)?;

        let counts_tokens = body.tokens.is_none() || active.counts_tokens(&demands);
        let mut decision = match self {
            Self::Refund => {
                Box::pin(active.refund(&demands)).await?;
                return Ok(Answer::done(r#"{"refunded":true}"#));
            }
            Self::Reset => {
                for demand in &demands {
                    Box::pin(active.reset(demand)).await?;
                }
                return Ok(Answer::done(r#"{"reset":true}"#));
            }
            Self::Peek => Box::pin(active.inspect(&demands)).await?,
            Self::Reserve => {
                let requested = options.limits.unwrap_or_default();
                Box::pin(gate.reserve(active, demands, requested, ttl, origin)).await?
            }
            _ => gate.spend(active, &demands, intent, origin).await?,
        };
        if !counts_tokens {
            decision.warning = decision.warning.or(Some(TOKENS_UNUSED));
        }
        Ok(Answer::decided(decision, is_count))
    }
}

impl Answer {
    /// A JSON text with status 200.
    pub(super) fn done(body: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status: StatusCode::OK,
            is_problem: false,
            body: body.into(),
            decision: None,
        }
    }

    /// A decision: 200, 429 or 503, or the status of a block. One that was charged in any case is
    /// 200, or 503 if the store was unavailable and the policy is to deny, because then nothing was
    /// charged.
    fn decided(decided: GateDecision, is_count: bool) -> Self {
        let mut problem = Problem::denied(&decided.decision);
        if let (Some(problem), Some(block)) = (&mut problem, decided.block) {
            problem.status = block.status();
        }
        let is_denial = |status| !is_count || status == StatusCode::SERVICE_UNAVAILABLE;
        let denial = problem.filter(|problem| is_denial(problem.status));

        let answer = if let Some(mut problem) = denial {
            if let Some(body) = &mut problem.decision {
                body.add_counters(&decided.counters);
            }
            Self {
                status: problem.status,
                is_problem: true,
                ..Self::done(problem.to_json())
            }
        } else {
            let mut body = DecisionBody::new(&decided.decision);
            body.add_counters(&decided.counters);
            body.permit = decided.permit;
            body.reservation = decided.reservation;
            body.warning = decided.warning;
            Self::done(body.to_json())
        };
        Self {
            decision: Some(decided.decision),
            ..answer
        }
    }
}

async fn settle(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: SettleBody<'_> = body.decode()?;
    let tokens = body.tokens.counts(context.active.selector.token_kinds())?;
    if body.actual.is_none() && tokens.is_empty() {
        return Err(ApiError::unprocessable(
            "no-actual",
            "missing field `actual`: what the work has cost, in units, or `tokens` by their kind",
        ));
    }

    let actual = SettledCost {
        units: body.actual,
        tokens: &tokens,
    };
    apply_cost(context, &body.reservation, Some(actual)).await
}

async fn cancel(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: CancelBody<'_> = body.decode()?;
    apply_cost(context, &body.reservation, None).await
}

/// Settles a reservation. `reservation` of the answer tells what became of it before.
async fn apply_cost(
    context: ApiContext<'_>,
    token: &str,
    actual: Option<SettledCost<'_>>,
) -> Result<Answer, ApiError> {
    let reservation = context.gate.open_reservation(context.caller, token).await?;
    let settled = context.gate.settle(&reservation, actual).await?;
    let (charged, reservation) = (settled.charged, settled.reservation());

    let warning = settled
        .warning
        .map(|text| format!(r#","warning":"{text}""#));
    let warning = warning.unwrap_or_default();
    Ok(Answer::done(format!(
        r#"{{"settled":true,"charged":{charged},"reservation":"{reservation}"{warning}}}"#
    )))
}

async fn release(context: ApiContext<'_>, body: JsonBody<'_>) -> Result<Answer, ApiError> {
    let body: ReleaseBody<'_> = body.decode()?;

    let (gate, caller) = (context.gate, context.caller);
    let permit = gate.open_permit(caller, &body.permit).await?;
    let was_held = context.gate.release(&permit).await?;
    Ok(Answer::done(format!(r#"{{"released":{was_held}}}"#)))
}

/// The body of `/v1/check`, `/v1/peek`, `/v1/refund`, `/v1/reserve` and `/v1/reset`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckBody<'b> {
    #[serde(borrow, default)]
    attributes: NamedAttributes<'b>,
    #[serde(borrow, default, deserialize_with = "requested_limits")]
    limits: Option<Vec<RequestedLimit<'b>>>,
    cost: Option<u64>,
    count: Option<bool>,
    #[serde(borrow, default, deserialize_with = "given_tokens")]
    tokens: Option<CountedTokens<'b>>,
    #[serde(borrow)]
    ttl: Option<BodyText<'b>>,
}

/// Null is not an object of token counts.
fn given_tokens<'de: 'b, 'b, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<CountedTokens<'b>>, D::Error> {
    CountedTokens::deserialize(from).map(Some)
}

/// The body of `/v1/settle`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleBody<'b> {
    #[serde(borrow)]
    reservation: Cow<'b, str>,
    actual: Option<u64>,
    #[serde(borrow, default)]
    tokens: CountedTokens<'b>,
}

/// The body of `/v1/cancel`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBody<'b> {
    #[serde(borrow)]
    reservation: Cow<'b, str>,
}

/// The body of `/v1/release`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody<'b> {
    #[serde(borrow)]
    permit: Cow<'b, str>,
}

impl<'b> CheckBody<'b> {
    /// Decodes the body of an operation. Its attributes include its numbers of tokens.
    fn decode(
        operation: ApiOperation,
        body: JsonBody<'b>,
        context: ApiContext<'_>,
    ) -> Result<Self, ApiError> {
        let mut body: Self = body.decode()?;
        let requested = body.limits.as_deref();
        if requested.is_some_and(<[_]>::is_empty) {
            return Err(ApiError::unprocessable(
                "no-limits",
                "`limits` is empty: leave it out to check every limit whose conditions match",
            ));
        }
        if let Some(found) = requested.map(<[_]>::len).filter(|found| *found > NAMED_MAX) {
            return Err(ApiError::unprocessable(
                "too-many-limits",
                format!("`limits` has {found} entries: at most {NAMED_MAX} are decided together"),
            ));
        }
        let mut requested = requested.into_iter().flatten();
        if requested.any(|limit| limit.inline.is_some()) {
            context.active.permit(context.caller, Permission::Inline)?;
        }
        let kinds = context.active.selector.token_kinds();
        body.attributes.add_tokens(body.tokens.as_ref(), kinds)?;

        if body.ttl.is_some() && operation != ApiOperation::Reserve {
            return Err(ApiError::unprocessable(
                "bad-ttl",
                "`ttl` is for reservations; use /v1/reserve, or leave it out",
            ));
        }
        match operation.count_error().filter(|_| body.count == Some(true)) {
            Some(reason) => Err(ApiError::unprocessable("bad-count", reason)),
            None => Ok(body),
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
}
