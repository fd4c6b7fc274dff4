//! The faults, and their combined effects.

use std::time::Duration;

/// Not a reply in any version of the protocol: the first byte is not a type.
const GARBAGE: &[u8] = b"\x00\xff\x7fHTTP/1.1 400 Bad Request\r\n\xc3\x28\r\n\x01\x02\x03";
/// The header of a bulk string of a terabyte.
const GIANT_BULK: &[u8] = b"$999999999999\r\n";
/// The header of an array of a billion items.
const GIANT_ARRAY: &[u8] = b"*1000000000\r\n";

/// A fault between a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Delays every reply by this duration. Replies do not wait for each other.
    DelayReplies(Duration),
    /// Delays every request by this duration. Requests do not wait for each other.
    DelayRequests(Duration),
    /// Cuts the next reply on any connection: this many bytes arrive, then a reset. The fault
    /// happens once.
    CutNextReply {
        /// The number of bytes that arrive.
        after_bytes: usize,
    },
    /// Cuts every connection in its next reply: this many bytes arrive, then a reset.
    CutReplies {
        /// The number of bytes that arrive.
        after_bytes: usize,
    },
    /// Requests reach the server, replies are lost.
    DropReplies,
    /// Replaces each reply by these bytes.
    ReplaceReplies(&'static [u8]),
    /// Replaces each reply by bytes that are not valid in the protocol.
    Garbage,
    /// Replaces each reply by the header of a bulk string of a terabyte.
    GiantBulk,
    /// Replaces each reply by the header of an array of a billion items.
    GiantArray,
    /// Sends requests and replies one byte at a time.
    Slice,
    /// Limits the throughput of each connection in each direction.
    Throttle {
        /// The throughput; zero counts as one.
        bytes_per_second: u32,
    },
    /// Nothing moves in either direction, not even the end of a connection; new connections are
    /// accepted.
    BlackHole,
    /// New connections are accepted but never served, as when a TLS handshake stalls. Existing
    /// connections continue.
    StallNew,
    /// The port is closed: new connections are refused. Existing ones continue until
    /// [`cut`](super::FaultProxy::cut).
    Refuse,
    /// Attempts to connect get no response at all, not even a refusal; existing connections
    /// continue. The port listens with the shortest possible backlog, which is full and never
    /// drained, so that Linux drops SYN packets. Nothing better is possible without network
    /// privileges; other systems may refuse instead.
    DropSyn,
    /// Alternates between two phases of this length: in the first one everything is cut and
    /// refused, in the second everything works.
    Flap {
        /// The length of each phase.
        every: Duration,
    },
}

/// The combined effects of a set of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) delay_requests: Duration,
    pub(super) delay_replies: Duration,
    pub(super) cut: Option<Cut>,
    pub(super) replies: Replies,
    pub(super) pace: Pace,
    pub(super) black_hole: bool,
    pub(super) stall_new: bool,
    pub(super) entry: Entry,
    pub(super) flap: Option<Duration>,
}

/// Where a reply is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) after_bytes: usize,
    /// Whether only one reply is cut.
    pub(super) once: bool,
}

/// What happens to a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Replies {
    #[default]
    Pass,
    Drop,
    Replace(&'static [u8]),
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Pace {
    #[default]
    Free,
    Slices,
    PerSecond(u32),
}

/// What happens to new connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Entry {
    #[default]
    Open,
    /// The port is closed.
    Refused,
    /// The port listens, with a full backlog.
    Full,
}

impl Effects {
    pub(super) fn of(faults: &[Fault]) -> Self {
        faults
            .iter()
            .fold(Self::default(), |effects, fault| effects.with(*fault))
    }

    /// After how many bytes a connection is to be cut, if at all. A cut that happens once is then
    /// used up.
    pub(super) fn claim_cut(&mut self) -> Option<usize> {
        let cut = self.cut?;
        if cut.once {
            self.cut = None;
        }
        Some(cut.after_bytes)
    }

    fn with(mut self, fault: Fault) -> Self {
        match fault {
            Fault::DelayReplies(delay) => self.delay_replies = delay,
            Fault::DelayRequests(delay) => self.delay_requests = delay,
            Fault::CutNextReply { after_bytes } => {
                self.cut = Some(Cut {
                    after_bytes,
                    once: true,
                });
            }
            Fault::CutReplies { after_bytes } => {
                self.cut = Some(Cut {
                    after_bytes,
                    once: false,
                });
            }
            Fault::DropReplies => self.replies = Replies::Drop,
            Fault::ReplaceReplies(bytes) => self.replies = Replies::Replace(bytes),
            Fault::Garbage => self.replies = Replies::Replace(GARBAGE),
            Fault::GiantBulk => self.replies = Replies::Replace(GIANT_BULK),
            Fault::GiantArray => self.replies = Replies::Replace(GIANT_ARRAY),
            Fault::Slice => self.pace = Pace::Slices,
            Fault::Throttle { bytes_per_second } => {
                self.pace = Pace::PerSecond(bytes_per_second.max(1));
            }
            Fault::BlackHole => self.black_hole = true,
            Fault::StallNew => self.stall_new = true,
            Fault::Refuse => self.entry = Entry::Refused,
            Fault::DropSyn => self.entry = Entry::Full,
            Fault::Flap { every } => self.flap = Some(every),
        }

        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_faults_add_up_and_a_later_one_replaces_its_kind() {
        let second = Duration::from_secs(1);
        let effects = Effects::of(&[
            Fault::DelayReplies(second),
            Fault::Garbage,
            Fault::Slice,
            Fault::DropReplies,
        ]);
        let expected = Effects {
            delay_replies: second,
            replies: Replies::Drop,
            pace: Pace::Slices,
            ..Effects::default()
        };
        assert_eq!(effects, expected);
    }
}
