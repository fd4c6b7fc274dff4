//! Compares the decisions of two configurations.

use smallvec::SmallVec;
use tollgate::Micros;

use crate::config_run::ComparedDecision;
use crate::counts::KeyTable;
use crate::replay::ConfigReplay;

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

/// Denials by the configuration that made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DenialCounts {
    pub(crate) only_first: u64,
    pub(crate) only_second: u64,
    pub(crate) both: u64,
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

impl DenialCounts {
    const fn count(&mut self, first: bool, second: bool) {
        match (first, second) {
            (true, true) => self.both += 1,
            (true, false) => self.only_first += 1,
            (false, true) => self.only_second += 1,
            (false, false) => {}
        }
    }
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
    pub(crate) fn count(&mut self, decisions: [&ComparedDecision; 2], at: Micros) {
        let [Some(first), Some(second)] = decisions.map(|decision| decision.is_allowed) else {
            return;
        };
        self.requests.count(!first, !second);

        let denied_by: [SmallVec<[usize; 4]>; 2] = [0, 1].map(|side| {
            decisions[side]
                .denials
                .iter()
                .map(|(index, _)| self.positions[side][*index])
                .collect()
        });
        for side in [0, 1] {
            for ((_, key), position) in decisions[side].denials.iter().zip(&denied_by[side]) {
                let limit = &mut self.limits[*position];
                if denied_by[1 - side].contains(position) {
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
