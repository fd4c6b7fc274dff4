//! Store calls, encoded as the script reads them.

use smallvec::SmallVec;
use tollgate::algorithm::{AMOUNT_MAX, WindowStart};
use tollgate::store::Intent;
use tollgate::store::lease::{LeaseRequest, LeaseTerms};
use tollgate::store::remote::{LendingNumbers, ScriptNumbers};
use tollgate::{Calendar, Demand, Key, Micros, PermitId, Quota};

use super::hash_slot::hash_slot;

/// What a call does. The numbers are those of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    Spend = 1,
    Peek = 2,
    Refund = 3,
    Release = 4,
    Renew = 5,
    /// Settles the lease of an instance, spends, and grants more units.
    Lease = 6,
    /// Deletes the counter.
    Reset = 7,
}

impl From<Intent> for Operation {
    fn from(intent: Intent) -> Self {
        match intent {
            Intent::Spend => Self::Spend,
            Intent::Peek => Self::Peek,
        }
    }
}

/// A call to the store, encoded and ready to be sent.
pub(crate) struct StoreCall {
    pub(crate) operation: Operation,
    /// The names of the counters, one for each demand.
    pub(crate) keys: SmallVec<[Vec<u8>; 1]>,
    /// The operation and the numbers of each demand. Calls about different keys of a limit often
    /// have the same arguments.
    pub(crate) arguments: Vec<u8>,
    /// In a cluster, the slot of all keys; else 0.
    pub(crate) slot: u16,
}

impl StoreCall {
    /// True when the call is sent even if its caller no longer waits, because it frees units.
    pub(crate) fn frees_units(&self) -> bool {
        matches!(
            self.operation,
            Operation::Refund | Operation::Release | Operation::Reset
        )
    }
}

/// Encodes store calls.
///
/// The name of a counter is `PREFIX{KEY ATTRIBUTES}LIMIT|SHAPE`. The braces are a hash tag: in a
/// cluster, all limits of the same key attributes are in the same slot. The name of a limit
/// contains neither `{`, `}` nor `|`, so different counters always have different names.
pub(crate) struct CallEncoder {
    pub(crate) prefix: String,
    pub(crate) is_cluster: bool,
}

impl CallEncoder {
    /// The name of a counter on the server.
    fn counter_name(&self, key: &Key<'_>) -> Vec<u8> {
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

    /// The slot of a counter in a cluster; else 0.
    pub(crate) fn slot(&self, key: &Key<'_>) -> u16 {
        if self.is_cluster {
            hash_slot(&self.counter_name(key))
        } else {
            0
        }
    }

    fn encode(
        &self,
        operation: Operation,
        keys: SmallVec<[Vec<u8>; 1]>,
        arguments: Vec<u8>,
    ) -> StoreCall {
        let first = keys.first().filter(|_| self.is_cluster);
        StoreCall {
            operation,
            slot: first.map_or(0, |name| hash_slot(name)),
            keys,
            arguments,
        }
    }

    /// Encodes a call about these demands. The permit is used by concurrency limits only.
    pub(crate) fn call(
        &self,
        operation: Operation,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreCall {
        let keys = demands.iter().map(|demand| self.counter_name(&demand.key));
        let mut arguments = Vec::with_capacity(3 + 64 * demands.len());
        // A request has at most `DEMANDS_MAX` demands, which fits into two bytes.
        let count = u16::try_from(demands.len()).unwrap_or_default();
        write_head(&mut arguments, operation, count);
        for demand in demands {
            let numbers = match operation {
                Operation::Refund => demand.quota().refund_numbers(demand.cost),
                _ => demand.quota().numbers(demand.cost),
            };
            write_demand(&mut arguments, demand.limit.is_shadow(), numbers, permit_id);
        }

        self.encode(operation, keys.collect(), arguments)
    }

    /// Encodes a call that spends a demand, settles the lease and asks for more units.
    pub(crate) fn lease(&self, demand: &Demand<'_>, request: &LeaseRequest) -> StoreCall {
        let demands = std::slice::from_ref(demand);
        if matches!(demand.quota(), Quota::SlidingLog(_)) {
            // A log cannot lease units: it records the time of every hit.
            return self.call(Operation::Spend, demands, PermitId::NONE);
        }

        let mut call = self.call(Operation::Lease, demands, PermitId::NONE);
        let LendingNumbers { back, period, .. } = demand.quota().lending(request.returned);
        let LeaseTerms { long, brief, turn } = LeaseTerms::for_quota(demand.quota());
        let numbers = [
            request.needed.min(AMOUNT_MAX),
            request.wanted.min(AMOUNT_MAX),
            u64::from(request.is_lent),
            request.generation,
            request.held,
            request.kept,
            back.micros,
            back.part,
            period,
            request.called_at.get(),
            long.get(),
            brief.get(),
            turn.get(),
        ];
        write_numbers(&mut call.arguments, &numbers);
        call
    }

    /// Encodes a call that deletes a counter.
    pub(crate) fn reset(&self, key: &Key<'_>) -> StoreCall {
        let keys = SmallVec::from_buf([self.counter_name(key)]);
        let mut arguments = Vec::new();
        write_head(&mut arguments, Operation::Reset, 1);
        self.encode(Operation::Reset, keys, arguments)
    }
}

/// Appends the operation and the number of demands.
fn write_head(out: &mut Vec<u8>, operation: Operation, count: u16) {
    out.push(operation as u8);
    out.extend(count.to_le_bytes());
}

/// Appends a demand: the number of its algorithm, whether it is a shadow, and its numbers.
fn write_demand(out: &mut Vec<u8>, shadow: bool, numbers: ScriptNumbers, permit_id: PermitId) {
    let mut write = |algorithm: u8, numbers: &[u64]| {
        out.extend([algorithm, u8::from(shadow)]);
        write_numbers(out, numbers);
    };

    match numbers {
        ScriptNumbers::Bucket {
            whole,
            cost,
            per,
            span,
        } => {
            let (full, part) = (whole.micros, whole.part);
            write(1, &[full, part, cost.micros, cost.part, per, span.get()]);
        }
        ScriptNumbers::Fixed { limit, cost, start } => {
            let (start, length) = window_numbers(start);
            write(2, &[limit, cost, start, length.get()]);
        }
        ScriptNumbers::Sliding {
            limit,
            cost,
            length,
        } => write(3, &[limit, cost, length.get()]),
        ScriptNumbers::Log {
            limit,
            cost,
            length,
        } => write(4, &[limit, cost, length.get()]),
        ScriptNumbers::Permits {
            limit,
            cost,
            length,
        } => {
            write(5, &[limit, cost, length.get()]);
            out.extend(permit_id.get().to_le_bytes());
        }
    }
}

/// The start and the length of a fixed window, as the script reads them. The start is 0 for the
/// first hit, 1 for a calendar unit of constant length and 2 for a month.
fn window_numbers(start: WindowStart) -> (u64, Micros) {
    match start {
        WindowStart::FirstHit(length) => (0, length),
        WindowStart::Clock(Calendar::Month) => (2, Calendar::Month.length_max()),
        WindowStart::Clock(unit) => (1, unit.length_max()),
    }
}

/// Appends numbers as little-endian doubles, the only number type of the script. They are exact,
/// because no number of a quota exceeds 2^53 + 2.
fn write_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    #[expect(
        clippy::cast_precision_loss,
        reason = "the numbers of a quota fit into a double"
    )]
    let doubles = numbers.iter().map(|number| *number as f64);
    doubles.for_each(|double| out.extend(double.to_le_bytes()));
}
