//! Store calls, encoded as the script reads them.

use smallvec::SmallVec;
use tollgate::algorithm::{AMOUNT_MAX, WindowStart};
use tollgate::store::lease::{LeaseRequest, LeaseTerms};
use tollgate::store::remote::{CounterAmount, DrainTime, LendingNumbers, ScriptNumbers};
use tollgate::store::{Ending, Intent, ReservationEnd, SETTLED_FOR, Settlement};
use tollgate::{Calendar, Demand, Key, Lockout, Micros, PermitId, Quota};

use super::flags::{DemandFlags, is_bucket};
use super::hash_slot::hash_slot;
use super::operation::Operation;

/// A call to the store, encoded and ready to be sent.
pub(crate) struct StoreCall {
    pub(crate) operation: Operation,
    /// The names of the counters, one for each demand; then those of their reservations and
    /// lockouts, if they are needed.
    pub(crate) keys: SmallVec<[Vec<u8>; 1]>,
    /// The number of demands.
    pub(crate) demands: usize,
    /// The indexes of the demands on limits with a lockout, in order.
    pub(crate) lockouts: Vec<usize>,
    /// The operation and the numbers of each demand. Calls about different keys of a limit often
    /// have the same arguments.
    pub(crate) arguments: Vec<u8>,
    /// In a cluster, the slot of all keys; else 0.
    pub(crate) slot: u16,
}

impl StoreCall {
    /// True when the reply tells the lockout of this demand.
    pub(super) fn has_lockout(&self, demand: usize) -> bool {
        self.lockouts.binary_search(&demand).is_ok()
    }

    /// True when the call is sent even if its caller no longer waits, because it frees units.
    pub(crate) fn frees_units(&self) -> bool {
        matches!(
            self.operation,
            Operation::Refund | Operation::Release | Operation::Reset | Operation::Settle
        )
    }

    /// Tells a settlement that the reservation was open at another counter.
    pub(crate) fn set_was_open(&mut self) {
        if let (Operation::Settle, Some(ending)) =
            (self.operation, self.arguments.get_mut(ENDING_AT))
        {
            *ending |= WAS_OPEN;
        }
    }

    /// True when the call cannot share a script call with others.
    pub(crate) fn is_alone(&self) -> bool {
        self.operation == Operation::Records
    }
}

// The endings of the names of keys, which are those of a counter.
const COUNTER: &[u8] = b"";
/// The hash that has the open reservations of a counter.
const RESERVATIONS: &[u8] = b"|o";
/// The sorted set that has them by their expiry.
const EXPIRIES: &[u8] = b"|x";
/// The lockout of a counter.
const LOCKOUT: &[u8] = b"|l";
/// A reservation that has ended; its id follows.
const ENDED: &[u8] = b"|e";

/// The position of the byte that tells how a reservation ends, in the arguments of a settlement.
const ENDING_AT: usize = 27;
/// What that byte has besides, if another counter has shown that the reservation was open.
const WAS_OPEN: u8 = 4;
/// That byte for a reservation that is undone.
const UNDONE: u8 = 3;

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
    fn name(&self, key: &Key<'_>, ending: &[u8]) -> Vec<u8> {
        let mut name = Vec::with_capacity(self.prefix.len() + 96);
        name.extend_from_slice(self.prefix.as_bytes());
        name.push(b'{');
        key.write_parts(&mut name);
        name.push(b'}');
        name.extend_from_slice(key.limit().as_bytes());
        name.push(b'|');
        key.shape().write(&mut name);
        name.extend_from_slice(ending);
        name
    }

    /// The slot of a counter in a cluster; else 0.
    pub(crate) fn slot(&self, key: &Key<'_>) -> u16 {
        if self.is_cluster {
            hash_slot(&self.name(key, COUNTER))
        } else {
            0
        }
    }

    fn encode(
        &self,
        operation: Operation,
        demands: usize,
        keys: SmallVec<[Vec<u8>; 1]>,
        arguments: Vec<u8>,
    ) -> StoreCall {
        let first = keys.first().filter(|_| self.is_cluster);
        StoreCall {
            operation,
            slot: first.map_or(0, |name| hash_slot(name)),
            keys,
            demands,
            lockouts: Vec::new(),
            arguments,
        }
    }

    /// Encodes a request.
    pub(crate) fn request(
        &self,
        intent: Intent,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreCall {
        let ttl = match intent {
            Intent::Reserve { ttl } => Some(ttl),
            _ => None,
        };
        self.call_with_ttl(intent.into(), ttl, demands, permit_id)
    }

    /// Encodes a call about these demands. The permit is used by concurrency limits only.
    pub(crate) fn call(
        &self,
        operation: Operation,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreCall {
        self.call_with_ttl(operation, None, demands, permit_id)
    }

    fn call_with_ttl(
        &self,
        operation: Operation,
        ttl: Option<Micros>,
        demands: &[Demand<'_>],
        permit_id: PermitId,
    ) -> StoreCall {
        let mut arguments = Vec::with_capacity(27 + 64 * demands.len());
        write_head(&mut arguments, operation, demands.len());
        if let Some(ttl) = ttl {
            write_reservation(&mut arguments, ttl, permit_id);
        }

        let mut keys: SmallVec<[Vec<u8>; 1]> = SmallVec::with_capacity(demands.len());
        keys.extend(demands.iter().map(|demand| self.name(&demand.key, COUNTER)));

        let mut lockouts = Vec::new();
        for (index, demand) in demands.iter().enumerate() {
            let (quota, cost) = (demand.quota(), demand.cost);
            let numbers = match operation {
                Operation::Refund => quota.refund_numbers(cost),
                Operation::Count | Operation::Release | Operation::Renew => {
                    quota.count_numbers(cost)
                }
                _ => quota.numbers(cost),
            };
            let flags = DemandFlags::new(operation, demand);
            write_demand(&mut arguments, flags, numbers, permit_id);

            if operation == Operation::Count {
                write_amount(
                    &mut arguments,
                    quota.amount_max(demand.limit.debt_max(quota)),
                );
            }
            if flags.needs_reservations {
                if operation == Operation::Reserve {
                    write_numbers(&mut arguments, &[cost]);
                }
                write_period(&mut arguments, quota);
                keys.push(self.name(&demand.key, RESERVATIONS));
                keys.push(self.name(&demand.key, EXPIRIES));
            }
            if let Some(lockout) = &flags.lockout {
                write_lockout(&mut arguments, lockout);
                keys.push(self.name(&demand.key, LOCKOUT));
                lockouts.push(index);
            }
        }
        StoreCall {
            lockouts,
            ..self.encode(operation, demands.len(), keys, arguments)
        }
    }

    /// Encodes the settlement of demands that are not on concurrency limits. In a cluster they must
    /// be in the same slot.
    pub(crate) fn settle(&self, settlements: &[Settlement<'_>], ending: Ending) -> StoreCall {
        let was_open = if ending.was_open { WAS_OPEN } else { 0 };
        self.end(
            settlements,
            ending.reservation,
            end_number(ending.end) + was_open,
        )
    }

    /// Encodes the return of what a demand has reserved, as if it had never been reserved: no
    /// counter remembers how it ended.
    pub(crate) fn undo(&self, demand: &Demand<'_>, reservation: PermitId) -> StoreCall {
        self.end(&[Settlement::new(*demand, 0)], reservation, UNDONE)
    }

    fn end(&self, settlements: &[Settlement<'_>], reservation: PermitId, ending: u8) -> StoreCall {
        let operation = Operation::Settle;
        let mut arguments = Vec::with_capacity(28 + 132 * settlements.len());
        write_head(&mut arguments, operation, settlements.len());
        write_reservation(&mut arguments, SETTLED_FOR, reservation);
        arguments.push(ending);

        let name = |settlement: &Settlement<'_>, part| self.name(&settlement.demand.key, part);
        let counters = settlements
            .iter()
            .map(|settlement| name(settlement, COUNTER));
        let mut keys: SmallVec<[Vec<u8>; 1]> = counters.collect();
        for settlement in settlements {
            let (demand, quota) = (&settlement.demand, settlement.demand.quota());
            let flags = DemandFlags::new(operation, demand);
            let numbers = quota.count_numbers(0);
            write_demand(&mut arguments, flags, numbers, reservation);
            write_amount(
                &mut arguments,
                quota.amount_max(demand.limit.debt_max(quota)),
            );
            match settlement.actual {
                Some(actual) => write_numbers(&mut arguments, &[actual.min(AMOUNT_MAX)]),
                None => arguments.extend((-1.0_f64).to_le_bytes()),
            }
            write_numbers(&mut arguments, &[settlement.late.min(AMOUNT_MAX)]);
            write_period(&mut arguments, quota);

            keys.extend([RESERVATIONS, EXPIRIES].map(|part| name(settlement, part)));
            let mut ended = name(settlement, ENDED);
            ended.extend_from_slice(&reservation.get().to_le_bytes());
            keys.push(ended);
        }
        self.encode(operation, settlements.len(), keys, arguments)
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
        let endings = [COUNTER, RESERVATIONS, EXPIRIES, LOCKOUT];
        let names = endings.map(|ending| self.name(key, ending));
        let mut arguments = Vec::new();
        write_head(&mut arguments, Operation::Reset, 1);
        self.encode(Operation::Reset, 1, names.into_iter().collect(), arguments)
    }

    /// Encodes a call about the records of a group. The names of counters contain `|`, so these
    /// never equal one.
    pub(crate) fn records(&self, group: &str, arguments: Vec<u8>) -> StoreCall {
        let name = |ending| format!("{}{{records}}{group}{ending}", self.prefix).into_bytes();
        let names = SmallVec::from_vec(vec![name(""), name(".expiry")]);
        self.encode(Operation::Records, 0, names, arguments)
    }
}

/// Appends the operation and the number of demands.
fn write_head(out: &mut Vec<u8>, operation: Operation, count: usize) {
    out.push(operation as u8);
    // A request has at most `DEMANDS_MAX` demands, which fits into two bytes.
    out.extend(u16::try_from(count).unwrap_or_default().to_le_bytes());
}

/// Appends how long a reservation, or its settlement, is remembered, and its id.
fn write_reservation(out: &mut Vec<u8>, ttl: Micros, id: PermitId) {
    write_numbers(out, &[ttl.get()]);
    // Big-endian, so that the ids in a sorted set have the order of their numbers.
    out.extend(id.get().to_be_bytes());
}

/// The number of an end in the script.
const fn end_number(end: ReservationEnd) -> u8 {
    match end {
        ReservationEnd::Settled => 1,
        ReservationEnd::Cancelled => 2,
    }
}

fn write_amount(out: &mut Vec<u8>, amount: CounterAmount) {
    match amount {
        CounterAmount::Time(DrainTime { micros, part }) => write_numbers(out, &[micros, part]),
        CounterAmount::Units(units) => write_numbers(out, &[units]),
    }
}

/// Appends how long a bucket takes to refill its rate's `per` units.
fn write_period(out: &mut Vec<u8>, quota: &Quota) {
    if is_bucket(quota) {
        write_numbers(out, &[quota.lending(0).period]);
    }
}

/// Appends the numbers of a lockout.
fn write_lockout(out: &mut Vec<u8>, lockout: &Lockout) {
    let (after, factor) = (lockout.after().into(), lockout.factor().into());
    let [within, length, max] = [lockout.within(), lockout.length(), lockout.max()];
    write_numbers(out, &[after, within.get(), length.get(), factor, max.get()]);
}

/// Appends a demand: the number of its algorithm, its flags, and its numbers.
fn write_demand(
    out: &mut Vec<u8>,
    flags: DemandFlags,
    numbers: ScriptNumbers,
    permit_id: PermitId,
) {
    let mut write = |algorithm: u8, numbers: &[u64]| {
        out.extend([algorithm, flags.to_byte()]);
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
