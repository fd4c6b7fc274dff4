//! Threads that make one decision after the other with a subject that may decide without the store.

use std::time::{Duration, Instant};

use super::case::{Case, KEY};
use super::{LOCAL, WAITED};
use crate::harness::callers::{CALLS, NS, RATE};
use crate::harness::timing::now;
use crate::harness::{Entrant, Figures, counted, float, together};
use anyhow::{Result, ensure};

/// The number of decisions between two readings of the clock.
const STRIDE: u64 = 256;

/// A rate limiter that may decide without a store call.
pub(super) trait Subject: Send + Sync {
    /// Checks one request of this key, from any thread, and waits for the store if it must.
    fn ask(&self, key: &str) -> Result<SubjectDecision>;

    /// The number of store calls so far.
    fn calls(&self) -> u64;

    /// Returns all leased units, so that the subject does nothing while others are measured.
    fn rest(&self) -> Result<()>;

    /// Checks requests of this key until then. The loop is compiled for each subject, so that a
    /// subject pays for nothing but itself.
    fn ask_until(&self, key: &str, until: Instant) -> Result<DecisionTotals> {
        let mut totals = DecisionTotals::default();
        while now() < until {
            for _ in 0..STRIDE {
                let decision = self.ask(key)?;
                totals.asked += 1;
                totals.allowed += u64::from(decision.is_allowed);
                totals.local += u64::from(decision.is_local);
            }
        }
        Ok(totals)
    }
}

/// A decision of a subject.
#[derive(Debug)]
pub(super) struct SubjectDecision {
    pub(super) is_allowed: bool,
    /// Whether the decision was made without waiting for the store.
    pub(super) is_local: bool,
}

impl SubjectDecision {
    pub(super) const fn local(is_allowed: bool) -> Self {
        Self {
            is_allowed,
            is_local: true,
        }
    }

    pub(super) const fn waited(is_allowed: bool) -> Self {
        Self {
            is_allowed,
            is_local: false,
        }
    }
}

/// Totals of the decisions.
#[derive(Debug, Default)]
pub(super) struct DecisionTotals {
    asked: u64,
    allowed: u64,
    local: u64,
}

/// Threads with a subject that has been called before and, in the denied case, has used up its
/// budget.
pub(super) fn entrant(
    name: &str,
    subject: Box<dyn Subject>,
    case: Case,
    threads: usize,
) -> Result<Entrant<'static>> {
    while subject.ask(KEY)?.is_allowed && case == Case::Denied {}
    subject.rest()?;
    let load = counted(threads, "thread");
    Ok(Entrant::new(name, load, move |length| {
        round(&*subject, case, threads, length)
    }))
}

fn round(subject: &dyn Subject, case: Case, threads: usize, length: Duration) -> Result<Figures> {
    let calls_before = subject.calls();
    let (span, totals) = together(threads, |_| {
        // Applications have their keys as strings.
        let key = KEY.to_owned();
        subject.ask_until(&key, now() + length)
    });
    let calls = subject.calls() - calls_before;
    subject.rest()?;

    let (mut asked, mut allowed, mut local) = (0, 0, 0);
    for totals in totals {
        let totals = totals?;
        asked += totals.asked;
        allowed += totals.allowed;
        local += totals.local;
    }
    let is_correct = case.is_correct(allowed, asked);
    ensure!(is_correct, "{case}: {allowed} of {asked} were allowed");
    let ns = span.ns() / float(asked);
    Ok(Figures::from([
        (NS, ns),
        (RATE, float(threads as u64) * 1e9 / ns),
        (LOCAL, float(local) / float(asked)),
        (CALLS, float(calls) / float(asked)),
        (WAITED, span.waited_share()),
    ]))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Allows three checks; decides every other one locally and makes a store call for the rest.
    struct CountingSubject(AtomicU64);

    impl Subject for &CountingSubject {
        fn ask(&self, _: &str) -> Result<SubjectDecision> {
            let asked = self.0.fetch_add(1, Relaxed);
            Ok(SubjectDecision {
                is_allowed: asked < 3,
                is_local: asked.is_multiple_of(2),
            })
        }

        fn calls(&self) -> u64 {
            self.0.load(Relaxed) / 2
        }

        fn rest(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_decision_is_counted() {
        for threads in [1, 2] {
            let subject = CountingSubject(AtomicU64::new(4));
            let length = Duration::from_millis(2);
            let round = round(&&subject, Case::Denied, threads, length).unwrap();
            let is_half = |figure| (round[figure] - 0.5).abs() < 1e-9;
            assert!(is_half(LOCAL) && is_half(CALLS), "{round:?}");
            let speed = round[RATE] * round[NS] / 1e9;
            assert!((speed - float(threads as u64)).abs() < 1e-6, "{round:?}");
        }
    }

    #[test]
    fn a_denied_subject_is_called_until_it_denies() {
        static SUBJECT: CountingSubject = CountingSubject(AtomicU64::new(0));
        entrant("counting", Box::new(&SUBJECT), Case::Denied, 1).unwrap();
        assert_eq!(SUBJECT.0.load(Relaxed), 4);
    }

    #[test]
    fn wrong_decisions_are_an_error() {
        let subject = CountingSubject(AtomicU64::new(1));
        let error = round(&&subject, Case::Hot, 1, Duration::from_millis(1)).unwrap_err();
        assert!(error.to_string().starts_with("hot: 2 of "), "{error}");
    }
}
