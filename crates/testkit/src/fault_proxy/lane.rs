//! One direction of a connection: a thread that reads, a thread that writes, and a queue of what is
//! on its way.
//!
//! Two threads, because a delay is a property of the way: bytes that arrive while others wait are
//! not to wait longer.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::fault::Pace;
use super::state::{Fate, State};
use crate::wait;

/// How much is read at once.
const READ_MAX: usize = 16 * 1024;
/// How many reads can be on their way; who reads waits when there are more.
const PARCELS_MAX: usize = 1_024;
/// Into how many pieces a second is cut for what trickles.
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

/// What is on its way, and when it is to arrive.
#[derive(Debug)]
struct Parcel {
    due: Instant,
    load: Load,
}

#[derive(Debug)]
enum Load {
    Bytes(Vec<u8>),
    /// The sender has closed.
    End,
    /// The sender has gone.
    Reset,
}

impl<'a> Lane<'a> {
    /// Moves bytes on two threads, until there are no more or the connection is reset.
    pub(super) fn spawn<'scope>(self, scope: &'scope Scope<'scope, 'a>)
    where
        'a: 'scope,
    {
        let (sender, parcels) = sync_channel(PARCELS_MAX);
        let reads = self
            .state
            .thread()
            .spawn_scoped(scope, move || self.read(&sender));
        reads.expect("there is room for a thread");
        let writes = self
            .state
            .thread()
            .spawn_scoped(scope, move || self.write(&parcels));
        writes.expect("there is room for a thread");
    }

    fn read(&self, parcels: &SyncSender<Parcel>) {
        let mut buffer = vec![0; READ_MAX];
        let mut from = self.from;
        // What nobody reads fills the sender's buffers, as it does when packets are lost.
        while self.state.hold(self.connection, wait::now()) {
            let load = match from.read(&mut buffer) {
                Ok(0) => Load::End,
                Ok(count) => Load::Bytes(buffer[..count].to_vec()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => Load::Reset,
            };
            let is_last = !matches!(load, Load::Bytes(_));
            let sent = parcels.send(Parcel {
                due: wait::now() + self.delay(),
                load,
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

    fn write(&self, parcels: &Receiver<Parcel>) {
        for parcel in parcels {
            if !self.state.hold(self.connection, parcel.due) {
                return;
            }
            match parcel.load {
                Load::Bytes(bytes) => self.deliver(&bytes),
                Load::End => {
                    // The other side may have gone first.
                    let _gone = self.to.shutdown(Shutdown::Write);
                }
                Load::Reset => self.state.reset(self.connection),
            }
        }
    }

    fn deliver(&self, bytes: &[u8]) {
        let fate = match self.direction {
            Direction::Requests => Fate::Pass,
            Direction::Replies => self.state.fate(self.connection, bytes.len()),
        };
        match fate {
            Fate::Pass => self.send(bytes),
            Fate::Vanish => {}
            Fate::Become(others) => self.send(others),
            Fate::CutAfter(left) => {
                self.send(&bytes[..left]);
                self.state.reset(self.connection);
            }
        }
    }

    /// Writes at the pace in force, which may change on the way.
    fn send(&self, mut bytes: &[u8]) {
        let mut due = wait::now();
        while !bytes.is_empty() {
            let pace = self.state.effects().pace;
            let (most, time) = piece(pace, bytes.len());
            // A piece is written when its time has passed, so that a pause before it saves nothing.
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

    /// How many bytes were written; none if there is nobody to write to.
    fn write_some(&self, piece: &[u8]) -> Option<usize> {
        let mut to = self.to;
        let written = to.write(piece);
        // Each byte of a slice is to have its chance of being read alone.
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

/// How many bytes go at once, and how long they take.
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
    fn what_trickles_keeps_its_pace_in_pieces_of_any_size() {
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
