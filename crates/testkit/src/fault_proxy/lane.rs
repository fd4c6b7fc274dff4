//! One direction of a connection: a thread that reads, a thread that writes, and a queue between
//! them.
//!
//! Two threads are needed, because a delay applies to each message: bytes that arrive while others
//! are delayed must not be delayed longer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::fault::Pace;
use super::state::{ReplyFate, State};
use crate::wait;

/// The most bytes of one read.
const READ_MAX: usize = 16 * 1024;
/// The most reads in the queue; the reader waits while it is full.
const QUEUED_READS_MAX: usize = 1_024;
/// The number of pieces per second of a throttled connection.
const PIECES_PER_SECOND: u32 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Requests,
    Replies,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lane<'a> {
    pub(super) state: &'a State,
    pub(super) connection: &'a Connection,
    pub(super) direction: Direction,
    pub(super) from: &'a TcpStream,
    pub(super) to: &'a TcpStream,
}

/// A queued read, and when it is to be delivered.
#[derive(Debug)]
struct QueuedRead {
    due: Instant,
    result: ReadResult,
}

#[derive(Debug)]
enum ReadResult {
    Bytes(Vec<u8>),
    /// The sender has closed the connection.
    End,
    /// The sender has reset the connection.
    Reset,
}

impl<'a> Lane<'a> {
    /// Forwards bytes on two threads until the sender closes or the connection is reset.
    pub(super) fn spawn<'scope>(self, scope: &'scope Scope<'scope, 'a>)
    where
        'a: 'scope,
    {
        let (sender, queue) = sync_channel(QUEUED_READS_MAX);

        let reads = self
            .state
            .thread()
            .spawn_scoped(scope, move || self.read(&sender));
        reads.expect("a thread can be started");

        let writes = self
            .state
            .thread()
            .spawn_scoped(scope, move || self.write(&queue));
        writes.expect("a thread can be started");
    }

    fn read(&self, queue: &SyncSender<QueuedRead>) {
        let mut buffer = vec![0; READ_MAX];
        let mut from = self.from;

        // Bytes that are not read fill the sender's buffers, as with lost packets.
        while self.state.hold(self.connection, wait::now()) {
            let result = match from.read(&mut buffer) {
                Ok(0) => ReadResult::End,
                Ok(count) => ReadResult::Bytes(buffer[..count].to_vec()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => ReadResult::Reset,
            };

            let is_last = !matches!(result, ReadResult::Bytes(_));
            let sent = queue.send(QueuedRead {
                due: wait::now() + self.delay(),
                result,
            });

            if is_last || sent.is_err() {
                return;
            }
        }
    }

    fn delay(&self) -> Duration {
        let effects = self.state.effects();
        match self.direction {
            Direction::Requests => effects.delay_requests,
            Direction::Replies => effects.delay_replies,
        }
    }

    fn write(&self, queue: &Receiver<QueuedRead>) {
        for queued in queue {
            if !self.state.hold(self.connection, queued.due) {
                return;
            }

            match queued.result {
                ReadResult::Bytes(bytes) => self.deliver(&bytes),
                ReadResult::End => {
                    // The other side may have closed already.
                    let _gone = self.to.shutdown(Shutdown::Write);
                }
                ReadResult::Reset => self.state.reset(self.connection),
            }
        }
    }

    fn deliver(&self, bytes: &[u8]) {
        let fate = match self.direction {
            Direction::Requests => ReplyFate::Pass,
            Direction::Replies => self.state.fate(self.connection, bytes.len()),
        };

        match fate {
            ReplyFate::Pass => self.send(bytes),
            ReplyFate::Vanish => {}
            ReplyFate::Become(others) => self.send(others),
            ReplyFate::CutAfter(left) => {
                self.send(&bytes[..left]);
                self.state.reset(self.connection);
            }
        }
    }

    /// Writes at the current pace, which may change meanwhile.
    fn send(&self, mut bytes: &[u8]) {
        let mut due = wait::now();

        while !bytes.is_empty() {
            let pace = self.state.effects().pace;
            let (most, time) = piece(pace, bytes.len());

            // A piece is written when its time has passed, so that a pause before it does not speed
            // it up.
            due += time;
            if !self.state.hold_at_pace(self.connection, due, pace) {
                return;
            }

            match self.write_some(&bytes[..most]) {
                Some(count) => bytes = &bytes[count..],
                None => return self.state.reset(self.connection),
            }
        }
    }

    /// The number of bytes written; `None` if the connection is closed.
    fn write_some(&self, piece: &[u8]) -> Option<usize> {
        let mut to = self.to;
        let written = to.write(piece);

        // Each byte must have a chance of being read alone.
        if piece.len() == 1 {
            thread::yield_now();
        }

        match written {
            Ok(count) => Some(count),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Some(0),
                _ => None,
            },
        }
    }
}

/// How many bytes are written at once, and how long they take.
fn piece(pace: Pace, all: usize) -> (usize, Duration) {
    match pace {
        Pace::Free => (all, Duration::ZERO),
        Pace::Slices => (1, Duration::ZERO),
        Pace::PerSecond(bytes) => {
            let count = (bytes / PIECES_PER_SECOND).max(1);
            let count_now = usize::try_from(count).unwrap_or(all).min(all);
            let share = u32::try_from(count_now).unwrap_or(count);
            (count_now, Duration::from_secs(1) * share / bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throttled_connection_keeps_its_pace_in_pieces_of_any_size() {
        assert_eq!(
            piece(Pace::PerSecond(1_000), 500),
            (20, Duration::from_millis(20))
        );
        assert_eq!(
            piece(Pace::PerSecond(1_000), 5),
            (5, Duration::from_millis(5))
        );
        assert_eq!(
            piece(Pace::PerSecond(4), 500),
            (1, Duration::from_millis(250))
        );
        assert_eq!(piece(Pace::Slices, 500), (1, Duration::ZERO));
        assert_eq!(piece(Pace::Free, 500), (500, Duration::ZERO));
    }
}
