//! The result of a load: all checks, and the units that the store has charged.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use tollgate::{Decision, Health, Micros};

use super::fault_row::FaultRow;
use super::noise::Noise;
use super::recording_store::CallFate;
use super::subjects::{self, KEYS, LEDGER, LEDGER_LIMIT, Subject};

/// One check and its decision. Times are since the start of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckRecord {
    /// The index of the subject.
    pub(crate) subject: usize,
    pub(crate) started: Duration,
    pub(crate) ended: Duration,
    pub(crate) fate: CallFate,
    /// The limiter returned an error instead of a decision.
    pub(crate) is_error: bool,
    pub(crate) is_allowed: bool,
    pub(crate) is_degraded: bool,
    /// The key whose ledger the store replied with, identified by its usage.
    pub(crate) ledger_of: Option<usize>,
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) row: FaultRow,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) deadline: Duration,
    pub(crate) sent: usize,
    pub(crate) checks: Vec<CheckRecord>,
    pub(crate) health: Health,
    pub(crate) noise: Noise,
    /// The time from the end of a fault to the first decision by the store; the longest if there
    /// were several faults.
    pub(crate) recovery: Option<Duration>,
    pub(crate) failover: Option<Failover>,
    /// The store's error during the fault.
    pub(crate) store_error: Option<String>,
    /// The times of the store's clock at which it lost all data.
    pub(crate) flushed_at: Vec<Micros>,
    /// Whether the ledgers have been charged with their bases.
    pub(crate) has_ledger_bases: bool,
    /// The usage of each key's ledger in the end, including its base.
    pub(crate) charged: [u64; KEYS],
}

/// The keys whose primary was replaced, and the interval whose decisions may have been lost with
/// it.
#[derive(Debug)]
pub(crate) struct Failover {
    pub(crate) keys: BTreeSet<usize>,
    pub(crate) during: Range<Duration>,
}

impl CheckRecord {
    pub(crate) fn new(
        subject: usize,
        started: Duration,
        ended: Duration,
        fate: CallFate,
        decision: Option<&Decision>,
    ) -> Self {
        let by_store = decision.filter(|decision| !decision.is_degraded());
        let ledger = by_store.and_then(|decision| {
            decision
                .limits()
                .iter()
                .find(|status| status.name() == LEDGER)
        });

        Self {
            subject,
            started,
            ended,
            fate,
            is_error: decision.is_none(),
            is_allowed: decision.is_some_and(Decision::is_allowed),
            is_degraded: decision.is_some_and(Decision::is_degraded),
            ledger_of: ledger.and_then(|ledger| subjects::owner(LEDGER_LIMIT - ledger.remaining())),
        }
    }

    /// The time of the store's decision on its clock.
    pub(crate) fn decided_at(&self) -> Option<Micros> {
        match self.fate {
            CallFate::Decided(at) => Some(at),
            _ => None,
        }
    }

    /// Whether the call may have run although there was no reply.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.fate, CallFate::Lost(_))
    }

    pub(crate) fn took(&self) -> Duration {
        self.ended.saturating_sub(self.started)
    }
}
