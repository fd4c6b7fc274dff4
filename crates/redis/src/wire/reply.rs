//! Replies of the script, and the outcomes computed from them.

use bytes::Buf as _;
use smallvec::SmallVec;
use tollgate::algorithm::{CounterView, KeyLock, ReservedUnits};
use tollgate::store::lease::LeaseGrant;
use tollgate::store::remote::{
    BucketState, CounterState, EntryTotals, LockoutState, SlidingCounts, WindowCount,
};
use tollgate::store::{Intent, ReservationEnd, SettleReply, SettlementKind, SpendReply};
use tollgate::{Consistency, Demand, LimitName, Micros, Outcome, Quota, Source};

use super::call::StoreCall;
use super::operation::Operation;
use crate::error::CallError;

/// The status byte of a call that failed; an error text follows.
const STATUS_ERROR: u8 = 2;
/// The status byte of a call that was allowed or done.
const STATUS_SUCCESS: u8 = 1;
/// The status byte of a call that changed nothing: the group of a record is full; also that of a
/// settlement if the reservation has ended before.
const STATUS_UNCHANGED: u8 = 3;

/// The reply to one call.
pub(crate) struct ScriptReply {
    /// The time of the decision on the server's clock.
    pub(crate) at: Micros,
    /// True when a spend or peek was allowed, or a permit was released or renewed.
    pub(crate) succeeded: bool,
    /// True when a record was not put, because its group is full.
    pub(crate) is_unchanged: bool,
    /// The reply to each demand of a settlement.
    pub(crate) settled: Vec<SettleReply>,
    /// For each demand of a spend, peek or lease call, the state of its counter before the charge:
    /// three numbers whose meaning depends on the algorithm.
    counters: SmallVec<[[u64; 3]; 1]>,
    /// For each demand of an inspection, what else its counter contains.
    contents: Vec<CounterContents>,
    /// The lockouts of the demands that have one, each with the index of its demand.
    lockouts: Vec<(usize, LockoutReply)>,
    grant: GrantReply,
    /// The indexes of the demands with numbers that no version of the script writes. They were
    /// replaced by zeros.
    malformed: Vec<usize>,
    /// What follows the status in the reply to a call about records.
    pub(crate) records: Vec<u8>,
}

/// What a counter contains besides its state.
struct CounterContents {
    reserved: ReservedUnits,
    /// Units on lease to all instances.
    leased: u64,
    /// The time of the oldest hit of a log.
    oldest: Option<Micros>,
}

/// The lockout of a key after the decision.
#[derive(Clone, Copy)]
struct LockoutReply {
    state: LockoutState,
    /// True when the demand has locked the key.
    is_new: bool,
}

/// The result of a lease call.
struct GrantReply {
    /// Units granted.
    units: u64,
    /// The generation to which they belong.
    generation: u64,
    /// True when the store still knew the units that the instance held before.
    is_known: bool,
    /// The length of the lease.
    length: Micros,
    /// How long the instance should wait before it asks for more.
    turn_after: Micros,
}

/// The grant of all other calls.
const NO_GRANT: GrantReply = GrantReply {
    units: 0,
    generation: 0,
    is_known: true,
    length: Micros::ZERO,
    turn_after: Micros::ZERO,
};

/// The error of one call: its text, and the index of the demand that it concerns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptError<'r> {
    pub(crate) text: &'r [u8],
    pub(crate) demand: usize,
}

/// Reads the replies to these calls, in order. Each is a reply or an error. `None` when the bytes
/// are not a valid reply to the calls.
pub(crate) fn read_replies<'r, 'c>(
    mut reply: &'r [u8],
    calls: impl Iterator<Item = &'c StoreCall>,
) -> Option<Vec<Result<ScriptReply, ScriptError<'r>>>> {
    let at = Micros::new(whole_number(reply.try_get_f64_le().ok()?)?);
    let replies: Option<Vec<_>> = calls
        .map(|call| read_call_reply(&mut reply, call, at))
        .collect();
    replies.filter(|_| reply.is_empty())
}

fn read_call_reply<'r>(
    reply: &mut &'r [u8],
    call: &StoreCall,
    at: Micros,
) -> Option<Result<ScriptReply, ScriptError<'r>>> {
    let status = reply.try_get_u8().ok()?;
    if status == STATUS_ERROR {
        let demand = usize::from(reply.try_get_u16_le().ok()?);
        let length = usize::from(reply.try_get_u16_le().ok()?);
        let (text, rest) = reply.split_at_checked(length)?;
        *reply = rest;
        return Some(Err(ScriptError { text, demand }));
    }

    let has_states = call.operation.has_states();
    let count = if has_states { call.demands } else { 0 };
    let mut counters: SmallVec<[[u64; 3]; 1]> = SmallVec::new();
    let (mut contents, mut lockouts) = (Vec::new(), Vec::new());
    let mut malformed = Vec::new();
    for index in 0..count {
        let mut is_valid = true;
        counters.push(read_numbers(reply, &mut is_valid)?);
        if call.has_lockout(index) {
            lockouts.push((index, read_lockout(reply, &mut is_valid)?));
        }
        if call.operation == Operation::Inspect {
            let [count, units, leased, oldest] = read_numbers(reply, &mut is_valid)?;
            contents.push(CounterContents {
                reserved: ReservedUnits { count, units },
                leased,
                oldest: (oldest > 0).then_some(Micros::new(oldest)),
            });
        }
        if !is_valid {
            malformed.push(index);
        }
    }
    let mut is_valid = true;
    let settled = match call.operation {
        Operation::Settle => read_settled(reply, call.demands, &mut malformed)?,
        _ => Vec::new(),
    };
    let grant = match call.operation {
        Operation::Lease => read_grant(reply, &mut is_valid)?,
        _ => NO_GRANT,
    };
    if !is_valid {
        malformed.push(0);
    }
    // The only call of its script call.
    let records = match call.operation {
        Operation::Records => std::mem::take(reply).to_vec(),
        _ => Vec::new(),
    };

    Some(Ok(ScriptReply {
        at,
        succeeded: status == STATUS_SUCCESS,
        is_unchanged: status == STATUS_UNCHANGED,
        settled,
        counters,
        contents,
        lockouts,
        grant,
        malformed,
        records,
    }))
}

/// Reads the replies to the demands of a settlement.
fn read_settled(
    reply: &mut &[u8],
    demands: usize,
    malformed: &mut Vec<usize>,
) -> Option<Vec<SettleReply>> {
    let mut settled = Vec::with_capacity(demands);
    for index in 0..demands {
        let (known, end) = (reply.try_get_u8().ok()?, reply.try_get_u8().ok()?);
        let mut is_valid = true;
        let [charged] = read_numbers(reply, &mut is_valid)?;
        if !is_valid {
            malformed.push(index);
        }
        settled.push(SettleReply {
            kind: match known {
                STATUS_SUCCESS => SettlementKind::Reserved,
                STATUS_UNCHANGED => SettlementKind::Repeated,
                _ => SettlementKind::Unreserved,
            },
            end: match end {
                1 => ReservationEnd::Settled,
                _ => ReservationEnd::Cancelled,
            },
            charged,
        });
    }
    Some(settled)
}

/// Reads numbers of a counter. Those that are not whole count as 0, and are not valid.
fn read_numbers<const COUNT: usize>(
    reply: &mut &[u8],
    is_valid: &mut bool,
) -> Option<[u64; COUNT]> {
    let mut numbers = [0; COUNT];
    for number in &mut numbers {
        let found = whole_number(reply.try_get_f64_le().ok()?);
        *is_valid &= found.is_some();
        *number = found.unwrap_or_default();
    }
    Some(numbers)
}

/// Reads the numbers of a lockout. The level is encoded as `-1 - level` when the key was just
/// locked.
fn read_lockout(reply: &mut &[u8], is_valid: &mut bool) -> Option<LockoutReply> {
    let [ends, denials] = read_numbers(reply, is_valid)?;
    let encoded = reply.try_get_f64_le().ok()?;
    let is_new = encoded < 0.0;
    let level = whole_number(if is_new { -1.0 - encoded } else { encoded });
    let small = |number: u64| u32::try_from(number).ok();
    let (denials, level) = (small(denials), level.and_then(small));

    *is_valid &= denials.is_some() && level.is_some();
    let state = LockoutState {
        ends: Micros::new(ends),
        denials: denials.unwrap_or_default(),
        level: level.unwrap_or_default(),
        until: Micros::new(ends),
    };
    Some(LockoutReply { state, is_new })
}

/// Reads the numbers of a grant. The generation is encoded as `-1 - generation` when the units held
/// before are no longer known.
fn read_grant(reply: &mut &[u8], is_valid: &mut bool) -> Option<GrantReply> {
    let [units] = read_numbers(reply, is_valid)?;
    let encoded = reply.try_get_f64_le().ok()?;
    let [length, turn_after] = read_numbers(reply, is_valid)?;

    let is_known = encoded >= 0.0;
    let generation = whole_number(if is_known { encoded } else { -1.0 - encoded });
    *is_valid &= generation.is_some();
    Some(GrantReply {
        units,
        generation: generation.unwrap_or_default(),
        is_known,
        length: Micros::new(length),
        turn_after: Micros::new(turn_after),
    })
}

/// Converts a double that is a whole number and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked"
)]
fn whole_number(number: f64) -> Option<u64> {
    let is_whole = (0.0..1.8e19).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

/// What is needed of a demand to compute its outcome from the reply.
#[derive(Clone, Copy)]
pub(crate) struct DemandTerms {
    pub(crate) limit: LimitName,
    quota: Quota,
    cost: u64,
    shadow: bool,
    is_leased: bool,
}

impl DemandTerms {
    pub(crate) fn new(demand: &Demand<'_>) -> Self {
        Self {
            limit: *demand.limit.name(),
            quota: *demand.quota(),
            cost: demand.cost,
            shadow: demand.limit.is_shadow(),
            is_leased: demand.key.consistency() == Consistency::Leased,
        }
    }

    /// The counter's state from the three numbers in the reply.
    fn counter_state(&self, [first, second, third]: [u64; 3], now: Micros) -> CounterState {
        match self.quota {
            // The script has corrected the state if the clock was set back, so a bucket that takes
            // longer than its span is in debt.
            Quota::TokenBucket(_) | Quota::LeakyBucket(_) => CounterState::Bucket(BucketState {
                at: Micros::new(first),
                part: second,
                is_in_debt: Some(Micros::new(first).since(now)) > self.quota.window(),
            }),

            Quota::FixedWindow(_) => CounterState::Fixed(WindowCount {
                count: first,
                ends: Micros::new(second),
            }),

            Quota::SlidingWindow(_) => CounterState::Sliding(SlidingCounts {
                current: first,
                previous: second,
                start: Micros::new(third),
            }),

            Quota::SlidingLog(_) | Quota::Concurrency(_) => CounterState::Entries(EntryTotals {
                sum: first,
                until: Micros::new(second),
                frees: Micros::new(third),
            }),
        }
    }

    /// What the counter contains.
    fn view(
        &self,
        counter: [u64; 3],
        contents: &CounterContents,
        at: Micros,
    ) -> Option<CounterView> {
        let state = self.counter_state(counter, at);
        let is_bucket = matches!(state, CounterState::Bucket(_));

        let mut view = CounterView::new(&self.quota, state, contents.oldest, at)?;
        view.reserved = contents.reserved;
        view.leased = (self.is_leased && is_bucket).then_some(contents.leased);
        Some(view)
    }

    /// The outcome of spending `cost` when the counter's state is as in the reply.
    fn outcome(&self, counter: [u64; 3], cost: u64, at: Micros) -> Option<Outcome> {
        let state = self.counter_state(counter, at);
        self.quota.outcome(state, cost, at)
    }
}

impl ScriptReply {
    /// The grant of a lease call. A counter that cannot be leased is answered like a spend, without
    /// a grant.
    pub(crate) fn lease_grant(&self, terms: &DemandTerms) -> Result<LeaseGrant, CallError> {
        self.spend_reply(std::slice::from_ref(terms), Intent::Spend)?;

        let counter = self.counters.first().copied().unwrap_or_default();
        Ok(LeaseGrant {
            state: terms.counter_state(counter, self.at),
            at: self.at,
            units: self.grant.units,
            generation: self.grant.generation,
            is_known: self.grant.is_known,
            length: self.grant.length,
            turn_after: self.grant.turn_after,
        })
    }

    /// The outcomes of all demands, computed with the arithmetic of the embedded store from the
    /// states that the script found. Fails when the two do not agree on the verdict.
    pub(crate) fn spend_reply(
        &self,
        terms: &[DemandTerms],
        intent: Intent,
    ) -> Result<SpendReply, CallError> {
        // A shadow limit never denies: its outcome is that of an empty counter.
        let is_enforced = |index: &&usize| terms.get(**index).is_none_or(|terms| !terms.shadow);
        if let Some(index) = self.malformed.iter().find(is_enforced) {
            return Err(CallError::Malformed(Some(*index)));
        }
        let outcomes = self.outcomes(terms, intent);
        let outcomes = outcomes.ok_or_else(|| CallError::foreign_write(terms.len()))?;
        let mut reply = SpendReply::new(outcomes, Source::Store, self.at);

        let rows = terms.iter().zip(&self.counters).zip(&self.contents);
        let views: Option<Vec<CounterView>> = rows
            .map(|((terms, counter), contents)| terms.view(*counter, contents, self.at))
            .collect();
        let mut views = views.unwrap_or_default();
        for (index, lockout) in &self.lockouts {
            if let Some(view) = views.get_mut(*index) {
                view.lockout = Some(lockout.state.view(self.at));
            }
        }
        reply.counters = views;
        Ok(reply)
    }

    fn outcomes(&self, terms: &[DemandTerms], intent: Intent) -> Option<SmallVec<[Outcome; 1]>> {
        let demands = || terms.iter().zip(&self.counters);
        let mut outcomes: SmallVec<[Outcome; 1]> = demands()
            .map(|(terms, counter)| terms.outcome(*counter, terms.cost, self.at))
            .collect::<Option<_>>()?;
        self.apply_lockouts(terms, intent, &mut outcomes)?;

        let mut pairs = terms.iter().zip(&outcomes);
        let is_allowed = pairs.all(|(terms, outcome)| terms.shadow || outcome.verdict.is_allowed());
        if is_allowed != self.succeeded {
            return None;
        }

        // Nothing was charged: the outcomes of demands that would pass must not show a charge.
        let is_charged = self.succeeded && intent.is_charge() || intent == Intent::Count;
        if !is_charged {
            for ((terms, counter), outcome) in demands().zip(&mut outcomes) {
                // The outcome of a demand on a locked key shows no charge anyway.
                if outcome.verdict.is_allowed() && outcome.lock == KeyLock::NONE {
                    *outcome = Outcome {
                        verdict: outcome.verdict,
                        ..terms.outcome(*counter, 0, self.at)?
                    };
                }
            }
        }
        Some(outcomes)
    }

    /// Denies the demands whose keys are locked.
    fn apply_lockouts(
        &self,
        terms: &[DemandTerms],
        intent: Intent,
        outcomes: &mut [Outcome],
    ) -> Option<()> {
        for (index, lockout) in &self.lockouts {
            let (terms, counter) = (terms.get(*index)?, self.counters.get(*index)?);
            let Some(rest) = lockout.state.locked_for(self.at) else {
                continue;
            };

            // Nothing was charged, unless the demand was only counted; then the state is the one
            // after the charge.
            let outcome = outcomes.get_mut(*index)?;
            if outcome.verdict.is_allowed() || intent == Intent::Count {
                *outcome = Outcome {
                    verdict: outcome.verdict,
                    ..terms.outcome(*counter, 0, self.at)?
                };
            }
            let lock = KeyLock::new(rest, lockout.is_new);
            *outcome = outcome.locked_out(terms.cost, lock);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
