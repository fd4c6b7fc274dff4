//! When the next round is sent, and whether rounds are answered in time.
//!
//! A round is the set of calls that are taken from the queue together: one script call, or in a
//! cluster one for each slot. While rounds are in flight, new calls gather in the queue. A busy
//! server gets few large rounds, which cost it the least. A server that is far from this instance
//! gets more of them, because a call that waited for a reply first would miss its deadline.

use std::time::Duration;

use tokio::time::Instant;

/// Up to this number of rounds in flight, the next one is sent without a pause. With two, the
/// server has the next one when it completes the first.
const ROUNDS_MIN: usize = 2;
/// The most rounds in flight.
const ROUNDS_MAX: usize = 32;
/// More than [`ROUNDS_MIN`] rounds are in flight only if this part of a timeout passes between
/// them, whatever the load.
const PAUSES_PER_TIMEOUT: u32 = 16;
/// The most calls in a round, which is one of two.
const ROUND_CALLS_MAX: usize = 128;
/// The most calls in flight. A server that is overloaded gets no more: calls that would be too
/// late wait in the queue, where they can still be dropped.
const CALLS_MAX: usize = 2 * ROUND_CALLS_MAX;
/// The most calls in flight to a server that has not shown that it keeps up. If many replicas start
/// at once, what is late is little.
const CALLS_FIRST: usize = 32;
/// A server counts as unavailable after this number of late round trips in a row.
const LATE_MAX: u32 = 3;

/// The rounds in flight on a connection.
pub(super) struct Rounds {
    timeout: Duration,
    /// Number of rounds in flight.
    count: usize,
    /// Number of calls in flight.
    calls: usize,
    /// The most calls in flight now. It doubles with every round in time, and halves with a late
    /// one.
    window: usize,
    /// When the last round was sent.
    sent_at: Instant,
    /// Late round trips in a row.
    late: u32,
    /// When the last of them ended.
    late_at: Instant,
}

impl Rounds {
    /// No rounds, on a connection that is used from now on.
    pub(super) fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout,
            count: 0,
            calls: 0,
            window: CALLS_FIRST,
            sent_at: now,
            late: 0,
            late_at: now,
        }
    }

    /// From when on the next round can be sent. `None` while it must wait for a reply.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let has_room = self.count < ROUNDS_MAX && self.calls < self.window;
        match self.count {
            0 => Some(self.sent_at),
            _ if !has_room => None,
            count if count < ROUNDS_MIN => Some(self.sent_at),
            _ => Some(self.sent_at + self.timeout / PAUSES_PER_TIMEOUT),
        }
    }

    /// The most calls of the next round.
    pub(super) fn calls_max(&self) -> usize {
        let left = self.window.saturating_sub(self.calls);
        left.clamp(1, self.window / ROUNDS_MIN)
    }

    /// Counts the calls of a command that is sent.
    pub(super) fn add_calls(&mut self, count: usize) {
        self.calls += count;
    }

    /// Counts the calls of a command that is answered.
    pub(super) fn remove_calls(&mut self, count: usize) {
        self.calls = self.calls.saturating_sub(count);
    }

    /// Counts a round that is sent.
    pub(super) fn start(&mut self, now: Instant) {
        self.count += 1;
        self.sent_at = now;
    }

    /// Counts a round that is answered. If the reply was late, with when the round was written.
    pub(super) fn finish(&mut self, late_since: Option<Instant>, now: Instant) {
        self.count = self.count.saturating_sub(1);

        let Some(written_at) = late_since else {
            self.late = 0;
            self.window = (self.window * 2).min(CALLS_MAX);
            return;
        };
        // Rounds that were in flight together are late for the same reason, and count once.
        if self.late == 0 || written_at >= self.late_at {
            self.late += 1;
            self.late_at = now;
            self.window = (self.window / 2).max(CALLS_FIRST);
        }
    }

    /// True when the server always replies too late.
    pub(super) fn are_late(&self) -> bool {
        self.late >= LATE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(16);
    const PAUSE: Duration = Duration::from_millis(1);

    /// Rounds in flight to a server that has kept up so far.
    fn rounds(count: usize, calls: usize, now: Instant) -> Rounds {
        let mut rounds = Rounds::new(TIMEOUT, now);
        (0..8).for_each(|_| rounds.finish(None, now));
        for _ in 0..count {
            rounds.add_calls(calls);
            rounds.start(now);
        }
        rounds
    }

    #[test]
    fn two_rounds_are_sent_at_once_and_further_ones_after_a_pause() {
        let now = Instant::now();
        for (count, pause) in [(0, 0), (1, 0), (2, 1), (31, 1)] {
            let next_at = rounds(count, 1, now).next_at();
            assert_eq!(next_at, Some(now + PAUSE * pause), "{count} rounds");
        }
        assert_eq!(rounds(32, 1, now).next_at(), None, "at most 32 rounds");
    }

    #[test]
    fn an_overloaded_server_gets_two_full_rounds() {
        let now = Instant::now();
        let mut rounds = rounds(2, 128, now);
        assert_eq!(rounds.next_at(), None);

        rounds.remove_calls(128);
        rounds.finish(None, now);
        assert_eq!((rounds.next_at(), rounds.calls_max()), (Some(now), 128));
    }

    #[test]
    fn a_server_gets_more_calls_as_it_keeps_up() {
        let now = Instant::now();
        let mut rounds = Rounds::new(TIMEOUT, now);
        let mut calls_max = |late_since| {
            rounds.finish(late_since, now);
            rounds.calls_max()
        };
        assert_eq!([None; 5].map(&mut calls_max), [32, 64, 128, 128, 128]);
        assert_eq!([Some(now); 4].map(&mut calls_max), [64, 32, 16, 16]);

        let mut rounds = Rounds::new(TIMEOUT, now);
        assert_eq!(rounds.calls_max(), 16);
        for _ in 0..ROUNDS_MIN {
            rounds.add_calls(rounds.calls_max());
            rounds.start(now);
        }
        assert_eq!(rounds.next_at(), None);
    }

    #[test]
    fn three_late_round_trips_in_a_row_are_too_many() {
        let start = Instant::now();
        let late = TIMEOUT + PAUSE;
        let mut rounds = Rounds::new(TIMEOUT, start);

        // One pause of the server delays all rounds in flight.
        for sent_at in (0..8).map(|index| start + PAUSE * index) {
            rounds.finish(Some(sent_at), sent_at + late);
        }
        assert_eq!(rounds.late, 1);

        let trips = [2, 4, 6, 8].map(|trip| start + late * trip);
        rounds.finish(Some(trips[0]), trips[0] + late);
        assert_eq!(rounds.late, 2);
        rounds.finish(None, trips[0] + TIMEOUT);
        assert_eq!(rounds.late, 0, "a reply in time");

        for sent_at in &trips[1..] {
            assert!(!rounds.are_late());
            rounds.finish(Some(*sent_at), *sent_at + late);
        }
        assert!(rounds.are_late());
    }
}
