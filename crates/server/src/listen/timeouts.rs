//! How long a connection may do nothing, or too little. Looked at every so often, so that requests
//! need no timers.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::monitored_stream::Progress;

/// What was seen of a connection, and for how long it has not changed.
#[derive(Debug)]
pub(super) struct Patience {
    /// None where what arrives need not be part of a request: HTTP/2 has frames of its own.
    header_timeout: Option<Duration>,
    idle_timeout: Duration,
    seen: Seen,
    idle: Duration,
    in_head: Duration,
    stuck: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    reads: u64,
    writes: u64,
    blocked: bool,
    begun: u64,
    ended: u64,
    reads_at_head: u64,
}

impl Seen {
    fn of(progress: &Progress) -> Self {
        Self {
            reads: progress.reads.load(Relaxed),
            writes: progress.writes.load(Relaxed),
            blocked: progress.blocked.load(Relaxed),
            begun: progress.begun.load(Relaxed),
            ended: progress.ended.load(Relaxed),
            reads_at_head: progress.reads_at_head.load(Relaxed),
        }
    }

    const fn is_answering(&self) -> bool {
        self.begun > self.ended
    }
}

/// What to do about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Nothing.
    Keep,
    /// Let it end politely: nobody is using it.
    Retire,
    /// End it: it takes too long over a request, or over reading an answer.
    Cut,
}

impl Patience {
    pub(super) fn new(header_timeout: Option<Duration>, idle_timeout: Duration) -> Self {
        Self {
            header_timeout,
            idle_timeout,
            seen: Seen::default(),
            idle: Duration::ZERO,
            in_head: Duration::ZERO,
            stuck: Duration::ZERO,
        }
    }

    /// How often to look: several times within the shorter of the times, and at least every second.
    pub(super) fn tick(&self) -> Duration {
        let shortest = self
            .header_timeout
            .unwrap_or(self.idle_timeout)
            .min(self.idle_timeout);
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// Looks at a connection `since` after the last look.
    pub(super) fn look(&mut self, progress: &Progress, since: Duration) -> Ruling {
        let now = Seen::of(progress);
        let before = std::mem::replace(&mut self.seen, now);
        let is_waiting = !now.is_answering();
        let add = |time: Duration, goes_on: bool| {
            if goes_on {
                time + since
            } else {
                Duration::ZERO
            }
        };
        // Part of a head is there, and no head was completed meanwhile.
        let is_in_head = is_waiting && now.reads > now.reads_at_head && now.begun == before.begun;
        self.in_head = add(self.in_head, is_in_head);
        let is_silent = match self.header_timeout {
            Some(_) => now == before,
            None => now.begun == before.begun,
        };
        self.idle = add(self.idle, is_waiting && is_silent);
        self.stuck = add(self.stuck, now.blocked && now.writes == before.writes);
        if self
            .header_timeout
            .is_some_and(|timeout| self.in_head > timeout)
            || self.stuck > self.idle_timeout
        {
            Ruling::Cut
        } else if self.idle > self.idle_timeout {
            Ruling::Retire
        } else {
            Ruling::Keep
        }
    }

    /// From now on only what happens from now on counts.
    pub(super) fn start_over(&mut self) {
        self.idle = Duration::ZERO;
    }

    /// True when nothing has happened for so long.
    pub(super) fn is_quiet(&self, length: Duration) -> bool {
        self.idle >= length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Looks every second until there is a ruling, at most a minute.
    fn seconds_until(
        progress: &Progress,
        ruling: Ruling,
        meanwhile: impl FnMut(&Progress),
    ) -> Option<u32> {
        ruled(
            Patience::new(Some(5 * SECOND), 20 * SECOND),
            progress,
            ruling,
            meanwhile,
        )
    }

    fn ruled(
        mut patience: Patience,
        progress: &Progress,
        ruling: Ruling,
        mut meanwhile: impl FnMut(&Progress),
    ) -> Option<u32> {
        (0..60).find(|_| {
            meanwhile(progress);
            patience.look(progress, SECOND) == ruling
        })
    }

    #[test]
    fn nobody_keeps_a_connection_for_nothing() {
        let idle = Progress::default();
        assert!(seconds_until(&idle, Ruling::Retire, |_| ()).is_some_and(|seconds| seconds >= 20));
        assert_eq!(seconds_until(&idle, Ruling::Cut, |_| ()), None);
    }

    #[test]
    fn a_head_that_trickles_in_is_cut() {
        let slow = |progress: &Progress| _ = progress.reads.fetch_add(1, Relaxed);
        assert!(
            seconds_until(&Progress::default(), Ruling::Cut, slow)
                .is_some_and(|seconds| seconds >= 5)
        );
    }

    #[test]
    fn frames_without_a_request_are_neither_a_slow_head_nor_a_reason_to_stay() {
        let pings = |progress: &Progress| _ = progress.reads.fetch_add(1, Relaxed);
        let patience = || Patience::new(None, 20 * SECOND);
        assert_eq!(
            ruled(patience(), &Progress::default(), Ruling::Cut, pings),
            None
        );
        let retired = ruled(patience(), &Progress::default(), Ruling::Retire, pings);
        assert!(retired.is_some_and(|seconds| seconds >= 20));
    }

    #[test]
    fn whoever_asks_and_reads_is_kept() {
        let busy = |progress: &Progress| {
            progress.reads.fetch_add(3, Relaxed);
            progress.begin();
            progress.end();
        };
        let answering = Progress::default();
        answering.begin();
        for ruling in [Ruling::Cut, Ruling::Retire] {
            assert_eq!(seconds_until(&Progress::default(), ruling, busy), None);
            assert_eq!(
                seconds_until(&answering, ruling, |_| ()),
                None,
                "the handler has time limits of its own"
            );
        }
    }

    #[test]
    fn whoever_does_not_read_is_cut() {
        let stuck = Progress::default();
        stuck.blocked.store(true, Relaxed);
        stuck.begin();
        assert!(seconds_until(&stuck, Ruling::Cut, |_| ()).is_some_and(|seconds| seconds >= 20));
    }
}
