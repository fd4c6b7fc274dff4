//! A decision as numbers: a code that JavaScript gets without an allocation, and an array.

use std::time::Duration;

use tollgate::{Decision, DegradedReason, FailurePolicy, LimitOutcome, QuotaUnit, Retry, Source};
use tollgate_embedded::BlockStatus;

/// The most demands that are decided without an operation.
pub(crate) const DEMANDS_MAX: usize = 16;
/// The numbers of each outcome, see [`outcome_numbers`].
const ROW: usize = 7;
/// The length of the array into which a decision is written: the wait, then a row for each demand.
pub(crate) const NUMBERS: usize = 1 + DEMANDS_MAX * ROW;
/// In the place of a time: there is none.
const NONE: f64 = -1.0;
/// In the place of a retry time: the request can never pass.
const NEVER: f64 = -2.0;

/// The verdicts, the lowest two bits of a code.
const ALLOWED: u32 = 0;
const DENIED: u32 = 1;
/// Nothing was charged: the request must be sent as an operation.
pub(crate) const UNDECIDED: u32 = 2;

/// Where the other parts of a code begin: the source, whether a block has the status 403, and why
/// failure policies decided.
const SOURCE_SHIFT: u32 = 2;
const FORBIDDEN_SHIFT: u32 = 5;
const REASON_SHIFT: u32 = 6;

/// Where the parts of an outcome's flags begin. The first is its failure policy.
const UNIT_SHIFT: u32 = 2;
const SHADOW_SHIFT: u32 = 5;
const BLOCKED_SHIFT: u32 = 6;
const EXEMPT_SHIFT: u32 = 7;
const LOCKED_OUT_SHIFT: u32 = 8;
/// Not asked, because another limit of the request is blocked.
const UNASKED_SHIFT: u32 = 9;

/// Writes how long to wait, in milliseconds, and a row for each outcome. Returns the code.
pub(crate) fn write_decision(
    numbers: &mut [f64; NUMBERS],
    decision: &Decision,
    block: Option<BlockStatus>,
) -> u32 {
    let [wait, rows @ ..] = numbers;
    *wait = millis(decision.wait());
    let rows = rows.chunks_exact_mut(ROW);
    for (row, outcome) in rows.zip(decision.limits()) {
        row.copy_from_slice(&outcome_numbers(outcome));
    }

    let verdict = if decision.is_allowed() {
        ALLOWED
    } else {
        DENIED
    };
    let is_forbidden = block == Some(BlockStatus::Forbidden);
    verdict
        | source_number(decision.source()) << SOURCE_SHIFT
        | u32::from(is_forbidden) << FORBIDDEN_SHIFT
        | decision.degraded_reason().map_or(0, reason_number) << REASON_SHIFT
}

/// Limit, remaining, reset, retry, time until more, window and flags; times are in milliseconds.
fn outcome_numbers(outcome: &LimitOutcome) -> [f64; ROW] {
    let is_unasked = !outcome.is_counted() && !outcome.is_exempt();
    let flags = outcome.fallback().map_or(0, policy_number)
        | unit_number(outcome.unit()) << UNIT_SHIFT
        | u32::from(outcome.is_shadow()) << SHADOW_SHIFT
        | u32::from(outcome.is_blocked()) << BLOCKED_SHIFT
        | u32::from(outcome.is_exempt()) << EXEMPT_SHIFT
        | u32::from(outcome.is_locked_out()) << LOCKED_OUT_SHIFT
        | u32::from(is_unasked) << UNASKED_SHIFT;
    [
        number(outcome.limit()),
        number(outcome.remaining()),
        millis(outcome.reset_after()),
        match outcome.retry() {
            None => NONE,
            Some(Retry::After(length)) => millis(length),
            Some(Retry::Never) => NEVER,
        },
        outcome.more_after().map_or(NONE, millis),
        outcome.window().map_or(NONE, millis),
        f64::from(flags),
    ]
}

fn source_number(source: Source) -> u32 {
    match source {
        Source::Store => 0,
        Source::Lease => 1,
        Source::DenyCache => 2,
        Source::Fallback => 3,
        Source::Block => 5,
        Source::Exempt => 6,
        _ => 4,
    }
}

/// 0 means that the decision is not degraded.
fn reason_number(reason: DegradedReason) -> u32 {
    match reason {
        DegradedReason::StoreTimeout => 1,
        DegradedReason::Overload => 3,
        DegradedReason::Refused => 4,
        _ => 2,
    }
}

/// 0 means that the store decided.
fn policy_number(policy: FailurePolicy) -> u32 {
    match policy {
        FailurePolicy::Allow => 1,
        FailurePolicy::Deny => 2,
        _ => 3,
    }
}

fn unit_number(unit: QuotaUnit) -> u32 {
    match unit {
        QuotaUnit::Tokens => 1,
        QuotaUnit::InputTokens => 2,
        QuotaUnit::OutputTokens => 3,
        QuotaUnit::Bytes => 4,
        _ => 0,
    }
}

/// A length of time in milliseconds, rounded up.
fn millis(length: Duration) -> f64 {
    let millis = length.as_secs().saturating_mul(1_000);
    let rest = u64::from(length.subsec_nanos().div_ceil(1_000_000));
    number(millis.saturating_add(rest))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of JavaScript have 53 bits"
)]
fn number(number: u64) -> f64 {
    number as f64
}

/// A cost: whole units up to 2^53 - 1. `Some(None)`, the cost of the limit, if it is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::option_option,
    reason = "the number is whole and in range; a cost may be invalid, absent or there"
)]
pub(crate) fn units(cost: f64) -> Option<Option<u64>> {
    if cost < 0.0 {
        return Some(None);
    }
    let is_valid = cost <= number((1 << 53) - 1) && cost.fract() == 0.0;
    is_valid.then_some(Some(cost as u64))
}
