//! The six figures of a row: what they are, how they read, and what they must be.

use std::fmt;
use std::time::Duration;

use testkit::servers::Server;

use super::admission::{self, Excesses};
use super::record::{Record, Told};
use super::subjects::{self, KEYS};
use super::watched::Fate;

/// What a decision may take beyond its deadline.
pub(crate) const GRACE: Duration = Duration::from_millis(5);
/// How soon after the end of a fault the store decides again.
const RECOVERY_MAX: Duration = Duration::from_secs(1);

/// What the store may have forgotten, and what that excuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Nothing.
    Kept,
    /// Everything, at the moments on record: one burst per key more for each.
    Emptied,
    /// What had not reached the replica when it took over: one burst per key more.
    FailedOver,
    /// Counters and ledgers, each so many times at most: one burst for each time.
    Evicted {
        /// How often a key was evicted that was evicted most often.
        times: u64,
    },
    /// Counters, but no ledger, because somebody else wrote to them: one burst.
    Spoiled,
}

/// The figures of one row.
#[derive(Debug)]
pub(crate) struct Figures<'r> {
    record: &'r Record,
    memory: Memory,
    ledger: Ledger,
    charges: Vec<Charge>,
    excesses: Excesses,
    false_denials: u64,
    /// Answers of the store that were about somebody else.
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

/// The units of one key since the store last forgot everything.
#[derive(Debug)]
struct Charge {
    charged: i128,
    allowed: i128,
    lost: i128,
    /// Allowed when it may have gone with its primary.
    at_risk: i128,
}

impl Record {
    /// The figures, with what is found on these servers.
    pub(crate) fn figures<'s>(
        &self,
        memory: Memory,
        servers: impl IntoIterator<Item = &'s Server>,
    ) -> Figures<'_> {
        Figures {
            record: self,
            memory,
            ledger: Ledger::of(&self.told),
            charges: (0..KEYS).map(|key| self.charge(key)).collect(),
            excesses: admission::excesses(self),
            false_denials: admission::false_denials(self),
            strays: self.strays(),
            immortal: servers.into_iter().map(immortal).sum(),
        }
    }

    /// Calls whose reply never came.
    pub(crate) fn lost(&self) -> usize {
        self.told.iter().filter(|told| told.is_lost()).count()
    }

    fn charge(&self, key_number: usize) -> Charge {
        let own = || {
            self.told
                .iter()
                .filter(|told| self.subjects[told.subject].key_number == key_number)
        };
        let units = |told: &Told| i128::from(self.subjects[told.subject].cost);
        let since = self.forgotten.iter().max();
        let allowed = || own().filter(|told| told.is_allowed && told.decided_at().as_ref() > since);
        let failover = self
            .failover
            .as_ref()
            .filter(|failover| failover.keys.contains(&key_number));
        let at_risk = allowed()
            .filter(|told| failover.is_some_and(|both| both.during.contains(&told.answered)));
        let base = if self.is_told_apart && since.is_none() {
            subjects::base(key_number)
        } else {
            0
        };
        Charge {
            charged: i128::from(self.charged[key_number]) - i128::from(base),
            allowed: allowed().map(units).sum(),
            lost: own().filter(|told| told.is_lost()).map(units).sum(),
            at_risk: at_risk.map(units).sum(),
        }
    }

    /// Answers about a ledger that is somebody else's. One that was forgotten is nobody's.
    fn strays(&self) -> usize {
        let strays = self.told.iter().filter(|told| {
            told.ledger_of
                .is_some_and(|owner| owner != self.subjects[told.subject].key_number)
        });
        strays.count()
    }
}

impl Ledger {
    fn of(told: &[Told]) -> Self {
        let mut ledger = Self::default();
        for told in told {
            let place = match (told.is_error, told.is_degraded, told.is_allowed) {
                (true, _, _) => &mut ledger.errors,
                (_, false, true) => &mut ledger.allowed,
                (_, false, false) => &mut ledger.denied,
                (_, true, true) => &mut ledger.degraded_allowed,
                (_, true, false) => &mut ledger.degraded_denied,
            };
            *place += 1;
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
    /// Prints the figures, then sees that they are what they must be.
    pub(crate) fn hold(&self) {
        println!("{self}");
        let Self { record, ledger, .. } = self;
        assert_eq!(
            record.sent,
            ledger.answered(),
            "every question was answered"
        );
        assert_eq!(ledger.errors, 0, "no question failed for good");
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
            "all are counted"
        );
        assert_eq!(
            record.health.store_errors.total(),
            self.degraded() as u64,
            "and all that caused them"
        );
        assert_eq!(self.strays, 0, "no answer reached another asker");
        self.charge_holds();
        self.admission_holds();
        assert!(
            self.false_denials <= record.lost() as u64,
            "nobody is denied for what nobody asked"
        );
        assert!(
            self.latest() <= GRACE,
            "no decision takes longer than its deadline"
        );
        assert_eq!(self.immortal, 0, "every key has an expiry");
        assert!(
            record.recovery.is_none_or(|took| took <= RECOVERY_MAX),
            "the store is soon asked again"
        );
    }

    /// The row did what it is named after: some decisions were not the store's.
    pub(crate) fn degraded(&self) -> usize {
        self.ledger.degraded_allowed + self.ledger.degraded_denied
    }

    /// What the store charged and nobody was told of.
    pub(crate) fn gap(&self) -> i128 {
        self.charges.iter().map(Charge::gap).sum()
    }

    fn charge_holds(&self) {
        for (key_number, charge) in self.charges.iter().enumerate() {
            let gap = charge.gap();
            assert!(
                gap <= charge.lost,
                "key {key_number} was charged for calls that were answered: {charge:?}"
            );
            let forgotten_max = match self.memory {
                Memory::Kept | Memory::Emptied | Memory::Spoiled => 0,
                Memory::FailedOver => charge.at_risk,
                Memory::Evicted { .. } => i128::MAX,
            };
            assert!(
                -gap <= forgotten_max,
                "key {key_number} was allowed what was never charged: {charge:?}"
            );
        }
    }

    fn admission_holds(&self) {
        let Excesses { store, local } = &self.excesses;
        assert!(
            local.is_none_or(|local| local.bursts == 0),
            "the policy `local` keeps to its share"
        );
        let bursts_max = match self.memory {
            Memory::Kept => 0,
            Memory::Emptied => self.record.forgotten.len() as u64,
            Memory::FailedOver | Memory::Spoiled => 1,
            Memory::Evicted { times } => times,
        };
        let bursts = store.map_or(0, |store| store.bursts);
        assert!(
            bursts <= bursts_max,
            "more was admitted than the limits allow: {bursts} bursts of {bursts_max}"
        );
    }

    /// The most by which a decision exceeded its deadline, less the noise that there was while it
    /// was made.
    fn latest(&self) -> Duration {
        let Record {
            told,
            noise,
            deadline,
            ..
        } = self.record;
        let late = told.iter().map(|told| {
            told.took()
                .saturating_sub(*deadline)
                .saturating_sub(noise.during(told.asked, told.answered))
        });
        late.max().unwrap_or_default()
    }
}

/// One line for each figure.
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
            None => writeln!(f, "  recovery        none was needed")?,
        }
        let complaint = record.complaint.as_deref().unwrap_or("nothing");
        write!(
            f,
            "  no answer       {}; the store says: {complaint}",
            Fates(&record.told)
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
            "  ledger          sent {sent} = {allowed} allowed + {denied} denied + {degraded_allowed} degraded allowed \
             + {degraded_denied} degraded denied + {errors} errors; unanswered {unanswered}"
        )
    }

    fn fmt_charge(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Charge) -> i128| self.charges.iter().map(of).sum::<i128>();
        let (charged, allowed) = (sum(|charge| charge.charged), sum(|charge| charge.allowed));
        let (gap, lost) = (self.gap(), sum(|charge| charge.lost));
        if matches!(self.memory, Memory::Evicted { .. }) {
            return writeln!(
                f,
                "  charge          {allowed} allowed; the server has forgotten ledgers"
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
            "  charge          {charged} charged - {allowed} allowed = {gap} of at most {lost} (by key {least} to {most})"
        )
    }

    fn fmt_latency(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record {
            told,
            noise,
            deadline,
            ..
        } = self.record;
        let slowest = told.iter().max_by_key(|told| told.took());
        let took = slowest.map(Told::took).unwrap_or_default();
        let own = slowest
            .map(|told| noise.during(told.asked, told.answered))
            .unwrap_or_default();
        let (worst, late, p99) = (noise.worst(), self.latest(), p99(told));
        writeln!(
            f,
            "  latency         slowest {took:.1?} with noise of {own:.1?} (worst {worst:.1?}), p99 {p99:.1?}; beyond the \
             deadline of {deadline:?}, without noise: {late:.1?} of at most {GRACE:?}"
        )
    }
}

/// How many keys of the store have no expiry. Tests write some of their own.
fn immortal(server: &Server) -> usize {
    server
        .immortal_keys()
        .iter()
        .filter(|key| key.starts_with(b"tollgate:"))
        .count()
}

/// What 99 of 100 answers took at most.
pub(crate) fn p99<'t>(told: impl IntoIterator<Item = &'t Told>) -> Duration {
    let mut times: Vec<Duration> = told.into_iter().map(Told::took).collect();
    times.sort_unstable();
    times
        .get(times.len() * 99 / 100)
        .copied()
        .unwrap_or_default()
}

/// How often what went wrong.
struct Fates<'t>(&'t [Told]);

impl fmt::Display for Fates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count =
            |wanted: &dyn Fn(Fate) -> bool| self.0.iter().filter(|told| wanted(told.fate)).count();
        for kind in ["timeout", "away", "overloaded"] {
            let (lost, not_sent) = (
                count(&|fate| fate == Fate::Lost(kind)),
                count(&|fate| fate == Fate::NotSent(kind)),
            );
            if lost + not_sent > 0 {
                write!(f, "{kind} {lost} sent + {not_sent} not sent, ")?;
            }
        }
        write!(f, "refused {}", count(&|fate| fate == Fate::Refused))
    }
}
