//! Timeouts of a connection. They are checked on a periodic tick, so requests need no timers.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::monitored_stream::ConnectionProgress;

/// Measures how long a connection has been idle, in the head of a request, or blocked in a write.
#[derive(Debug)]
pub(super) struct ConnectionTimeouts {
    /// None for HTTP/2, where bytes that arrive need not belong to a request.
    header_timeout: Option<Duration>,
    idle_timeout: Duration,
    /// The progress at the last tick.
    last: ProgressSnapshot,
    /// Time without a request.
    idle: Duration,
    /// Time since a request's head started to arrive.
    in_head: Duration,
    /// Time that a write has been blocked.
    blocked: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProgressSnapshot {
    reads: u64,
    writes: u64,
    is_blocked: bool,
    started: u64,
    ended: u64,
    reads_at_head: u64,
}

impl ProgressSnapshot {
    fn new(progress: &ConnectionProgress) -> Self {
        Self {
            reads: progress.reads.load(Relaxed),
            writes: progress.writes.load(Relaxed),
            is_blocked: progress.is_blocked.load(Relaxed),
            started: progress.started.load(Relaxed),
            ended: progress.ended.load(Relaxed),
            reads_at_head: progress.reads_at_head.load(Relaxed),
        }
    }

    const fn has_request(&self) -> bool {
        self.started > self.ended
    }
}

/// What to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutAction {
    /// Nothing.
    Keep,
    /// Close it gracefully: it is idle.
    Close,
    /// Drop it: the client is too slow sending a request or reading a response.
    Abort,
}

impl ConnectionTimeouts {
    pub(super) fn new(header_timeout: Option<Duration>, idle_timeout: Duration) -> Self {
        Self {
            header_timeout,
            idle_timeout,
            last: ProgressSnapshot::default(),
            idle: Duration::ZERO,
            in_head: Duration::ZERO,
            blocked: Duration::ZERO,
        }
    }

    /// How often to check: four times within the shorter timeout, and at least every second.
    pub(super) fn tick(&self) -> Duration {
        let shortest = self
            .header_timeout
            .unwrap_or(self.idle_timeout)
            .min(self.idle_timeout);
        (shortest / 4).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    /// Checks the connection; `elapsed` is the time since the last check.
    pub(super) fn update(
        &mut self,
        progress: &ConnectionProgress,
        elapsed: Duration,
    ) -> TimeoutAction {
        let now = ProgressSnapshot::new(progress);
        let before = std::mem::replace(&mut self.last, now);
        let is_waiting = !now.has_request();
        let extend = |time: Duration, continues: bool| {
            if continues {
                time + elapsed
            } else {
                Duration::ZERO
            }
        };

        // Part of a head has arrived, and no head was completed since the last check.
        let is_in_head =
            is_waiting && now.reads > now.reads_at_head && now.started == before.started;
        self.in_head = extend(self.in_head, is_in_head);

        let is_silent = match self.header_timeout {
            Some(_) => now == before,
            None => now.started == before.started,
        };
        self.idle = extend(self.idle, is_waiting && is_silent);
        self.blocked = extend(self.blocked, now.is_blocked && now.writes == before.writes);

        if self
            .header_timeout
            .is_some_and(|timeout| self.in_head > timeout)
            || self.blocked > self.idle_timeout
        {
            TimeoutAction::Abort
        } else if self.idle > self.idle_timeout {
            TimeoutAction::Close
        } else {
            TimeoutAction::Keep
        }
    }

    /// Starts measuring the idle time from zero.
    pub(super) fn reset_idle(&mut self) {
        self.idle = Duration::ZERO;
    }

    /// True when the connection has been idle for at least this long.
    pub(super) fn is_idle_for(&self, duration: Duration) -> bool {
        self.idle >= duration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Checks every second until the action is due, for at most a minute.
    fn seconds_until(
        progress: &ConnectionProgress,
        action: TimeoutAction,
        meanwhile: impl FnMut(&ConnectionProgress),
    ) -> Option<u32> {
        seconds_with(
            ConnectionTimeouts::new(Some(5 * SECOND), 20 * SECOND),
            progress,
            action,
            meanwhile,
        )
    }

    fn seconds_with(
        mut timeouts: ConnectionTimeouts,
        progress: &ConnectionProgress,
        action: TimeoutAction,
        mut meanwhile: impl FnMut(&ConnectionProgress),
    ) -> Option<u32> {
        (0..60).find(|_| {
            meanwhile(progress);
            timeouts.update(progress, SECOND) == action
        })
    }

    #[test]
    fn an_idle_connection_is_closed() {
        let idle = ConnectionProgress::default();
        assert!(
            seconds_until(&idle, TimeoutAction::Close, |_| ()).is_some_and(|seconds| seconds >= 20)
        );
        assert_eq!(seconds_until(&idle, TimeoutAction::Abort, |_| ()), None);
    }

    #[test]
    fn a_slow_head_is_aborted() {
        let slow = |progress: &ConnectionProgress| _ = progress.reads.fetch_add(1, Relaxed);
        assert!(
            seconds_until(&ConnectionProgress::default(), TimeoutAction::Abort, slow)
                .is_some_and(|seconds| seconds >= 5)
        );
    }

    #[test]
    fn http2_frames_without_a_request_count_as_idle() {
        let pings = |progress: &ConnectionProgress| _ = progress.reads.fetch_add(1, Relaxed);
        let timeouts = || ConnectionTimeouts::new(None, 20 * SECOND);
        assert_eq!(
            seconds_with(
                timeouts(),
                &ConnectionProgress::default(),
                TimeoutAction::Abort,
                pings
            ),
            None
        );
        let closed = seconds_with(
            timeouts(),
            &ConnectionProgress::default(),
            TimeoutAction::Close,
            pings,
        );
        assert!(closed.is_some_and(|seconds| seconds >= 20));
    }

    #[test]
    fn a_connection_in_use_is_kept() {
        let busy = |progress: &ConnectionProgress| {
            progress.reads.fetch_add(3, Relaxed);
            progress.start_request();
            progress.end_request();
        };
        let answering = ConnectionProgress::default();
        answering.start_request();
        for action in [TimeoutAction::Abort, TimeoutAction::Close] {
            assert_eq!(
                seconds_until(&ConnectionProgress::default(), action, busy),
                None
            );
            assert_eq!(
                seconds_until(&answering, action, |_| ()),
                None,
                "the handler has timeouts of its own"
            );
        }
    }

    #[test]
    fn a_client_that_does_not_read_is_aborted() {
        let blocked = ConnectionProgress::default();
        blocked.is_blocked.store(true, Relaxed);
        blocked.start_request();
        assert!(
            seconds_until(&blocked, TimeoutAction::Abort, |_| ())
                .is_some_and(|seconds| seconds >= 20)
        );
    }
}
