//! Who is measured, and how callers in this process are: tasks that ask one question after the
//! other.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use super::report::Round;
use crate::percentiles::{Percentiles, Samples};
use crate::random::Random;
use crate::timing::now;

/// Somebody who asks the server, ready to begin.
pub(super) trait Entrant {
    fn subject(&self) -> Subject;
    /// How many ask at the same time.
    fn crowd(&self) -> Crowd;
    /// Asks for about so long.
    fn round(&mut self, length: Duration) -> io::Result<Round>;
}

/// A subject, by name and by the runtime it has in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) runtime: Option<Runtime>,
}

/// How many ask at the same time, and how much each has on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Crowd {
    pub(super) callers: usize,
    pub(super) pipeline: usize,
}

/// What the tasks of a subject run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Runtime {
    /// Tokio's multi-thread runtime with two workers.
    TwoWorkers,
    /// Tokio's current-thread runtime.
    CurrentThread,
}

/// One of those who ask.
pub(super) trait Caller: Send + 'static {
    /// Asks about the key of this number and waits for the answer, which must be yes.
    fn ask(&mut self, key: u32) -> impl Future<Output = io::Result<()>> + Send;
}

/// Callers that are connected.
pub(super) struct Connected<C> {
    pub(super) callers: Vec<C>,
    /// How many scripts they have called so far, where that is not one for each decision.
    pub(super) calls: Option<Box<dyn Fn() -> u64>>,
}

/// Callers in this process, on a runtime of their own.
pub(super) struct InProcess<C> {
    subject: Subject,
    crowd: Crowd,
    keys: u32,
    rounds: u64,
    // Before the runtime, which ends what they wait for.
    connected: Connected<C>,
    runtime: tokio::runtime::Runtime,
}

/// What one caller has done in a round.
struct Asked<C> {
    caller: C,
    samples: Samples,
    decisions: u64,
}

impl Runtime {
    pub(super) const ALL: [Self; 2] = [Self::TwoWorkers, Self::CurrentThread];

    pub(super) fn build(self) -> io::Result<tokio::runtime::Runtime> {
        let mut builder = match self {
            Self::TwoWorkers => tokio::runtime::Builder::new_multi_thread(),
            Self::CurrentThread => tokio::runtime::Builder::new_current_thread(),
        };
        builder.worker_threads(2).enable_all().build()
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::TwoWorkers => "2 workers",
            Self::CurrentThread => "1 thread",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runtime {
            Some(runtime) => write!(out, "{}, {runtime}", self.name),
            None => out.write_str(self.name),
        }
    }
}

impl fmt::Display for Crowd {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pipeline {
            1 => write!(out, "{}", self.callers),
            pipeline => write!(out, "{} x {pipeline}", self.callers),
        }
    }
}

impl<C: Caller> InProcess<C> {
    pub(super) fn new(
        subject: Subject,
        keys: u32,
        runtime: tokio::runtime::Runtime,
        connected: Connected<C>,
    ) -> Self {
        let crowd = Crowd {
            callers: connected.callers.len(),
            pipeline: 1,
        };
        Self {
            subject,
            crowd,
            keys,
            rounds: 0,
            connected,
            runtime,
        }
    }

    fn calls(&self) -> Option<u64> {
        self.connected.calls.as_ref().map(|calls| calls())
    }
}

impl<C: Caller> Entrant for InProcess<C> {
    fn subject(&self) -> Subject {
        self.subject
    }

    fn crowd(&self) -> Crowd {
        self.crowd
    }

    fn round(&mut self, length: Duration) -> io::Result<Round> {
        let calls_before = self.calls();
        self.rounds += 1;
        let seed = self.rounds << 32;
        let callers = std::mem::take(&mut self.connected.callers);
        let start = now();
        let all = self
            .runtime
            .block_on(ask_all(callers, self.keys, seed, start + length))?;
        let took = now() - start;
        let decisions: u64 = all.iter().map(|asked| asked.decisions).sum();
        let calls = self
            .calls()
            .zip(calls_before)
            .map_or(decisions, |(after, before)| after - before);
        let mut samples = Vec::with_capacity(all.len());
        for asked in all {
            self.connected.callers.push(asked.caller);
            samples.push(asked.samples);
        }
        let Percentiles { p50_us, p99_us } = Percentiles::of(&samples);
        Ok(Round {
            decisions_per_s: float(decisions) / took.as_secs_f64(),
            p50_us,
            p99_us,
            calls_per_decision: float(calls) / float(decisions),
        })
    }
}

async fn ask_all<C: Caller>(
    callers: Vec<C>,
    keys: u32,
    seed: u64,
    until: Instant,
) -> io::Result<Vec<Asked<C>>> {
    let mut tasks = JoinSet::new();
    let count = callers.len();
    for (number, caller) in (seed..).zip(callers) {
        let samples = Samples::for_one_of(count);
        tasks.spawn(ask(
            Asked {
                caller,
                samples,
                decisions: 0,
            },
            keys,
            Random::new(number),
            until,
        ));
    }
    tasks.join_all().await.into_iter().collect()
}

/// Asks one question after the other. The end of one is the beginning of the next, so that the
/// clock is read once.
async fn ask<C: Caller>(
    mut asked: Asked<C>,
    keys: u32,
    mut random: Random,
    until: Instant,
) -> io::Result<Asked<C>> {
    let mut begun = now();
    while begun < until {
        asked.caller.ask(random.below(keys)).await?;
        let ended = now();
        asked.samples.push(ended - begun);
        asked.decisions += 1;
        begun = ended;
    }
    Ok(asked)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nobody counts to 2^53 in a round"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u32);

    impl Caller for Counting {
        async fn ask(&mut self, key: u32) -> io::Result<()> {
            assert!(key < 10);
            self.0 += 1;
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    #[test]
    fn every_decision_is_counted_on_either_runtime() {
        for runtime in Runtime::ALL {
            let subject = Subject {
                name: "counting",
                runtime: Some(runtime),
            };
            let callers = (0..3).map(|_| Counting(0)).collect();
            let connected = Connected {
                callers,
                calls: None,
            };
            let mut entrant = InProcess::new(subject, 10, runtime.build().unwrap(), connected);
            let round = entrant.round(Duration::from_millis(5)).unwrap();
            assert_eq!(
                entrant.crowd(),
                Crowd {
                    callers: 3,
                    pipeline: 1
                }
            );
            assert!(entrant.connected.callers.iter().all(|caller| caller.0 > 0));
            assert!((round.calls_per_decision - 1.0).abs() < 1e-9);
            assert!(
                round.decisions_per_s > 0.0 && round.p50_us <= round.p99_us,
                "{round:?}"
            );
        }
    }

    #[test]
    fn names_say_what_differs() {
        let on = |runtime| Subject { name: "x", runtime }.to_string();
        assert_eq!(on(Some(Runtime::TwoWorkers)), "x, 2 workers");
        assert_eq!(on(None), "x");
        assert_eq!(
            Crowd {
                callers: 50,
                pipeline: 16
            }
            .to_string(),
            "50 x 16"
        );
        assert_eq!(
            Crowd {
                callers: 50,
                pipeline: 1
            }
            .to_string(),
            "50"
        );
    }
}
