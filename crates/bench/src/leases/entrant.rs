//! Who is measured, and how: threads that ask one question after the other.

use std::fmt;
use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::case::Case;
use super::report::Round;
use crate::timing::{Span, now, time};

/// The key that everybody asks about.
const KEY: &str = "user-000000000042";
/// So many decisions are made between two looks at the clock.
const STRIDE: u64 = 256;

/// Somebody who asks, ready to begin.
pub(super) trait Entrant {
    fn subject(&self) -> &'static str;
    fn load(&self) -> Load;
    /// Asks for about so long.
    fn round(&mut self, length: Duration) -> io::Result<Round>;
}

/// How many ask at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// Threads of the operating system, each of which makes one decision after the other.
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

/// A rate limiter that may answer from memory. Resolved at compile time, so that a subject pays for
/// nothing but itself.
pub(super) trait Subject: Send + Sync + 'static {
    const NAME: &'static str;

    /// Asks for one request of this key, from any thread, and waits for the store if it must.
    fn ask(&self, key: &str) -> io::Result<Told>;

    /// How often it has called the store.
    fn calls(&self) -> u64;

    /// Has it give back what it holds, so that nothing of it goes on while others are measured.
    fn rest(&self) -> io::Result<()>;
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) is_allowed: bool,
    /// It was there at once, without waiting for the store.
    pub(super) is_local: bool,
}

/// Threads that ask one subject.
pub(super) struct ByThreads<S> {
    subject: S,
    case: Case,
    threads: u32,
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    asked: u64,
    allowed: u64,
    local: u64,
}

impl Answers {
    #[inline]
    fn add(&mut self, told: Told) {
        self.asked += 1;
        self.allowed += u64::from(told.is_allowed);
        self.local += u64::from(told.is_local);
    }
}

impl<S: Subject> ByThreads<S> {
    /// A subject that has been asked before, until it refuses if it is to refuse.
    pub(super) fn new(subject: S, case: Case, threads: u32) -> io::Result<Self> {
        while subject.ask(KEY)?.is_allowed && case == Case::Denied {}
        subject.rest()?;
        Ok(Self {
            subject,
            case,
            threads,
        })
    }

    /// All threads start together.
    fn ask(&self, length: Duration) -> io::Result<(Span, Answers)> {
        let barrier = Barrier::new(self.threads as usize);
        let run = || {
            // A program has its keys as strings.
            let key = KEY.to_owned();
            barrier.wait();
            let until = now() + length;
            let (span, answers) = time(|| ask_until(&self.subject, &key, until));
            answers.map(|answers| (span, answers))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(run)).collect();
            let mut sum = (Span::default(), Answers::default());
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

fn ask_until(subject: &impl Subject, key: &str, until: Instant) -> io::Result<Answers> {
    let mut answers = Answers::default();
    while now() < until {
        for _ in 0..STRIDE {
            answers.add(subject.ask(key)?);
        }
    }
    Ok(answers)
}

impl<S: Subject> Entrant for ByThreads<S> {
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
            Answers {
                asked,
                allowed,
                local,
            },
        ) = self.ask(length)?;
        let calls = self.subject.calls() - calls_before;
        self.subject.rest()?;
        if !self.case.is_right(allowed, asked) {
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
    reason = "nobody counts to 2^53 in a round"
)]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    /// Allows three, answers every other question at once and calls for the rest.
    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Subject for Counting {
        const NAME: &'static str = "counting";

        fn ask(&self, _: &str) -> io::Result<Told> {
            let asked = self.0.fetch_add(1, Relaxed);
            Ok(Told {
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
    fn every_answer_counts() {
        for threads in [1, 2] {
            let mut entrant = ByThreads::new(Counting::default(), Case::Denied, threads).unwrap();
            assert_eq!(
                entrant.subject.0.load(Relaxed),
                4,
                "it is asked until it refuses"
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
    fn wrong_answers_are_an_error() {
        let mut entrant = ByThreads::new(Counting::default(), Case::Hot, 1).unwrap();
        let error = entrant
            .round(Duration::from_millis(1))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("counting, hot: 2 of "), "{error}");
    }

    #[test]
    fn loads_are_told_in_words() {
        assert_eq!(Load::Threads(1).to_string(), "1 thread");
        assert_eq!(Load::Callers(256).to_string(), "256 callers");
    }
}
