//! The second pass through the log: counts what the suggested limits would have denied.

use std::collections::HashSet;
use std::io;

use ahash::RandomState;
use tollgate::EncodedKey;
use tollgate_rules::Attributes;

use super::{PERCENTILES, UsagePeaks};
use crate::batch::{LogPass, ReplayRequest, SimulationProgress};
use crate::input::LogInput;
use crate::log::LogParser;
use crate::replay::ConfigReplay;

/// The second pass: every percentile tried as a limit.
#[derive(Debug)]
pub struct SuggestionTrials {
    pass: LogPass,
    trials: [PercentileTrial; PERCENTILES.len()],
}

/// One percentile tried as a limit.
#[derive(Debug)]
struct PercentileTrial {
    replay: ConfigReplay,
    limits: Vec<TrialDenialCounts>,
}

/// What a limit denied.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrialDenialCounts {
    pub(crate) requests: u64,
    /// Hashes of the denied keys.
    pub(crate) keys: HashSet<u64, RandomState>,
}

impl SuggestionTrials {
    pub(crate) fn new(peaks: &UsagePeaks, parser: LogParser) -> Self {
        let trial = |(permille, _)| {
            let replay = peaks.replay_at(permille);
            let limits = vec![TrialDenialCounts::default(); replay.limits().len()];
            PercentileTrial { replay, limits }
        };

        Self {
            pass: LogPass::new(parser),
            trials: PERCENTILES.map(trial),
        }
    }

    /// Replays all lines of an input. `on_progress` is called after each chunk.
    pub fn replay(
        &mut self,
        input: &mut LogInput,
        on_progress: &mut dyn FnMut(SimulationProgress),
    ) -> io::Result<()> {
        let Self { pass, trials } = self;
        pass.read(input, on_progress, |requests| {
            trials.iter_mut().for_each(|trial| trial.replay(requests));
        })
    }

    /// What a limit denied at the percentile with this index.
    pub(crate) fn denials(&self, percentile: usize, limit: &str) -> Option<&TrialDenialCounts> {
        let PercentileTrial { replay, limits } = &self.trials[percentile];
        let index = replay
            .limits()
            .position(|config| config.rule.name().as_str() == limit)?;
        limits.get(index)
    }
}

impl PercentileTrial {
    fn replay(&mut self, requests: &[ReplayRequest<impl Attributes>]) {
        let Self { replay, limits } = self;
        replay.decide(requests, |_, result| {
            let Ok(decision) = result else { return };

            for (selected, outcome) in decision.limits.iter().zip(decision.outcomes) {
                if !outcome.verdict.is_allowed() {
                    let denials = &mut limits[selected.limit.position()];
                    denials.requests += 1;
                    denials.keys.insert(key_hash(&selected.key));
                }
            }
        });
    }
}

/// A hash that stands for a key. Only equality matters, and a rare collision does no harm.
pub(super) fn key_hash(key: &EncodedKey) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(key.as_bytes())
}
