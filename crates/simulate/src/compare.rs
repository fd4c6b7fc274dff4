//! Compares the decisions of two configurations.

use tollgate::Micros;

use crate::config_run::ComparedDecision;
use crate::counts::KeyTable;
use crate::replay::ConfigReplay;
use crate::report::DenialCounts;

/// The maximum number of keys to remember for each limit and configuration.
const KEYS_MAX: usize = 2_000;

/// How the decisions of two configurations differ.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) requests: DenialCounts,
    /// The limits of both, by name, in the order of the first configuration and then the second.
    pub(crate) limits: Vec<LimitDifference>,
    /// For each configuration, the positions of its limits in `limits`.
    positions: [Vec<usize>; 2],
}

/// How the decisions of one limit differ.
#[derive(Debug)]
pub(crate) struct LimitDifference {
    pub(crate) name: String,
    /// Its index in each configuration that has it.
    pub(crate) index_in: [Option<usize>; 2],
    pub(crate) denials: DenialCounts,
    /// The keys that only one configuration denied.
    pub(crate) keys: [KeyTable; 2],
}

impl Comparison {
    pub(crate) fn new(first: &ConfigReplay, second: &ConfigReplay) -> Self {
        let mut limits: Vec<LimitDifference> = Vec::new();
        let mut positions = [Vec::new(), Vec::new()];

        for (side, replay) in [first, second].into_iter().enumerate() {
            for (index, limit) in replay.limits().enumerate() {
                let name = limit.rule.name().as_str();
                let position = limits
                    .iter()
                    .position(|limit| limit.name == name)
                    .unwrap_or(limits.len());
                if position == limits.len() {
                    limits.push(LimitDifference::new(name));
                }
                limits[position].index_in[side] = Some(index);
                positions[side].push(position);
            }
        }

        Self {
            requests: DenialCounts::default(),
            limits,
            positions,
        }
    }

    /// Counts a request, if both configurations decided on it.
    pub(crate) fn count(&mut self, decisions: [Option<&ComparedDecision>; 2], at: Micros) {
        let [Some(first), Some(second)] = decisions else {
            return;
        };
        self.requests.count(!first.is_allowed, !second.is_allowed);

        let denials = [&first.denials, &second.denials];
        for (side, other) in [(0, 1), (1, 0)] {
            for (index, key) in denials[side] {
                let position = self.positions[side][*index];
                let is_same = |(index, _): &(usize, _)| self.positions[other][*index] == position;
                let limit = &mut self.limits[position];
                if denials[other].iter().any(is_same) {
                    // It is in both lists, but must count once.
                    limit.denials.both += u64::from(side == 0);
                } else {
                    limit.denials.count(side == 0, side == 1);
                    limit.keys[side].record(key, at);
                }
            }
        }
    }
}

impl LimitDifference {
    fn new(name: &str) -> Self {
        let keys = || KeyTable::new(KEYS_MAX);
        Self {
            name: name.to_owned(),
            index_in: [None; 2],
            denials: DenialCounts::default(),
            keys: [keys(), keys()],
        }
    }
}
