//! The second pass through the log: counts what the suggested limits would have denied.

use std::collections::HashSet;
use std::io;

use ahash::RandomState;
use tollgate::EncodedKey;
use tollgate_rules::Attributes;

use super::{PERCENTILES, UsagePeaks};
use crate::batch::{ReplayRequest, for_each_batch};
use crate::counts::LineCounts;
use crate::input::LogInput;
use crate::log::LogParser;
use crate::replay::ConfigReplay;
use crate::simulation::SimulationProgress;

/// The second pass: every percentile tried as a limit.
#[derive(Debug)]
pub struct SuggestionTrials {
    parser: LogParser,
    lines: LineCounts,
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
            parser,
            lines: LineCounts::default(),
            trials: PERCENTILES.map(trial),
        }
    }

    /// Replays all lines of an input. `on_progress` is called after each chunk.
    pub fn replay(
        &mut self,
        input: &mut LogInput,
        on_progress: &mut dyn FnMut(SimulationProgress),
    ) -> io::Result<()> {
        while let Some(chunk) = input.chunk()? {
            let Self {
                parser,
                lines,
                trials,
            } = self;
            for_each_batch(parser, chunk, lines, |requests| {
                trials.iter_mut().for_each(|trial| trial.replay(requests));
            });

            on_progress(SimulationProgress {
                bytes_read: input.bytes_read(),
                lines: self.lines.all,
            });
        }
        Ok(())
    }

    /// What a limit denied at each percentile.
    pub(crate) fn denials_of(
        &self,
        limit: &str,
    ) -> [Option<&TrialDenialCounts>; PERCENTILES.len()] {
        self.trials.each_ref().map(|trial| {
            let mut limits = trial.replay.limits();
            let index = limits.position(|config| config.rule.name().as_str() == limit);
            index.and_then(|index| trial.limits.get(index))
        })
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
    const SEEDS: [u64; 4] = [
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ];
    RandomState::with_seeds(SEEDS[0], SEEDS[1], SEEDS[2], SEEDS[3]).hash_one(key.as_bytes())
}
