//! The second pass through the log: counts what the suggested limits would have denied.

use std::collections::HashSet;
use std::io;

use ahash::RandomState;
use tollgate::EncodedKey;
use tollgate_rules::Attributes;

use super::UsagePeaks;
use super::usage::CANDIDATES_MAX;
use crate::batch::{LogOptions, LogPass, ReplayRequest, SimulationProgress};
use crate::input::LogInput;
use crate::replay::ConfigReplay;

/// The second pass: every candidate tried as a limit.
#[derive(Debug)]
pub struct SuggestionTrials {
    pass: LogPass,
    trials: [CandidateTrial; CANDIDATES_MAX],
}

/// One candidate of each limit tried.
#[derive(Debug)]
struct CandidateTrial {
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
    pub(crate) fn new(peaks: &UsagePeaks, options: LogOptions) -> Self {
        let usages = peaks.usages();
        let trial = |index: usize| {
            let replay =
                peaks.replay_with(&usages, |usage| Some(usage.candidates.get(index)?.limit));
            let limits = vec![TrialDenialCounts::default(); replay.limits().len()];
            CandidateTrial { replay, limits }
        };

        Self {
            pass: LogPass::new(options),
            trials: std::array::from_fn(trial),
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

    /// Replays the requests that were held back, at the end of the log.
    pub(crate) fn finish(&mut self) {
        let Self { pass, trials } = self;
        pass.finish(|requests| trials.iter_mut().for_each(|trial| trial.replay(requests)));
    }

    /// What a limit denied at the candidate with this index.
    pub(crate) fn denials(&self, candidate: usize, limit: &str) -> Option<&TrialDenialCounts> {
        let CandidateTrial { replay, limits } = self.trials.get(candidate)?;
        let index = replay
            .limits()
            .position(|config| config.rule.name().as_str() == limit)?;
        limits.get(index)
    }
}

impl CandidateTrial {
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

/// A hash in place of a key. Only equality matters, and a rare collision does no harm.
pub(super) fn key_hash(key: &EncodedKey) -> u64 {
    RandomState::with_seeds(1, 2, 3, 4).hash_one(key.as_bytes())
}
