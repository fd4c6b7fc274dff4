//! Subjects that are ready to be measured. Callers in this process are tasks that make one decision
//! after the other.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;

use super::report::Round;
use crate::percentiles::{Percentiles, Samples};
use crate::random::Random;
use crate::timing::now;

/// A subject that is ready to be measured.
pub(super) trait Entrant {
    fn subject(&self) -> Subject;
    /// How many callers there are.
    fn crowd(&self) -> Crowd;
    /// Makes decisions for about `length`.
    fn round(&mut self, length: Duration) -> io::Result<Round>;
}

/// A subject: its name, and its runtime if it runs in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) runtime: Option<Runtime>,
}

/// The number of concurrent callers, and how many calls each has in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Crowd {
    pub(super) callers: usize,
    pub(super) pipeline: usize,
}

/// The runtime of a subject's tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Runtime {
    /// Tokio's multi-thread runtime with two workers.
    TwoWorkers,
    /// Tokio's current-thread runtime.
    CurrentThread,
}

/// A caller that makes decisions.
pub(super) trait Caller: Send + 'static {
    /// Checks the key with this number and waits for the decision, which must allow it.
    fn ask(&mut self, key: u32) -> impl Future<Output = io::Result<()>> + Send;
}

/// Callers with open connections.
pub(super) struct ConnectedCallers<C> {
    pub(super) callers: Vec<C>,
    /// Reads the number of script calls so far, where that is not one for each decision.
    pub(super) calls: Option<Box<dyn Fn() -> u64>>,
}

/// Callers in this process, on a separate runtime.
pub(super) struct InProcessCallers<C> {
    subject: Subject,
    crowd: Crowd,
    keys: u32,
    rounds: u64,
    // Dropped before the runtime, which runs their tasks.
    connected: ConnectedCallers<C>,
    runtime: tokio::runtime::Runtime,
}

/// The result of one caller in a round.
struct CallerResult<C> {
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

impl<C: Caller> InProcessCallers<C> {
    pub(super) fn new(
        subject: Subject,
        keys: u32,
        runtime: tokio::runtime::Runtime,
        connected: ConnectedCallers<C>,
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

impl<C: Caller> Entrant for InProcessCallers<C> {
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
        let Percentiles { p50_us, p99_us } = Percentiles::from_samples(&samples);
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
) -> io::Result<Vec<CallerResult<C>>> {
    let mut tasks = JoinSet::new();
    let count = callers.len();
    for (number, caller) in (seed..).zip(callers) {
        let samples = Samples::for_one_of(count);
        tasks.spawn(ask(
            CallerResult {
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

/// Makes one decision after the other. The end time of one is the start time of the next, so the
/// clock is read once per decision.
async fn ask<C: Caller>(
    mut asked: CallerResult<C>,
    keys: u32,
    mut random: Random,
    until: Instant,
) -> io::Result<CallerResult<C>> {
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
    reason = "a round has fewer than 2^53 decisions"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    struct CountingCaller(u32);

    impl Caller for CountingCaller {
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
            let callers = (0..3).map(|_| CountingCaller(0)).collect();
            let connected = ConnectedCallers {
                callers,
                calls: None,
            };
            let mut entrant =
                InProcessCallers::new(subject, 10, runtime.build().unwrap(), connected);
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
    fn names_show_the_runtime_and_the_pipeline() {
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
