//! The second time through the log: what limits of the sizes that were found would have refused.

use std::collections::HashSet;
use std::io;

use ahash::RandomState;
use tollgate::EncodedKey;
use tollgate_rules::Attributes;

use super::{PERCENTILES, Peaks};
use crate::input::Input;
use crate::log::LogReader;
use crate::replay::Replay;
use crate::requests::{Request, each_few};
use crate::simulation::Progress;
use crate::tally::LineTally;

/// Every percentile, tried as a limit.
#[derive(Debug)]
pub struct Trials {
    reader: LogReader,
    lines: LineTally,
    at: [Trial; PERCENTILES.len()],
}

/// One percentile, tried as a limit.
#[derive(Debug)]
struct Trial {
    replay: Replay,
    limits: Vec<Refused>,
}

/// What a limit of that size refused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    pub(crate) requests: u64,
    pub(crate) keys: HashSet<u64, RandomState>,
}

impl Trials {
    pub(crate) fn new(peaks: &Peaks, reader: LogReader) -> Self {
        let trial = |(permille, _)| {
            let replay = peaks.at(permille);
            let limits = vec![Refused::default(); replay.rules().len()];
            Trial { replay, limits }
        };
        Self {
            reader,
            lines: LineTally::default(),
            at: PERCENTILES.map(trial),
        }
    }

    /// Replays all lines of an input.
    pub fn replay(&mut self, input: &mut Input, tell: &mut dyn FnMut(Progress)) -> io::Result<()> {
        while let Some(chunk) = input.chunk()? {
            let Self { reader, lines, at } = self;
            each_few(reader, chunk, lines, |requests| {
                at.iter_mut().for_each(|trial| trial.replay(requests))
            });
            tell(Progress {
                bytes_read: input.bytes_read(),
                lines: self.lines.all,
            });
        }
        Ok(())
    }

    /// What a limit refused at each percentile.
    pub(crate) fn of(&self, limit: &str) -> [Option<&Refused>; PERCENTILES.len()] {
        self.at.each_ref().map(|trial| {
            let place = trial
                .replay
                .rules()
                .position(|rule| rule.limit.name() == limit);
            place.and_then(|place| trial.limits.get(place))
        })
    }
}

impl Trial {
    fn replay(&mut self, requests: &[Request<impl Attributes>]) {
        let Self { replay, limits } = self;
        replay.decide(requests, |_, answer| {
            let Ok(answered) = answer else { return };
            for (chosen, outcome) in answered.checks.iter().zip(answered.outcomes) {
                if !outcome.verdict.is_allowed() {
                    let refused = &mut limits[chosen.index];
                    refused.requests += 1;
                    refused.keys.insert(print(&chosen.key));
                }
            }
        });
    }
}

/// Stands for a key where only equality matters and a clash in 2^64 does no harm.
pub(super) fn print(key: &EncodedKey) -> u64 {
    const SEEDS: [u64; 4] = [
        0x243f_6a88_85a3_08d3,
        0x1319_8a2e_0370_7344,
        0xa409_3822_299f_31d0,
        0x082e_fa98_ec4e_6c89,
    ];
    RandomState::with_seeds(SEEDS[0], SEEDS[1], SEEDS[2], SEEDS[3]).hash_one(key.as_bytes())
}
