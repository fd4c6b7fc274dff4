//! What one limit did.

use tollgate::Micros;

use super::KeyTable;

const MINUTE: u64 = 60_000_000;

/// What one limit did.
#[derive(Clone, Debug)]
pub(crate) struct LimitTally {
    /// Requests that had to pass it.
    pub(crate) asked: u64,
    pub(crate) refused: u64,
    /// Requests that it applies to and that do not say whom to count.
    pub(crate) unkeyed: u64,
    /// Requests that a queue held back.
    pub(crate) held: u64,
    pub(crate) hold_max: Micros,
    pub(crate) first: Option<Micros>,
    pub(crate) last: Option<Micros>,
    minute: Minute,
    worst: Minute,
    pub(crate) keys: KeyTable,
}

/// A minute, and what was refused in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Minute {
    number: u64,
    refused: u64,
}

impl LimitTally {
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            asked: 0,
            refused: 0,
            unkeyed: 0,
            held: 0,
            hold_max: Micros::ZERO,
            first: None,
            last: None,
            minute: Minute::default(),
            worst: Minute::default(),
            keys: KeyTable::new(keys_max),
        }
    }

    /// Counts a refusal at a moment, which is never before that of the last one.
    pub(crate) fn refuse(&mut self, at: Micros) {
        self.refused += 1;
        self.first.get_or_insert(at);
        self.last = Some(at);
        let number = at.get() / MINUTE;
        if number != self.minute.number {
            self.minute = Minute { number, refused: 0 };
        }
        self.minute.refused += 1;
        if self.minute.refused > self.worst.refused {
            self.worst = self.minute;
        }
    }

    /// Counts a request that is let through after a while.
    pub(crate) fn hold(&mut self, wait: Micros) {
        self.held += 1;
        self.hold_max = self.hold_max.max(wait);
    }

    /// The minute of the clock in which most was refused, and how much.
    pub(crate) const fn worst_minute(&self) -> Option<(Micros, u64)> {
        match self.worst {
            Minute { refused: 0, .. } => None,
            Minute { number, refused } => Some((Micros::new(number * MINUTE), refused)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_minute_is_the_first_of_those_with_most() {
        let mut tally = LimitTally::new(2);
        assert_eq!(tally.worst_minute(), None);
        for secs in [59, 60, 61, 119, 120, 121, 122, 600] {
            tally.refuse(Micros::from_secs(secs));
        }
        assert_eq!(tally.worst_minute(), Some((Micros::from_secs(60), 3)));
        assert_eq!(
            (tally.first, tally.last),
            (Some(Micros::from_secs(59)), Some(Micros::from_secs(600)))
        );
        assert_eq!(tally.refused, 8);
    }
}
