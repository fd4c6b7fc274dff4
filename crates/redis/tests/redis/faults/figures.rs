//! The six figures of a row, how they are printed, and their bounds.

use std::fmt;
use std::time::Duration;

use testkit::servers::Server;

use super::admission::{self, Excesses};
use super::record::{CheckRecord, Record};
use super::recording_store::CallFate;
use super::subjects::{self, KEYS};

/// Longest time that a decision may take beyond the timeout of the store and the pause before its
/// call is sent.
pub(crate) const GRACE: Duration = Duration::from_millis(5);
/// Longest time from the end of a fault to the store's next decision.
const RECOVERY_MAX: Duration = Duration::from_secs(1);

/// The data that the store may have lost, and the over-admission that this permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataLoss {
    /// Nothing was lost.
    None,
    /// Everything, at the recorded times: one more burst per key for each of them.
    Flushed,
    /// What had not been replicated at a failover: one more burst per key.
    FailedOver,
    /// Counters and ledgers, by eviction: one more burst for each time.
    Evicted {
        /// How often the most frequently evicted key was evicted.
        times: u64,
    },
    /// Counters, but no ledger, because another program wrote to them: one more burst.
    Corrupted,
}

/// The figures of one row.
#[derive(Debug)]
pub(crate) struct Figures<'r> {
    record: &'r Record,
    data_loss: DataLoss,
    ledger: Ledger,
    charges: Vec<Charge>,
    excesses: Excesses,
    false_denials: u64,
    /// Replies of the store that were about another key.
    strays: usize,
    immortal: usize,
}

#[derive(Debug, Default)]
struct Ledger {
    allowed: usize,
    denied: usize,
    degraded_allowed: usize,
    degraded_denied: usize,
    errors: usize,
}

/// The units of one key since the store last lost all data.
#[derive(Debug)]
struct Charge {
    charged: i128,
    allowed: i128,
    lost: i128,
    /// Allowed in the interval whose decisions a failover may have lost.
    at_risk: i128,
}

impl Record {
    /// Computes the figures, including those read from these servers.
    pub(crate) fn figures<'s>(
        &self,
        data_loss: DataLoss,
        servers: impl IntoIterator<Item = &'s Server>,
    ) -> Figures<'_> {
        Figures {
            record: self,
            data_loss,
            ledger: Ledger::from_checks(&self.checks),
            charges: (0..KEYS).map(|key| self.charge(key)).collect(),
            excesses: admission::excesses(self),
            false_denials: admission::false_denials(self),
            strays: self.strays(),
            immortal: servers.into_iter().map(immortal).sum(),
        }
    }

    /// The number of calls without a reply.
    pub(crate) fn lost(&self) -> usize {
        self.checks.iter().filter(|check| check.is_lost()).count()
    }

    fn charge(&self, key_number: usize) -> Charge {
        let own = || {
            self.checks
                .iter()
                .filter(|check| self.subjects[check.subject].key_number == key_number)
        };
        let units = |check: &CheckRecord| i128::from(self.subjects[check.subject].cost);
        let since = self.flushed_at.iter().max();
        let allowed =
            || own().filter(|check| check.is_allowed && check.decided_at().as_ref() > since);
        let failover = self
            .failover
            .as_ref()
            .filter(|failover| failover.keys.contains(&key_number));
        let at_risk = allowed()
            .filter(|check| failover.is_some_and(|both| both.during.contains(&check.ended)));
        let base = if self.has_ledger_bases && since.is_none() {
            subjects::base(key_number)
        } else {
            0
        };

        Charge {
            charged: i128::from(self.charged[key_number]) - i128::from(base),
            allowed: allowed().map(units).sum(),
            lost: own().filter(|check| check.is_lost()).map(units).sum(),
            at_risk: at_risk.map(units).sum(),
        }
    }

    /// The number of replies about the ledger of another key. A ledger that was lost has no owner.
    fn strays(&self) -> usize {
        let strays = self.checks.iter().filter(|check| {
            check
                .ledger_of
                .is_some_and(|owner| owner != self.subjects[check.subject].key_number)
        });
        strays.count()
    }
}

impl Ledger {
    fn from_checks(checks: &[CheckRecord]) -> Self {
        let mut ledger = Self::default();
        for check in checks {
            let counter = match (check.is_error, check.is_degraded, check.is_allowed) {
                (true, _, _) => &mut ledger.errors,
                (_, false, true) => &mut ledger.allowed,
                (_, false, false) => &mut ledger.denied,
                (_, true, true) => &mut ledger.degraded_allowed,
                (_, true, false) => &mut ledger.degraded_denied,
            };
            *counter += 1;
        }

        ledger
    }

    fn answered(&self) -> usize {
        self.allowed + self.denied + self.degraded_allowed + self.degraded_denied + self.errors
    }
}

impl Charge {
    fn gap(&self) -> i128 {
        self.charged - self.allowed
    }
}

impl Figures<'_> {
    /// Prints the figures, then asserts their bounds.
    pub(crate) fn print_and_assert(&self) {
        println!("{self}");
        let Self { record, ledger, .. } = self;
        assert_eq!(record.sent, ledger.answered(), "every check was answered");
        assert_eq!(ledger.errors, 0, "no check returned an error");
        let by_policy = (
            record.health.degraded_allowed,
            record.health.degraded_denied,
        );
        assert_eq!(
            by_policy,
            (
                ledger.degraded_allowed as u64,
                ledger.degraded_denied as u64
            ),
            "all fallback decisions are counted"
        );
        // A malformed counter denies, so that no failure policy decides.
        let errors = record.health.store_errors;
        assert_eq!(
            errors.total() - errors.malformed,
            self.degraded() as u64,
            "all store errors are counted"
        );
        assert_eq!(self.strays, 0, "no reply reached another caller");
        self.assert_charges();
        self.assert_admission();

        assert!(
            self.false_denials <= record.lost() as u64,
            "nothing is denied because of units that no check has spent"
        );
        assert!(
            self.latest() <= GRACE,
            "no decision waits for the store longer than its timeout"
        );
        assert_eq!(self.immortal, 0, "every key has an expiry");
        assert!(
            record.recovery.is_none_or(|took| took <= RECOVERY_MAX),
            "the store recovers in time"
        );
    }

    /// The number of decisions by failure policies.
    pub(crate) fn degraded(&self) -> usize {
        self.ledger.degraded_allowed + self.ledger.degraded_denied
    }

    /// The units that the store has charged for checks without a reply.
    pub(crate) fn gap(&self) -> i128 {
        self.charges.iter().map(Charge::gap).sum()
    }

    fn assert_charges(&self) {
        for (key_number, charge) in self.charges.iter().enumerate() {
            let gap = charge.gap();
            assert!(
                gap <= charge.lost,
                "key {key_number} was charged more than its checks: {charge:?}"
            );

            let forgotten_max = match self.data_loss {
                DataLoss::None | DataLoss::Flushed | DataLoss::Corrupted => 0,
                DataLoss::FailedOver => charge.at_risk,
                DataLoss::Evicted { .. } => i128::MAX,
            };
            assert!(
                -gap <= forgotten_max,
                "key {key_number} was charged less than its checks: {charge:?}"
            );
        }
    }

    fn assert_admission(&self) {
        let Excesses { store, local } = &self.excesses;
        assert!(
            local.is_none_or(|local| local.bursts == 0),
            "the policy `local` stays within its share"
        );
        let bursts_max = match self.data_loss {
            DataLoss::None => 0,
            DataLoss::Flushed => self.record.flushed_at.len() as u64,
            DataLoss::FailedOver | DataLoss::Corrupted => 1,
            DataLoss::Evicted { times } => times,
        };

        let bursts = store.map_or(0, |store| store.bursts);
        assert!(
            bursts <= bursts_max,
            "more was admitted than the limits allow: {bursts} bursts of {bursts_max}"
        );
    }

    /// The most by which a decision exceeded the timeout of the store, without the pause of up to a
    /// sixteenth of it before a call is sent, and the delays by the machine.
    fn latest(&self) -> Duration {
        let Record {
            checks,
            noise,
            deadline,
            ..
        } = self.record;

        let late = checks.iter().map(|check| {
            check
                .took()
                .saturating_sub(*deadline + *deadline / 16)
                .saturating_sub(noise.during(check.started, check.ended))
        });
        late.max().unwrap_or_default()
    }
}

/// Prints one line for each figure.
impl fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            record,
            excesses,
            false_denials,
            strays,
            immortal,
            ..
        } = self;
        writeln!(f, "\n{}", record.row.name)?;
        self.fmt_ledger(f)?;
        self.fmt_charge(f)?;
        writeln!(f, "  over-admission  {excesses}")?;
        writeln!(
            f,
            "  false denials   {false_denials} of at most {}; strays {strays}",
            record.lost()
        )?;
        self.fmt_latency(f)?;
        writeln!(f, "  immortal keys   {immortal}")?;
        match record.recovery {
            Some(took) => writeln!(f, "  recovery        {took:.1?}")?,
            None => writeln!(f, "  recovery        not needed")?,
        }
        let store_error = record.store_error.as_deref().unwrap_or("nothing");
        write!(
            f,
            "  store errors    {}; last: {store_error}",
            FateCounts(&record.checks)
        )
    }
}

impl Figures<'_> {
    fn fmt_ledger(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ledger {
            allowed,
            denied,
            degraded_allowed,
            degraded_denied,
            errors,
        } = &self.ledger;
        let (sent, unanswered) = (self.record.sent, self.record.sent - self.ledger.answered());

        writeln!(
            f,
            "  ledger          sent {sent} = {allowed} allowed + {denied} denied \
             + {degraded_allowed} degraded allowed + {degraded_denied} degraded denied \
             + {errors} errors; unanswered {unanswered}"
        )
    }

    fn fmt_charge(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Charge) -> i128| self.charges.iter().map(of).sum::<i128>();
        let (charged, allowed) = (sum(|charge| charge.charged), sum(|charge| charge.allowed));
        let (gap, lost) = (self.gap(), sum(|charge| charge.lost));

        if matches!(self.data_loss, DataLoss::Evicted { .. }) {
            return writeln!(
                f,
                "  charge          {allowed} allowed; the server has evicted ledgers"
            );
        }
        let least = self
            .charges
            .iter()
            .map(Charge::gap)
            .min()
            .unwrap_or_default();
        let most = self
            .charges
            .iter()
            .map(Charge::gap)
            .max()
            .unwrap_or_default();
        writeln!(
            f,
            "  charge          {charged} charged - {allowed} allowed = {gap} of at most {lost} \
             (by key {least} to {most})"
        )
    }

    fn fmt_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record {
            checks,
            noise,
            deadline,
            ..
        } = self.record;
        let slowest = checks.iter().max_by_key(|check| check.took());
        let took = slowest.map(CheckRecord::took).unwrap_or_default();
        let own = slowest
            .map(|check| noise.during(check.started, check.ended))
            .unwrap_or_default();
        let (worst, late, p99) = (noise.worst(), self.latest(), p99(checks));

        writeln!(
            f,
            "  latency         slowest {took:.1?} with noise of {own:.1?} (worst {worst:.1?}), \
             p99 {p99:.1?}; beyond the timeout of {deadline:?}, without noise: {late:.1?} \
             of at most {GRACE:?}"
        )
    }
}

/// The number of keys of the store without an expiry. Keys of the tests do not count.
fn immortal(server: &Server) -> usize {
    server
        .immortal_keys()
        .iter()
        .filter(|key| key.starts_with(b"tollgate:"))
        .count()
}

/// The 99th percentile of the checks' durations.
pub(crate) fn p99<'t>(checks: impl IntoIterator<Item = &'t CheckRecord>) -> Duration {
    let mut times: Vec<Duration> = checks.into_iter().map(CheckRecord::took).collect();
    times.sort_unstable();
    times
        .get(times.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}

/// The number of failed calls by kind of error.
struct FateCounts<'t>(&'t [CheckRecord]);

impl fmt::Display for FateCounts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted: &dyn Fn(CallFate) -> bool| {
            self.0.iter().filter(|check| wanted(check.fate)).count()
        };
        for kind in ["store_timeout", "unavailable", "overload"] {
            let (lost, not_sent) = (
                count(&|fate| fate == CallFate::Lost(kind)),
                count(&|fate| fate == CallFate::NotSent(kind)),
            );
            if lost + not_sent > 0 {
                write!(f, "{kind} {lost} sent + {not_sent} not sent, ")?;
            }
        }
        write!(f, "refused {}", count(&|fate| fate == CallFate::Refused))
    }
}
