//! Callers in this process: tasks that make one decision after the other, on a separate runtime.

use std::iter::repeat_with;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use fastrand::Rng;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tollgate::{Limiter, Source};
use tollgate_load::latency_histogram;

use super::rounds::Entrant;
use super::row::{Figures, float};
use super::text::counted;
use super::timing::{now, percentiles, record};

/// Decisions per second of all callers together.
pub(crate) const RATE: &str = "decisions_per_s";
/// The time per decision of all callers together.
pub(crate) const NS: &str = "ns_per_decision";
/// Script calls per decision.
pub(crate) const CALLS: &str = "calls_per_decision";
const SEED: u64 = 1;

/// The runtime of a subject's tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runtime {
    /// Tokio's multi-thread runtime with two workers.
    TwoWorkers,
    /// Tokio's current-thread runtime.
    CurrentThread,
}

/// A caller that makes decisions.
pub(crate) trait Caller: Send + 'static {
    /// Checks the key with this number and waits for the decision, which must be the expected one.
    fn ask(&mut self, key: u32) -> impl Future<Output = Result<()>> + Send;
}

/// Tollgate with a shared store, called through the limiter, as an application does. Decisions from
/// other sources than the store are errors.
#[derive(Clone)]
pub(crate) struct LimiterCaller {
    pub(crate) limiter: Limiter,
    /// The names of the limits that a request must pass.
    pub(crate) limits: &'static [&'static str],
    pub(crate) keys: Arc<[String]>,
    /// The decision that is expected.
    pub(crate) is_allowed: bool,
}

impl Caller for LimiterCaller {
    async fn ask(&mut self, key: u32) -> Result<()> {
        let key = self.keys[key as usize].as_str();
        let decision = match self.limits {
            [limit] => self.limiter.check(limit, key).await?,
            [first, second, others @ ..] => {
                let check = self.limiter.check(first, key).and(second, key);
                let check = others
                    .iter()
                    .fold(check, |check, limit| check.and(limit, key));
                check.await?
            }
            [] => bail!("a caller needs a limit"),
        };
        let is_expected = decision.is_allowed() == self.is_allowed;
        ensure!(
            is_expected && decision.source() == Source::Store,
            "unexpected decision: {decision:?}"
        );
        Ok(())
    }
}

/// Callers with open connections.
pub(crate) struct ConnectedCallers<C> {
    pub(crate) callers: Vec<C>,
    /// Reads the number of script calls so far, where that is not one for each decision.
    pub(crate) calls: Option<Box<dyn Fn() -> u64>>,
}

struct InProcessCallers<C> {
    keys: u32,
    random: Rng,
    // Dropped before the runtime, which runs their tasks.
    connected: ConnectedCallers<C>,
    runtime: tokio::runtime::Runtime,
}

impl Runtime {
    pub(crate) const ALL: [Self; 2] = [Self::TwoWorkers, Self::CurrentThread];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TwoWorkers => "2 workers",
            Self::CurrentThread => "1 thread",
        }
    }

    pub(crate) fn build(self) -> Result<tokio::runtime::Runtime> {
        let mut builder = match self {
            Self::TwoWorkers => tokio::runtime::Builder::new_multi_thread(),
            Self::CurrentThread => tokio::runtime::Builder::new_current_thread(),
        };
        Ok(builder.worker_threads(2).enable_all().build()?)
    }
}

/// Connects callers on a new runtime.
pub(crate) fn in_process<C: Caller>(
    subject: &str,
    keys: u32,
    runtime: Runtime,
    connect: impl Future<Output = Result<ConnectedCallers<C>>>,
) -> Result<Entrant<'static>> {
    let runtime = runtime.build()?;
    let connected = runtime.block_on(connect)?;
    let load = counted(connected.callers.len(), "caller");
    let mut callers = InProcessCallers {
        keys,
        random: Rng::with_seed(SEED),
        connected,
        runtime,
    };
    Ok(Entrant::new(subject, load, move |length| {
        callers.round(length)
    }))
}

impl<C: Caller> InProcessCallers<C> {
    fn calls(&self) -> Option<u64> {
        self.connected.calls.as_ref().map(|calls| calls())
    }

    fn round(&mut self, length: Duration) -> Result<Figures> {
        let calls_before = self.calls();
        // Allocated before the clock starts.
        let callers = std::mem::take(&mut self.connected.callers);
        let callers: Vec<_> = callers
            .into_iter()
            .zip(repeat_with(|| latency_histogram(3)))
            .collect();
        let (start, keys) = (now(), self.keys);
        let tasks = callers.into_iter().map(|(caller, latencies)| {
            let random = self.random.fork();
            ask(caller, latencies, keys, random, start + length)
        });
        let results = self
            .runtime
            .block_on(async { tasks.collect::<JoinSet<_>>().join_all().await });
        let took = now() - start;

        let mut latencies = latency_histogram(3);
        for result in results {
            let (caller, of_caller) = result?;
            latencies.add(&of_caller)?;
            self.connected.callers.push(caller);
        }
        let decisions = latencies.len();
        let calls = self.calls().zip(calls_before);
        let calls = calls.map_or(decisions, |(after, before)| after - before);

        let mut figures = percentiles(&latencies);
        let rate = float(decisions) / took.as_secs_f64();
        figures.extend([(RATE, rate), (NS, 1e9 / rate)]);
        figures.insert(CALLS, float(calls) / float(decisions));
        Ok(figures)
    }
}

/// Makes one decision after the other, and at least one. The end time of one is the start time of
/// the next, so the clock is read once per decision.
async fn ask<C: Caller>(
    mut caller: C,
    mut latencies: Histogram<u64>,
    keys: u32,
    mut random: Rng,
    until: Instant,
) -> Result<(C, Histogram<u64>)> {
    let mut begun = now();
    loop {
        caller.ask(random.u32(..keys)).await?;
        let ended = now();
        record(&mut latencies, ended - begun);
        if ended >= until {
            return Ok((caller, latencies));
        }
        begun = ended;
    }
}

#[cfg(test)]
mod tests {
    use super::super::timing::{P50, P99};
    use super::*;

    struct CountingCaller(u32);

    impl Caller for CountingCaller {
        async fn ask(&mut self, key: u32) -> Result<()> {
            assert!(key < 10);
            self.0 += 1;
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    #[test]
    fn every_decision_is_counted_on_either_runtime() {
        for runtime in Runtime::ALL {
            let callers = (0..3).map(|_| CountingCaller(0)).collect();
            let mut callers = InProcessCallers {
                keys: 10,
                random: Rng::with_seed(SEED),
                connected: ConnectedCallers {
                    callers,
                    calls: None,
                },
                runtime: runtime.build().unwrap(),
            };
            let round = callers.round(Duration::from_millis(5)).unwrap();
            assert_eq!(callers.connected.callers.len(), 3);
            assert!(callers.connected.callers.iter().all(|caller| caller.0 > 0));
            assert!((round[CALLS] - 1.0).abs() < 1e-9);
            assert!(round[RATE] > 0.0 && round[P50] <= round[P99], "{round:?}");
        }
    }
}
