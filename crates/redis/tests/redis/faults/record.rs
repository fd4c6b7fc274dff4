//! What a load has to show: every answer, and what the store says it charged.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use tollgate::{Decision, Health, Micros};

use super::noise::Noise;
use super::row::Row;
use super::subjects::{self, KEYS, LEDGER, LEDGER_LIMIT, Subject};
use super::watched::Fate;

/// One question and its answer. Times are since the start of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The place among the subjects.
    pub(crate) subject: usize,
    pub(crate) asked: Duration,
    pub(crate) answered: Duration,
    pub(crate) fate: Fate,
    /// Neither allowed nor denied: the limiter gave an error.
    pub(crate) is_error: bool,
    pub(crate) is_allowed: bool,
    pub(crate) is_degraded: bool,
    /// Whose ledger the store looked at, by what it has used.
    pub(crate) ledger_of: Option<usize>,
}

/// What a load has to show.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) row: Row,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) deadline: Duration,
    pub(crate) sent: usize,
    pub(crate) told: Vec<Told>,
    pub(crate) health: Health,
    pub(crate) noise: Noise,
    /// From the end of the fault to the first decision by the store, and of several the longest.
    pub(crate) recovery: Option<Duration>,
    pub(crate) failover: Option<Failover>,
    /// What the store said while it did not answer.
    pub(crate) complaint: Option<String>,
    /// Moments at which the store forgot everything.
    pub(crate) forgotten: Vec<Micros>,
    /// Whether the ledgers began far apart.
    pub(crate) is_told_apart: bool,
    /// What the ledger of each key has used in the end, with what it began with.
    pub(crate) charged: [u64; KEYS],
}

/// The keys whose primary was replaced, and when what it decided about them may have gone with it.
#[derive(Debug)]
pub(crate) struct Failover {
    pub(crate) keys: BTreeSet<usize>,
    pub(crate) during: Range<Duration>,
}

impl Told {
    pub(crate) fn new(
        subject: usize,
        asked: Duration,
        answered: Duration,
        fate: Fate,
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
            asked,
            answered,
            fate,
            is_error: decision.is_none(),
            is_allowed: decision.is_some_and(Decision::is_allowed),
            is_degraded: decision.is_some_and(Decision::is_degraded),
            ledger_of: ledger.and_then(|ledger| subjects::owner(LEDGER_LIMIT - ledger.remaining())),
        }
    }

    /// The moment of the store's decision, on its own time.
    pub(crate) fn decided_at(&self) -> Option<Micros> {
        match self.fate {
            Fate::Decided(at) => Some(at),
            _ => None,
        }
    }

    /// Whether it may have run although no answer came.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.fate, Fate::Lost(_))
    }

    pub(crate) fn took(&self) -> Duration {
        self.answered.saturating_sub(self.asked)
    }
}
