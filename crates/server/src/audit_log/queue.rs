//! The lines that wait to be written.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The most lines that wait, if the bound on lines per second is not lower.
const LINES_MAX: usize = 8_192;
/// The most bytes that wait.
const BYTES_MAX: usize = 4 << 20;

/// A bounded queue with one reader. Writers never wait for it.
#[derive(Debug)]
pub(super) struct LineQueue {
    lines_max: usize,
    state: Mutex<QueueState>,
    /// Wakes the reader.
    changed: Condvar,
    /// Wakes those who wait for the end.
    done: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    lines: Vec<String>,
    bytes: usize,
    /// True while the reader waits for a line, and only then: waking it costs a system call.
    is_reader_waiting: bool,
    is_closed: bool,
    is_done: bool,
}

impl LineQueue {
    /// A queue of at most one second of lines.
    pub(super) fn new(lines_per_second_max: u32) -> Self {
        let lines_max = usize::try_from(lines_per_second_max).unwrap_or(LINES_MAX);
        Self {
            lines_max: lines_max.min(LINES_MAX),
            state: Mutex::default(),
            changed: Condvar::new(),
            done: Condvar::new(),
        }
    }

    /// Adds a line, if there is room for one.
    pub(super) fn try_push(&self, line: impl FnOnce() -> String) -> bool {
        let is_full = |state: &QueueState| {
            state.lines.len() >= self.lines_max || state.bytes >= BYTES_MAX || state.is_closed
        };
        if is_full(&self.state.lock()) {
            return false;
        }

        // Encoded without the lock.
        let line = line();
        let mut state = self.state.lock();
        if is_full(&state) {
            return false;
        }
        state.bytes += line.len();
        state.lines.push(line);
        if std::mem::take(&mut state.is_reader_waiting) {
            self.changed.notify_one();
        }
        true
    }

    /// Waits for lines, at most this long. Returns none when the queue is closed and empty.
    pub(super) fn take(&self, timeout: Duration) -> Option<Vec<String>> {
        let mut state = self.state.lock();
        if state.lines.is_empty() && !state.is_closed {
            state.is_reader_waiting = true;
            self.changed.wait_for(&mut state, timeout);
            state.is_reader_waiting = false;
        }
        if state.lines.is_empty() && state.is_closed {
            return None;
        }
        state.bytes = 0;
        Some(std::mem::take(&mut state.lines))
    }

    /// Waits this long, or until the queue is closed. Returns whether it is still open.
    pub(super) fn pause(&self, length: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed {
            self.changed.wait_for(&mut state, length);
        }
        !state.is_closed
    }

    /// Accepts no more lines. The reader writes the rest.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// The reader has ended.
    pub(super) fn set_done(&self) {
        self.state.lock().is_done = true;
        self.done.notify_all();
    }

    /// Waits until the reader has ended, at most this long.
    pub(super) fn wait_until_done(&self, timeout: Duration) {
        let mut state = self.state.lock();
        if !state.is_done {
            self.done.wait_for(&mut state, timeout);
        }
    }
}
