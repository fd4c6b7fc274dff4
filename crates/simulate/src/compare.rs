//! Two configurations side by side: what one refuses and the other does not.

use smallvec::SmallVec;
use tollgate::Micros;

use crate::replay::Replay;
use crate::side::Said;
use crate::tally::KeyTable;

/// The most keys that are known for each limit and direction.
const KEYS_KNOWN: usize = 2_000;

/// What two configurations say differently.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) requests: Difference,
    /// The limits of either, by name, in the order of the first file and then of the second.
    pub(crate) limits: Vec<LimitDifference>,
    /// For the limits of each configuration their places in the list above.
    places: [Vec<usize>; 2],
}

/// How often the two refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) only_first: u64,
    pub(crate) only_second: u64,
    pub(crate) both: u64,
}

/// What one limit does differently.
#[derive(Debug)]
pub(crate) struct LimitDifference {
    pub(crate) name: String,
    /// Its place in each configuration that has it.
    pub(crate) place_in: [Option<usize>; 2],
    pub(crate) refused: Difference,
    /// Who is refused by one of them alone.
    pub(crate) keys: [KeyTable; 2],
}

impl Difference {
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
    pub(crate) fn new(first: &Replay, second: &Replay) -> Self {
        let mut limits: Vec<LimitDifference> = Vec::new();
        let mut places = [Vec::new(), Vec::new()];
        for (side, replay) in [first, second].into_iter().enumerate() {
            for (place_in, rule) in replay.rules().enumerate() {
                let name = rule.limit.name();
                let place = limits
                    .iter()
                    .position(|limit| limit.name == name)
                    .unwrap_or(limits.len());
                if place == limits.len() {
                    limits.push(LimitDifference::new(name));
                }
                limits[place].place_in[side] = Some(place_in);
                places[side].push(place);
            }
        }
        Self {
            requests: Difference::default(),
            limits,
            places,
        }
    }

    /// Counts a request, if both have decided about it.
    pub(crate) fn count(&mut self, said: [&Said; 2], at: Micros) {
        let [Some(first_passes), Some(second_passes)] = said.map(|said| said.passes) else {
            return;
        };
        self.requests.count(!first_passes, !second_passes);
        let by: [SmallVec<[usize; 4]>; 2] = [0, 1].map(|side| {
            said[side]
                .refusals
                .iter()
                .map(|(index, _)| self.places[side][*index])
                .collect()
        });
        for side in [0, 1] {
            for ((_, key), place) in said[side].refusals.iter().zip(&by[side]) {
                let limit = &mut self.limits[*place];
                if by[1 - side].contains(place) {
                    // Both have it in their lists; it counts once.
                    limit.refused.both += u64::from(side == 0);
                } else {
                    limit.refused.count(side == 0, side == 1);
                    limit.keys[side].refuse(key, at);
                }
            }
        }
    }
}

impl LimitDifference {
    fn new(name: &str) -> Self {
        let keys = || KeyTable::new(KEYS_KNOWN);
        Self {
            name: name.to_owned(),
            place_in: [None; 2],
            refused: Difference::default(),
            keys: [keys(), keys()],
        }
    }
}
