//! Subjects that are ready to be measured, by threads that make one decision after the other.

use std::fmt;
use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::case::Case;
use super::report::Round;
use crate::timing::{Span, now, time};

/// The key that all threads check.
const KEY: &str = "user-000000000042";
/// The number of decisions between two readings of the clock.
const STRIDE: u64 = 256;

/// A subject that is ready to be measured.
pub(super) trait Entrant {
    fn subject(&self) -> &'static str;
    fn load(&self) -> Load;
    /// Makes decisions for about `length`.
    fn round(&mut self, length: Duration) -> io::Result<Round>;
}

/// The number of concurrent threads or tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// Operating system threads, each of which makes one decision after the other.
    Threads(u32),
    /// Tasks, each of which waits for the store.
    Callers(u32),
}

impl fmt::Display for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, what) = match self {
            Self::Threads(count) => (count, "thread"),
            Self::Callers(count) => (count, "caller"),
        };
        write!(out, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

/// A rate limiter that may decide without a store call. Calls are resolved at compile time, so that
/// a subject pays for nothing but itself.
pub(super) trait Subject: Send + Sync + 'static {
    const NAME: &'static str;

    /// Checks one request of this key, from any thread, and waits for the store if it must.
    fn ask(&self, key: &str) -> io::Result<SubjectDecision>;

    /// The number of store calls so far.
    fn calls(&self) -> u64;

    /// Returns all leased units, so that the subject does nothing while others are measured.
    fn rest(&self) -> io::Result<()>;
}

/// A decision of a subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct SubjectDecision {
    pub(super) is_allowed: bool,
    /// Whether the decision was made without waiting for the store.
    pub(super) is_local: bool,
}

/// Threads that call one subject.
pub(super) struct ThreadedSubject<S> {
    subject: S,
    case: Case,
    threads: u32,
}

/// Totals of the decisions.
#[derive(Clone, Copy, Debug, Default)]
struct DecisionTotals {
    asked: u64,
    allowed: u64,
    local: u64,
}

impl DecisionTotals {
    #[inline]
    fn add(&mut self, decision: SubjectDecision) {
        self.asked += 1;
        self.allowed += u64::from(decision.is_allowed);
        self.local += u64::from(decision.is_local);
    }
}

impl<S: Subject> ThreadedSubject<S> {
    /// A subject that has been called before and, in the denied case, has used up its budget.
    pub(super) fn new(subject: S, case: Case, threads: u32) -> io::Result<Self> {
        while subject.ask(KEY)?.is_allowed && case == Case::Denied {}
        subject.rest()?;
        Ok(Self {
            subject,
            case,
            threads,
        })
    }

    /// Runs all threads, which start together.
    fn ask(&self, length: Duration) -> io::Result<(Span, DecisionTotals)> {
        let barrier = Barrier::new(self.threads as usize);
        let run = || {
            // Applications have their keys as strings.
            let key = KEY.to_owned();
            barrier.wait();
            let until = now() + length;
            let (span, answers) = time(|| ask_until(&self.subject, &key, until));
            answers.map(|answers| (span, answers))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(run)).collect();
            let mut sum = (Span::default(), DecisionTotals::default());
            for thread in threads {
                let (span, answers) = thread.join().expect("subjects do not panic")?;
                sum.0 += span;
                sum.1.asked += answers.asked;
                sum.1.allowed += answers.allowed;
                sum.1.local += answers.local;
            }
            Ok(sum)
        })
    }
}

fn ask_until(subject: &impl Subject, key: &str, until: Instant) -> io::Result<DecisionTotals> {
    let mut answers = DecisionTotals::default();
    while now() < until {
        for _ in 0..STRIDE {
            answers.add(subject.ask(key)?);
        }
    }
    Ok(answers)
}

impl<S: Subject> Entrant for ThreadedSubject<S> {
    fn subject(&self) -> &'static str {
        S::NAME
    }

    fn load(&self) -> Load {
        Load::Threads(self.threads)
    }

    fn round(&mut self, length: Duration) -> io::Result<Round> {
        let calls_before = self.subject.calls();
        let (
            span,
            DecisionTotals {
                asked,
                allowed,
                local,
            },
        ) = self.ask(length)?;
        let calls = self.subject.calls() - calls_before;
        self.subject.rest()?;
        if !self.case.is_correct(allowed, asked) {
            let (name, case) = (S::NAME, self.case);
            return Err(io::Error::other(format!(
                "{name}, {case}: {allowed} of {asked} were allowed"
            )));
        }
        let ns_per_decision = span.ns() / float(asked);
        Ok(Round {
            ns_per_decision,
            decisions_per_s: f64::from(self.threads) * 1e9 / ns_per_decision,
            local: float(local) / float(asked),
            calls_per_decision: float(calls) / float(asked),
            waited: span.waited_share(),
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a round has fewer than 2^53 decisions"
)]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Allows three checks; decides every other one locally and makes a store call for the rest.
    #[derive(Default)]
    struct CountingSubject(AtomicU64);

    impl Subject for CountingSubject {
        const NAME: &'static str = "counting";

        fn ask(&self, _: &str) -> io::Result<SubjectDecision> {
            let asked = self.0.fetch_add(1, Relaxed);
            Ok(SubjectDecision {
                is_allowed: asked < 3,
                is_local: asked.is_multiple_of(2),
            })
        }

        fn calls(&self) -> u64 {
            self.0.load(Relaxed) / 2
        }

        fn rest(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_decision_is_counted() {
        for threads in [1, 2] {
            let mut entrant =
                ThreadedSubject::new(CountingSubject::default(), Case::Denied, threads).unwrap();
            assert_eq!(
                entrant.subject.0.load(Relaxed),
                4,
                "it is called until it denies"
            );
            let round = entrant.round(Duration::from_millis(2)).unwrap();
            assert!(
                (round.local - 0.5).abs() < 1e-9 && (round.calls_per_decision - 0.5).abs() < 1e-9,
                "{round:?}"
            );
            let speed = round.decisions_per_s * round.ns_per_decision / 1e9;
            assert!((speed - f64::from(threads)).abs() < 1e-6, "{round:?}");
        }
    }

    #[test]
    fn wrong_decisions_are_an_error() {
        let mut entrant = ThreadedSubject::new(CountingSubject::default(), Case::Hot, 1).unwrap();
        let error = entrant
            .round(Duration::from_millis(1))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("counting, hot: 2 of "), "{error}");
    }

    #[test]
    fn loads_are_shown_with_a_noun() {
        assert_eq!(Load::Threads(1).to_string(), "1 thread");
        assert_eq!(Load::Callers(256).to_string(), "256 callers");
    }
}
