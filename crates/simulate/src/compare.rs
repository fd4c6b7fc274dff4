//! Compares the decisions of two configurations.

use tollgate::{Lockout, Micros, Quota};
use tollgate_rules::{LimitConfig, StandingBlock, StandingList};

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
    quotas: [Option<Quota>; 2],
    /// Whether its lockout or its standing lists differ.
    has_other_lists: bool,
    pub(crate) denials: DenialCounts,
    /// Requests charged to it by only one configuration, as the other denied them by another limit.
    pub(crate) charged_only: [u64; 2],
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
                limits[position].quotas[side] = Some(*limit.rule.quota());
                positions[side].push(position);
            }
        }

        for limit in &mut limits {
            let [Some(one), Some(other)] = limit.index_in else {
                continue;
            };
            let [one, other] = [first.limits().nth(one), second.limits().nth(other)];
            limit.has_other_lists = one.map(lists) != other.map(lists);
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
        for (side, decision, other) in [(0, first, second), (1, second, first)] {
            if decision.is_allowed && !other.is_allowed {
                for index in &decision.limits {
                    self.limits[self.positions[side][*index]].charged_only[side] += 1;
                }
            }
        }

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
                    limit.keys[side].count(key, at);
                }
            }
        }
    }
}

/// What denies requests besides the quota of a limit.
fn lists(limit: &LimitConfig) -> (Option<&Lockout>, &StandingList, &StandingBlock) {
    (limit.rule.lockout(), &limit.exempt, &limit.blocked)
}

impl LimitDifference {
    /// Whether the limit denies more in one configuration although it is no stricter there.
    pub(crate) fn is_surprising(&self, side: usize) -> bool {
        let [Some(quota), Some(other)] = [self.quotas[side], self.quotas[1 - side]] else {
            return false;
        };
        let is_stricter = quota.limit() < other.limit()
            || quota.shape() != other.shape()
            || quota.rate_text() != other.rate_text()
            || self.has_other_lists;
        let denied_only = [self.denials.only_configuration, self.denials.only_against];
        !is_stricter && denied_only[side] > 0 && self.charged_only[side] > 0
    }

    fn new(name: &str) -> Self {
        let keys = || KeyTable::new(KEYS_MAX);
        Self {
            name: name.to_owned(),
            index_in: [None; 2],
            quotas: [None; 2],
            has_other_lists: false,
            denials: DenialCounts::default(),
            charged_only: [0; 2],
            keys: [keys(), keys()],
        }
    }
}
