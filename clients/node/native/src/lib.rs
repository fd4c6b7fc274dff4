//! The native module of the Node package: [`Embedded`] with the types of Node. Everything that can
//! be written in TypeScript is.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use napi::bindgen_prelude::{Error, Float64ArraySlice, Object, Result};
use napi::{Env, Status};
use napi_derive::napi;
use tollgate::{Decision, FailurePolicy, QuotaUnit, Retry, Source};
use tollgate_embedded::{Embedded, LimitId};

/// What [`NativeEngine::try_check`] returns: the request is allowed.
const ALLOWED: u32 = 0;
/// The request is denied.
const DENIED: u32 = 1;
/// Nothing was charged: the request must be sent as an operation.
const UNDECIDED: u32 = 2;

/// The length of the array into which a decision is written, see [`write_decision`].
const NUMBERS: usize = 11;
/// In the place of a time: there is none.
const NONE: f64 = -1.0;
/// In the place of a retry time: the request can never pass.
const NEVER: f64 = -2.0;
/// The sources of a decision, by their number.
const SOURCES: [Source; 7] = [
    Source::Store,
    Source::Lease,
    Source::DenyCache,
    Source::Fallback,
    Source::Local,
    Source::Block,
    Source::Exempt,
];

/// The failure policies, by their number.
const POLICIES: [FailurePolicy; 3] = [
    FailurePolicy::Allow,
    FailurePolicy::Deny,
    FailurePolicy::Local,
];

/// The units of limits, by their number.
const UNITS: [QuotaUnit; 5] = [
    QuotaUnit::Requests,
    QuotaUnit::Tokens,
    QuotaUnit::InputTokens,
    QuotaUnit::OutputTokens,
    QuotaUnit::Bytes,
];

/// A limiter in the process of Node.
#[napi]
pub struct NativeEngine {
    /// None after [`close`](Self::close).
    embedded: RwLock<Option<Arc<Embedded>>>,
}

#[napi]
impl NativeEngine {
    /// Opens a configuration, the text of a file; `file` is its name in errors. With
    /// `manual_clock`, in memory and with a clock that only `advance` moves.
    #[napi(factory)]
    pub fn open(text: String, file: String, manual_clock: Option<bool>) -> Result<Self> {
        let embedded = if manual_clock.unwrap_or_default() {
            Embedded::open_for_tests(&text, &file)
        } else {
            Embedded::open(&text, &file)
        };
        Ok(Self {
            embedded: RwLock::new(Some(Arc::new(embedded.map_err(invalid)?))),
        })
    }

    /// Looks up a limit for `tryCheck`: a name, or the JSON text of a limit.
    #[napi]
    pub fn limit(&self, limit: String) -> Result<u32> {
        let LimitId(id) = self.embedded()?.limit(&limit).map_err(invalid)?;
        Ok(id)
    }

    /// Decides without waiting. A negative cost is that of the limit. Writes the decision into
    /// `numbers`, and returns 0 if the request is allowed, 1 if it is denied, and 2 if it must be
    /// sent as an operation.
    #[napi]
    pub fn try_check(
        &self,
        limit: u32,
        key: String,
        cost: f64,
        mut numbers: Float64ArraySlice<'_>,
    ) -> Result<u32> {
        let embedded = self.embedded.read().unwrap_or_else(PoisonError::into_inner);
        let embedded = embedded.as_ref().ok_or_else(closed_error)?;
        let decision = embedded.try_check(LimitId(limit), &key, units(cost)?);
        // The operation reports the same error, with its code.
        let Ok(Some(decision)) = decision else {
            return Ok(UNDECIDED);
        };

        #[expect(unsafe_code, reason = "Node's own way to write into an array")]
        // SAFETY: Node's thread waits for this call, and no other thread knows the array.
        let numbers = unsafe { numbers.as_mut() };
        let Some(numbers) = numbers.first_chunk_mut() else {
            return Err(invalid(format!("`numbers` must have {NUMBERS} elements")));
        };
        write_decision(numbers, &decision);
        Ok(if decision.is_allowed() {
            ALLOWED
        } else {
            DENIED
        })
    }

    /// Carries out the body of a batch. The promise has the body of the response; an error of the
    /// whole batch is a problem document, too.
    #[napi(ts_return_type = "Promise<string>")]
    pub fn batch<'env>(&self, env: &'env Env, body: String) -> Result<Object<'env>> {
        let embedded = self.embedded()?;
        let (deferred, promise) = env.create_deferred()?;
        embedded.batch(body, move |_, text| deferred.resolve(move |_| Ok(text)));
        Ok(promise)
    }

    /// Moves the manual clock.
    #[napi]
    pub fn advance(&self, millis: f64) -> Result<()> {
        let length = Duration::try_from_secs_f64(millis / 1_000.0);
        let length = length.map_err(|error| invalid(format!("cannot advance: {error}")))?;
        self.embedded()?.advance(length).map_err(invalid)
    }

    /// Returns leases and closes connections. Further calls fail.
    #[napi(ts_return_type = "Promise<void>")]
    pub fn close<'env>(&self, env: &'env Env) -> Result<Object<'env>> {
        let (deferred, promise) = env.create_deferred()?;
        let mut embedded = self
            .embedded
            .write()
            .unwrap_or_else(PoisonError::into_inner);

        // Leases that are not returned end by themselves, so a failure is no error.
        match embedded.take() {
            None => deferred.resolve(closed(None)),
            Some(embedded) => {
                let kept = embedded.clone();
                embedded.return_leases(move |_| deferred.resolve(closed(Some(kept))));
            }
        }
        Ok(promise)
    }

    fn embedded(&self) -> Result<Arc<Embedded>> {
        let embedded = self.embedded.read().unwrap_or_else(PoisonError::into_inner);
        embedded.clone().ok_or_else(closed_error)
    }
}

fn closed_error() -> Error {
    invalid("the limiter is closed")
}

/// Ends a limiter on Node's thread: its runtime must not end on one of its own.
fn closed(embedded: Option<Arc<Embedded>>) -> impl FnOnce(Env) -> Result<()> + Send {
    move |_| {
        drop(embedded);
        Ok(())
    }
}

/// Writes limit, remaining, reset, retry, time until more, source, wait, window, whether it is a
/// shadow limit, the failure policy that decided, and the unit. Times are in milliseconds.
fn write_decision(numbers: &mut [f64; NUMBERS], decision: &Decision) {
    let Some(outcome) = decision.limits().first() else {
        return;
    };

    let source = SOURCES.iter().position(|known| *known == decision.source());
    let unit = UNITS.iter().position(|known| *known == outcome.unit());
    let fallback = outcome.fallback();
    let policy = fallback.and_then(|policy| POLICIES.iter().position(|known| *known == policy));
    *numbers = [
        number(outcome.limit()),
        number(outcome.remaining()),
        millis(outcome.reset_after()),
        match outcome.retry() {
            None => NONE,
            Some(Retry::After(length)) => millis(length),
            Some(Retry::Never) => NEVER,
        },
        outcome.more_after().map_or(NONE, millis),
        number(source.unwrap_or_default() as u64),
        millis(decision.wait()),
        outcome.window().map_or(NONE, millis),
        f64::from(u8::from(outcome.is_shadow())),
        policy.map_or(NONE, |policy| number(policy as u64)),
        number(unit.unwrap_or_default() as u64),
    ];
}

/// A length of time in milliseconds, rounded up.
fn millis(length: Duration) -> f64 {
    number(u64::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "numbers of JavaScript have 53 bits"
)]
fn number(number: u64) -> f64 {
    number as f64
}

/// A cost: whole units up to 2^53 - 1; none if it is negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is whole and in range"
)]
fn units(cost: f64) -> Result<Option<u64>> {
    if cost < 0.0 {
        return Ok(None);
    }
    if cost <= number((1 << 53) - 1) && cost.fract() == 0.0 {
        return Ok(Some(cost as u64));
    }
    Err(invalid(format!(
        "invalid cost {cost}: expected a whole number from 0 to 2^53 - 1"
    )))
}

fn invalid(reason: impl ToString) -> Error {
    Error::new(Status::InvalidArg, reason.to_string())
}
