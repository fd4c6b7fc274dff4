//! Timeouts of a connection. They are checked on a periodic tick, so requests need no timers.

use std::time::Duration;

use super::front::ListenProtocol;
use super::load::ListenLimits;
use super::progress::ConnectionProgress;

/// Measures how long a connection has been idle, in the head of a request, or blocked in a write.
#[derive(Debug, Default)]
pub(super) struct ConnectionTimeouts {
    /// None for HTTP/2, where bytes that arrive need not belong to a request.
    header_timeout: Option<Duration>,
    idle_timeout: Duration,
    /// The progress at the last tick.
    last: ConnectionProgress,
    /// Time without a request.
    idle: Duration,
    /// Time since a request's head started to arrive.
    in_head: Duration,
    /// Time that a write has been blocked.
    blocked: Duration,
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
    pub(super) fn new(protocol: ListenProtocol, limits: &ListenLimits) -> Self {
        Self {
            header_timeout: (protocol != ListenProtocol::Http2).then_some(limits.header_timeout),
            idle_timeout: limits.idle_timeout,
            ..Self::default()
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
    pub(super) fn update(&mut self, now: ConnectionProgress, elapsed: Duration) -> TimeoutAction {
        let before = std::mem::replace(&mut self.last, now);
        let is_waiting = now.is_idle();
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

        let is_slow = self
            .header_timeout
            .is_some_and(|timeout| self.in_head > timeout);
        if is_slow || self.blocked > self.idle_timeout {
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

    /// How long the connection has been without a request.
    pub(super) const fn idle(&self) -> Duration {
        self.idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Checks every second until the action is due, for at most a minute.
    fn seconds_until(
        protocol: ListenProtocol,
        mut progress: ConnectionProgress,
        action: TimeoutAction,
        meanwhile: impl Fn(&mut ConnectionProgress),
    ) -> Option<u32> {
        let limits = ListenLimits {
            connections_max: 1,
            in_flight_max: 1,
            header_timeout: 5 * SECOND,
            idle_timeout: 20 * SECOND,
        };
        let mut timeouts = ConnectionTimeouts::new(protocol, &limits);
        (0..60).find(|_| {
            meanwhile(&mut progress);
            timeouts.update(progress, SECOND) == action
        })
    }

    fn http1_seconds_until(
        progress: ConnectionProgress,
        action: TimeoutAction,
        meanwhile: impl Fn(&mut ConnectionProgress),
    ) -> Option<u32> {
        seconds_until(ListenProtocol::Http1, progress, action, meanwhile)
    }

    #[test]
    fn an_idle_connection_is_closed() {
        let idle = ConnectionProgress::default();
        assert!(
            http1_seconds_until(idle, TimeoutAction::Close, |_| ())
                .is_some_and(|seconds| seconds >= 20)
        );
        assert_eq!(
            http1_seconds_until(idle, TimeoutAction::Abort, |_| ()),
            None
        );
    }

    #[test]
    fn a_slow_head_is_aborted() {
        let slow = |progress: &mut ConnectionProgress| progress.reads += 1;
        assert!(
            http1_seconds_until(ConnectionProgress::default(), TimeoutAction::Abort, slow)
                .is_some_and(|seconds| seconds >= 5)
        );
    }

    #[test]
    fn http2_frames_without_a_request_count_as_idle() {
        let pings = |progress: &mut ConnectionProgress| progress.reads += 1;
        let until = |action| {
            seconds_until(
                ListenProtocol::Http2,
                ConnectionProgress::default(),
                action,
                pings,
            )
        };
        assert_eq!(until(TimeoutAction::Abort), None);
        assert!(until(TimeoutAction::Close).is_some_and(|seconds| seconds >= 20));
    }

    #[test]
    fn a_connection_in_use_is_kept() {
        let busy = |progress: &mut ConnectionProgress| {
            progress.reads += 3;
            progress.start_request();
            progress.end_request(0);
        };
        let mut answering = ConnectionProgress::default();
        answering.start_request();
        for action in [TimeoutAction::Abort, TimeoutAction::Close] {
            assert_eq!(
                http1_seconds_until(ConnectionProgress::default(), action, busy),
                None
            );
            assert_eq!(
                http1_seconds_until(answering, action, |_| ()),
                None,
                "the handler has timeouts of its own"
            );
        }
    }

    #[test]
    fn a_client_that_does_not_read_is_aborted() {
        let mut blocked = ConnectionProgress {
            is_blocked: true,
            ..ConnectionProgress::default()
        };
        blocked.start_request();
        assert!(
            http1_seconds_until(blocked, TimeoutAction::Abort, |_| ())
                .is_some_and(|seconds| seconds >= 20)
        );
    }
}
