//! The thread that writes the lines.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use tollgate::{Clock as _, Micros, SystemClock};

use super::counts::AuditLineCounts;
use super::line::encode_dropped;
use super::output::AuditOutput;
use super::queue::LineQueue;

/// How long the shutdown waits for the last lines.
pub(super) const FINISH_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the writer looks for dropped lines to report.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Lines that arrive in this time are written together.
const GATHER: Duration = Duration::from_millis(5);
/// How long the writer waits for an output that takes nothing.
const RETRY: Duration = Duration::from_millis(50);
/// How long the writer waits after an output has failed.
const RETRY_FAILED: Duration = Duration::from_secs(1);

/// Writes lines until the queue is closed.
struct LineWriter {
    output: AuditOutput,
    queue: Arc<LineQueue>,
    counts: Arc<AuditLineCounts>,
    clock: SystemClock,
    lines_max: u64,
    /// The current second, and the lines written in it.
    second: u64,
    lines: u64,
    /// Dropped lines that were reported.
    reported: u64,
    /// The second of the last report.
    reported_at: u64,
    /// Whether the last write failed, which is logged once.
    has_failed: bool,
}

/// Starts the thread. Without a thread, all lines are dropped.
pub(super) fn start(
    output: AuditOutput,
    queue: &Arc<LineQueue>,
    lines_max: u32,
    counts: Arc<AuditLineCounts>,
) {
    let mut writer = LineWriter {
        output,
        queue: queue.clone(),
        reported: counts.dropped_total(),
        counts,
        clock: SystemClock::new(),
        lines_max: u64::from(lines_max),
        second: 0,
        lines: 0,
        reported_at: 0,
        has_failed: false,
    };
    let run = move || {
        writer.run();
        writer.queue.set_done();
    };
    let thread = thread::Builder::new()
        .name("audit-log".to_owned())
        .spawn(run);
    if let Err(error) = thread {
        tracing::error!(%error, "cannot start the thread of the audit log: denials are not logged");
        queue.close();
        queue.set_done();
    }
}

impl LineWriter {
    fn run(&mut self) {
        while let Some(lines) = self.queue.take(REPORT_INTERVAL) {
            let mut rest = &lines[..];
            while !rest.is_empty() {
                let count = self.wait_for_budget(rest.len());
                let (now, later) = rest.split_at(count);
                self.write_lines(now);
                rest = later;
            }
            self.report_dropped();
            // Not woken by lines: a system call for each of them would cost the decisions more.
            self.queue.pause(GATHER);
        }
        self.report_dropped();
    }

    /// How many of these lines may be written now: at least one, after waiting for the next second
    /// if necessary.
    fn wait_for_budget(&mut self, lines: usize) -> usize {
        loop {
            let now = self.clock.now();
            let second = second(now);
            if second != self.second {
                (self.second, self.lines) = (second, 0);
            }
            let left = usize::try_from(self.lines_max - self.lines).unwrap_or(usize::MAX);
            if left > 0 {
                let count = lines.min(left);
                self.lines += u64::try_from(count).unwrap_or(0);
                return count;
            }

            let next = Micros::from_secs(second + 1);
            if !self.queue.pause(next.since(now).into()) {
                // Shutting down: at most one further second of lines.
                self.lines = 0;
            }
        }
    }

    /// Writes lines one by one if the output may be rotated between them, and counts them.
    fn write_lines(&mut self, lines: &[String]) {
        for (index, line) in lines.iter().enumerate() {
            match self.write_line(line.as_bytes()) {
                Ok(()) => {
                    self.counts.written.fetch_add(1, Relaxed);
                    self.has_failed = false;
                }
                Err(error) => {
                    let missing = u64::try_from(lines.len() - index).unwrap_or(0);
                    self.counts.output_failed.fetch_add(missing, Relaxed);
                    self.log_failure(&error);
                    return;
                }
            }
        }
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut written = 0;
        while written < line.len() {
            let length = if written == 0 { line.len() } else { 0 };
            match self.output.write(&line[written..], length) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.queue.pause(RETRY) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Logs the first failure of several, and waits before the next attempt.
    fn log_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            tracing::error!(%error, "cannot write the audit log: lines are dropped");
        }
        self.queue.pause(RETRY_FAILED);
    }

    /// Writes how many lines were dropped, at most once a second.
    fn report_dropped(&mut self) {
        let dropped = self.counts.dropped_total();
        let now = self.clock.now();
        let missing = dropped.saturating_sub(self.reported);
        if missing == 0 || self.has_failed || second(now) == self.reported_at {
            return;
        }

        (self.reported, self.reported_at) = (dropped, second(now));
        let line = encode_dropped(missing, now);
        if let Err(error) = self.write_line(line.as_bytes()) {
            self.log_failure(&error);
        }
    }
}

const fn second(now: Micros) -> u64 {
    now.get() / 1_000_000
}
