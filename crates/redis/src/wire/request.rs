//! Requests as the script reads them.

use std::fmt;

use smallvec::SmallVec;
use tollgate::algorithm::remote::{Lending, Numbers};
use tollgate::algorithm::{AMOUNT_MAX, WindowStart};
use tollgate::lease::LeaseRequest;
use tollgate::{Calendar, Demand, Key, PermitId, Quota};

use crate::topology::slot_of;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Verb {
    Spend = 1,
    Peek = 2,
    Refund = 3,
    Release = 4,
    Renew = 5,
    /// Spend, settle and be given units in advance.
    Lease = 6,
    /// Not for the script: forget the key.
    Reset = 7,
}

/// One request: its keys, and what to ask about them, ready to be sent.
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) keys: SmallVec<[Vec<u8>; 1]>,
    pub(crate) question: Vec<u8>,
    /// In a cluster, the slot of its first key, which is that of all its keys.
    pub(crate) slot: u16,
}

impl Request {
    /// True for what is sent although nobody waits for its answer.
    pub(crate) fn gives_back(&self) -> bool {
        matches!(self.verb, Verb::Refund | Verb::Release | Verb::Reset)
    }
}

/// Without the keys, which name people, and the question, which may name a lease.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("verb", &self.verb)
            .finish_non_exhaustive()
    }
}

/// Makes keys: the prefix of the store, who is limited, the limit and its shape.
///
/// Who is limited stands in braces, so that a cluster keeps all limits of one entity together; the
/// name of a limit holds neither brace nor bar, so that different counters have different keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
    is_cluster: bool,
}

impl Keys {
    pub(crate) fn new(prefix: impl Into<String>, is_cluster: bool) -> Self {
        Self {
            prefix: prefix.into(),
            is_cluster,
        }
    }

    pub(crate) fn name(&self, key: &Key<'_>) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.prefix.len() + 96);
        name.extend_from_slice(self.prefix.as_bytes());
        name.push(b'{');
        key.write_parts(&mut name);
        name.push(b'}');
        name.extend_from_slice(key.limit().as_bytes());
        name.push(b'|');
        key.shape().write(&mut name);
        name
    }

    fn slot(&self, name: &[u8]) -> u16 {
        if self.is_cluster { slot_of(name) } else { 0 }
    }

    /// The request that asks about these checks.
    pub(crate) fn request(&self, verb: Verb, checks: &[Demand<'_>], lease: PermitId) -> Request {
        let keys: SmallVec<[Vec<u8>; 1]> =
            checks.iter().map(|check| self.name(&check.key)).collect();
        let slot = keys.first().map_or(0, |key| self.slot(key));
        let mut question = Vec::with_capacity(2 + 64 * checks.len());
        // A request has 16 checks at most.
        question.extend([verb as u8, u8::try_from(checks.len()).unwrap_or_default()]);
        for check in checks {
            let numbers = match verb {
                Verb::Refund => check.quota.refund_numbers(check.cost),
                _ => check.quota.numbers(check.cost),
            };
            write_check(&mut question, check.shadow, numbers, lease);
        }
        Request {
            verb,
            keys,
            question,
            slot,
        }
    }

    /// The request that spends a check and takes units in advance.
    pub(crate) fn take(&self, check: &Demand<'_>, take: &LeaseRequest) -> Request {
        if matches!(check.quota, Quota::SlidingLog(_)) {
            // Nothing is taken of a log in advance: every hit is stamped when it comes.
            return self.request(Verb::Spend, std::slice::from_ref(check), PermitId::NONE);
        }
        let mut request = self.request(Verb::Lease, std::slice::from_ref(check), PermitId::NONE);
        let Lending { back, period, .. } = check.quota.lending(take.back);
        let &LeaseRequest {
            most,
            is_lent,
            generation,
            held,
            keep,
            ..
        } = take;
        let settled = [generation, held, keep, back.micros, back.part, period];
        numbers(
            &mut request.question,
            [most.min(AMOUNT_MAX), u64::from(is_lent)],
        );
        numbers(&mut request.question, settled);
        request
    }

    /// The request that forgets a counter.
    pub(crate) fn reset(&self, key: &Key<'_>) -> Request {
        let name = self.name(key);
        let slot = self.slot(&name);
        Request {
            verb: Verb::Reset,
            keys: SmallVec::from_buf([name]),
            question: Vec::new(),
            slot,
        }
    }
}

fn write_check(out: &mut Vec<u8>, shadow: bool, numbers_of: Numbers, lease: PermitId) {
    let shadow = u8::from(shadow);
    match numbers_of {
        Numbers::Bucket {
            whole,
            cost,
            per,
            span,
        } => {
            out.extend([1, shadow]);
            numbers(
                out,
                [
                    whole.micros,
                    whole.part,
                    cost.micros,
                    cost.part,
                    per,
                    span.get(),
                ],
            );
        }
        Numbers::Fixed { limit, cost, start } => {
            let (unit, length) = match start {
                WindowStart::FirstHit(length) => (0, length),
                WindowStart::Clock(Calendar::Month) => (2, Calendar::Month.length_max()),
                WindowStart::Clock(unit) => (1, unit.length_max()),
            };
            out.extend([2, shadow]);
            numbers(out, [limit, cost, unit, length.get()]);
        }
        Numbers::Sliding {
            limit,
            cost,
            length,
        } => {
            out.extend([3, shadow]);
            numbers(out, [limit, cost, length.get()]);
        }
        Numbers::Log {
            limit,
            cost,
            length,
        } => {
            out.extend([4, shadow]);
            numbers(out, [limit, cost, length.get()]);
        }
        Numbers::Permits {
            limit,
            cost,
            length,
        } => {
            out.extend([5, shadow]);
            numbers(out, [limit, cost, length.get()]);
            out.extend(lease.get().to_le_bytes());
        }
    }
}

/// Doubles, exact because no number of a limit is beyond 2^53 + 2.
fn numbers<const N: usize>(out: &mut Vec<u8>, numbers: [u64; N]) {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the numbers of a limit fit into a double"
    )]
    numbers
        .iter()
        .for_each(|number| out.extend((*number as f64).to_le_bytes()));
}
